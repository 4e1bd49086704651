"""Hosts that vanish behind TLS and behind HTTP: nothing comes any more, and nobody says so.

`tests.verification.campaigns.vanished_hosts` pulls the cables of real interfaces.
"""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from groupcomm.errors import SessionEnded
from groupcomm.events import Cause, GroupView
from groupcomm_client import ConnectOptions, TlsOptions
from groupcomm_client.blocking import connect
from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.http.events import STALLED_S
from tests.groupcommd.http import browser
from tests.groupcommd.virtual import virtual_clock, virtual_daemons

PATIENCE_S: Final = 20.0
SILENT_S: Final = 2.0


class Cable:
    """A way to an address that carries bytes until it is pulled; then it swallows them.

    Attributes:
        address: where it begins.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._pulled = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._carry)
        self._thread.start()

    def pull(self) -> None:
        """Carry nothing more; both sockets stay open."""
        self._pulled.set()

    def close(self) -> None:
        """End it."""
        self._ended.set()
        self._thread.join()

    def _carry(self) -> None:
        with self._listener, selectors.DefaultSelector() as selector:
            here, _ = self._listener.accept()
            with here, socket.create_connection(self._target) as there:
                selector.register(here, selectors.EVENT_READ, there)
                selector.register(there, selectors.EVENT_READ, here)
                while not self._ended.is_set():
                    for key, _ in selector.select(0.05):
                        data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                        if not self._pulled.is_set():
                            key.data.sendall(data)
                        if not data:
                            selector.unregister(key.fileobj)


@contextmanager
def plant(folder: Path) -> Iterator[tuple[RunningCluster, TlsOptions]]:
    """A daemon that programs reach over TLS, and what a program needs for it."""
    ca, _ = make_authority(folder, 1.0)
    certificate, key = issue(folder, "press", ["127.0.0.1"], 1.0)
    clients = (
        f'session_timeout_s = {SILENT_S}\nunix_for = "all"\n'
        f'tls = {{address = "127.0.0.1:0", certificate = "{certificate}", key = "{key}",'
        f' ca = "{ca}"}}\n'
    )
    own_certificate, own_key = issue(folder, "ann", [], 1.0)
    with RunningCluster("a", clients=clients) as cluster:
        yield cluster, TlsOptions(ca=ca, certificate=own_certificate, key=own_key)


def test_a_program_over_tls_whose_host_vanishes_is_out_of_its_group(tmp_path: Path) -> None:
    with (
        plant(tmp_path) as (cluster, tls),
        closing(Cable(cluster.tls_address("a").removeprefix("tls://"))) as cable,
        connect(cluster.address("a")) as bob,
        connect(
            f"tls://{cable.address}",
            user="ann",
            tls=tls,
            options=ConnectOptions(daemon_timeout_s=SILENT_S),
        ) as ann,
    ):
        ann.join("g")
        bob.join("g")
        cable.pull()
        while not isinstance(event := bob.receive(PATIENCE_S), GroupView) or (
            event.cause is not Cause.DISCONNECT
        ):
            continue
        assert event.changed == (ann.member,)
        with connect(cluster.address("a"), user="ann"):
            pass  # her name is free
        with pytest.raises(SessionEnded, match="nothing has come from the daemon for 2 s"):
            list(ann)


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


async def test_the_system_ends_a_stream_whose_reader_has_vanished(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Without acknowledgements of the events, and without any event to acknowledge."""
    async with virtual_daemons(tmp_path, "a", head='[http]\nlisten = "127.0.0.1:0"\n') as daemons:
        stream = await browser.connect(daemons["a"].http)
        await stream.send_all(browser.request("/events"))
        await browser.read_answer(stream)
        (watching,) = daemons["a"].http_server.streams._streams
        made = watching.socket
        assert isinstance(made, socket.socket)
        unacknowledged_ms = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert unacknowledged_ms == 1000 * STALLED_S
        idle, each, most = (
            made.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert idle + each * most <= STALLED_S
        await stream.aclose()
