"""Every listener gets bytes for another one: it ends the connection, and nothing else."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from groupcomm.host.key_file import write_key_file
from groupcomm.session.frames import encode_hello
from groupcomm_client.blocking import connect
from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.programs.token_file import add_token
from tests.groupcomm_tools.shell import NO_PAUSES
from tests.verification.campaigns.fuzz.port_targets import pieces, sealed_core
from tests.verification.campaigns.fuzz.seeds import SEEDS

PATIENCE_S: Final = 20.0

OWN: Final = {("unix", "program"), ("tcp", "program"), ("tls", "tls")}
"""The bytes for each listener; all others are wrong there."""


def client_hello() -> bytes:
    """The first bytes of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="press")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def said() -> dict[str, bytes]:
    """The first bytes of each kind of peer."""
    join = sealed_core("a").step(0.0, [], []).datagrams[0][1]
    hello, session = list(pieces(SEEDS["daemon.listeners.local"][0]))[0::2]
    return {
        "program": hello + session,
        "daemon, sealed": join,
        "daemon, without keys": SEEDS["security.plain.open"][0],
        "daemon's answer": (len(SEEDS["session.daemon_frames.welcome"][0])).to_bytes(4)
        + SEEDS["session.daemon_frames.welcome"][0],
        "peer without a daemon": SEEDS["lessons.algorithms.direct.datagrams.datagram"][0],
        "member of a secret group": SEEDS["client.end_to_end.frames.frame"][0],
        "tls": client_hello(),
        "http": b"GET /status HTTP/1.1\r\nHost: press\r\n\r\n",
        "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
        "redis": b"*1\r\n$4\r\nPING\r\n",
        "proxy": b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n",
        "zeros": bytes(100),
        "ones": b"\xff" * 100,
    }


SAID: Final = said()


class Daemon:
    """One with every kind of listener, keys and nobody else."""

    def __init__(self, cluster: RunningCluster, ca: Path) -> None:
        self.cluster = cluster
        self.ca = ca

    @property
    def status(self) -> dict[str, Any]:
        with connect(self.cluster.address("a")) as local:
            return local.ask("status")

    def open(self, listener: str) -> socket.socket:
        """A connection that has said nothing; `inside` has shaken hands with the port for TLS."""
        if listener == "unix":
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(PATIENCE_S)
            made.connect(self.cluster.address("a"))
            return made
        cluster = self.cluster
        where = cluster.tcp_address("a") if listener == "tcp" else cluster.tls_address("a")[6:]
        host, _, port = where.rpartition(":")
        made = socket.create_connection((host, int(port)), PATIENCE_S)
        if listener != "inside":
            return made
        context = ssl.create_default_context(cafile=self.ca)
        return context.wrap_socket(made, server_hostname=host)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("listeners")
    ca, _ = make_authority(folder, 1.0)
    certificate, key = issue(folder, "press", ["127.0.0.1"], 1.0)
    write_key_file(folder / "the.key")
    add_token(folder / "tokens", "sensor")
    tls = f'{{address = "127.0.0.1:0", certificate = "{certificate}", key = "{key}"}}'
    clients = f'tls = {tls}\ntokens = "{folder / "tokens"}"'
    settings = f'key_file = "{folder / "the.key"}"\n{NO_PAUSES}'
    with RunningCluster(1, settings=settings, clients=clients, tcp=True) as cluster:
        yield Daemon(cluster, ca)


def is_closed(client: socket.socket) -> bool:
    """Return whether the daemon ends a connection of its own accord."""
    try:
        while client.recv(65_536):
            pass
    except TimeoutError:
        return False
    except (ConnectionError, ssl.SSLError):
        pass
    return True


@pytest.mark.parametrize("listener", ["unix", "tcp", "tls", "inside"])
def test_what_is_not_for_a_listener_is_cut_off(listener: str, daemon: Daemon) -> None:
    before = daemon.status
    for who, data in SAID.items():
        if (listener, who) not in OWN:
            with daemon.open(listener) as stranger:
                stranger.sendall(data)
                assert is_closed(stranger), who
    unharmed(daemon, before)


def test_a_program_is_cut_off_where_it_says_something_before_its_name(daemon: Daemon) -> None:
    before = daemon.status
    hello = encode_hello("max")
    behind = SAID["program"][len(hello) :]
    for listener in ("unix", "tcp", "inside"):
        for data in (behind, hello[:4] + b"\x02" + hello[5:], behind + hello):
            with daemon.open(listener) as stranger:
                stranger.sendall(data)
                assert is_closed(stranger)
    unharmed(daemon, before)


def test_what_is_not_for_the_port_of_datagrams_is_dropped_and_not_answered(daemon: Daemon) -> None:
    before = daemon.status
    host, _, port = before["listens"].rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.0.0.1", 0))
        for data in SAID.values():
            stranger.sendto(data, (host, int(port)))
        after = daemon.status  # the daemon has read those datagrams before this request
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.recv(65_536)
    dropped = [sum(each["datagrams"]["rejected"].values()) for each in (before, after)]
    assert dropped[1] - dropped[0] == len(SAID)
    assert after["datagrams"]["sent"] == before["datagrams"]["sent"]
    unharmed(daemon, before)


def unharmed(daemon: Daemon, before: dict[str, Any]) -> None:
    """It serves as it did, in the same view, and nobody is there who was not before."""
    after = daemon.status
    for unchanged in ("pid", "restarts", "view", "messages"):
        assert after[unchanged] == before[unchanged]
    assert [each["principal"] for each in after["sessions"]] == [
        each["principal"] for each in before["sessions"]
    ]
    assert "slow" not in after["refused"], "nobody was waited for"
    bugs = [
        line for line in daemon.cluster.log("a") if "failed to serve connection" in line["text"]
    ]
    assert not bugs, bugs[0]["trace"]
