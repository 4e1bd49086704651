"""What strangers do at any socket of a daemon adds a bounded number of lines to its log."""

import logging
import random
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import pytest
import trio

from groupcomm.session.frames import encode_hello
from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon
from groupcommd.host.bounded_log import BURST, INTERVAL_S, BoundedLog
from groupcommd.programs.token_file import add_token
from tests.groupcommd import spread_client as spread

WAIT_S = 10.0
COUNT: Final = 4 * BURST
MINUTES: Final = 3  # that the test may take


def test_a_kind_of_lines_is_written_some_times_and_then_once_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 100.0
    log = BoundedLog(lambda: now)
    with caplog.at_level(logging.INFO):
        for _ in range(BURST + 5):
            log.line("junk", logging.INFO, "junk of %s", "eve")
        log.line("other", logging.INFO, "another kind")
        now += INTERVAL_S
        for _ in range(3):
            log.line("junk", logging.INFO, "junk of %s", "eve")
        now += 1000 * INTERVAL_S
        for _ in range(BURST + 5):
            log.line("junk", logging.INFO, "junk of %s", "eve")
    junk = "junk of eve"
    assert caplog.messages == [
        *[junk] * BURST,
        "another kind",
        f"{junk}; 5 more lines like this were left out before it",
        f"{junk}; 2 more lines like this were left out before it",
        *[junk] * (BURST - 1),
    ]


ANY_SERVER: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
ANY_SERVER.check_hostname, ANY_SERVER.verify_mode = False, ssl.CERT_NONE


def say(to: str | Path, data: bytes, *, tls: bool = False) -> None:
    """Connect, send bytes, and read until the daemon ends the connection."""
    with ExitStack() as stack:
        if isinstance(to, Path):
            end = stack.enter_context(socket.socket(socket.AF_UNIX))
            end.connect(str(to))
        else:
            host, _, port = to.rpartition(":")
            end = stack.enter_context(socket.create_connection((host, int(port))))
        end.settimeout(WAIT_S)
        with suppress(ConnectionError, ssl.SSLError):
            if tls:
                end = stack.enter_context(ANY_SERVER.wrap_socket(end))
            end.sendall(data)
            end.shutdown(socket.SHUT_WR)
            while end.recv(65536):
                pass


def send(to: str, data: bytes) -> None:
    """Send a datagram."""
    host, _, port = to.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.sendto(data, (host, int(port)))


async def break_spread(to: Path) -> None:
    """Come in as a client of Spread, and then break its protocol."""
    async with await spread.connect(to, "eve") as eve:
        await eve.raw(eve.message(0, ["room"]))
        await eve.ended()


ANY: Final = [b"\0" * 64, b"\xff" * 64, random.Random(48).randbytes(300)]
HELLOS: Final = [encode_hello("eve\nmallory"), encode_hello("eve")[:-1], encode_hello("#" * 40)]
TARGETS: Final = ["//[", "http://[/livez", "//[v1.x]x", "*", "//x:y", "/%ff?%", "/metrics"]
HTTP: Final = [f"GET {each} HTTP/1.1\r\nHost: [\r\n\r\n".encode() for each in TARGETS]
SPREAD: Final = [b"\4\0\0\0", b"\5\1\0\x40eve", b"\3\x0d\0\1/", b"\4\4\0\3a#b"]


def listeners(daemon: LocalDaemon) -> dict[str, Callable[[bytes], None]]:
    """Return what sends bytes to a daemon, by listener."""
    return {
        "unix": partial(say, daemon.unix),
        "tcp": partial(say, daemon.tcp),
        "tls": partial(say, daemon.tls),
        "in tls": partial(say, daemon.tls, tls=True),
        "spread": partial(say, daemon.spread),
        "spread, admitted": lambda _: trio.run(break_spread, daemon.spread),
        "spread by tcp": partial(say, daemon.spread_tcp),
        "http": partial(say, daemon.http),
        "udp": partial(send, daemon.spread_tcp),  # the same address and port
    }


def test_at_every_listener_the_log_has_an_end(tmp_path: Path) -> None:
    make_authority(tmp_path, 1.0)
    certificate, key = issue(tmp_path, "a", ["127.0.0.1"], 1.0)
    add_token(tmp_path / "tokens", "ann")
    clients = f"""spread = true
tokens = "{tmp_path / "tokens"}"
tls = {{address = "127.0.0.1:0", certificate = "{certificate}", key = "{key}"}}"""
    head = '[http]\nlisten = "127.0.0.1:0"'
    junk = [*HTTP, *ANY, *HELLOS, *SPREAD]
    with closing(LocalCluster("a", head, clients=clients, tcp=True)) as cluster:
        daemon = cluster["a"]
        trio.run(daemon.start)
        for act in listeners(daemon).values():
            for data in islice(cycle(junk), COUNT):
                act(data)
        assert trio.run(daemon.leave) == 0
        lines = daemon.lines()
    assert "Traceback" not in str(lines)
    kinds = Counter(line.get("refused") or str(line["text"])[:40] for line in lines)
    assert {"handshake", "hello", "tls", "protocol"} < kinds.keys()
    assert max(kinds.values()) <= BURST + MINUTES
