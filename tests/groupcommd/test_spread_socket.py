"""What the daemon writes to a client of Spread in one turn is bounded, whatever is due."""

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from groupcomm.session.daemon_frames import encode_delivery
from groupcomm.session.spread import layout
from groupcomm.session.spread.session import PIECE_BYTES, READ_WORK
from groupcomm.wire.packet import Raw
from groupcommd.host.bounded_log import BoundedLog
from groupcommd.programs import spread_socket
from groupcommd.programs.half_messages import HalfMessages
from groupcommd.programs.spread_socket import SpreadSocket
from tests.groupcomm.session.spread.test_session import bundles, opened, request

MESSAGES = 100
TURN_BYTES = 20_000
"""Less than any socket takes."""


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, SpreadSocket]]:
    """The program's end, and the daemon's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        yield ours, SpreadSocket(theirs, opened(), BoundedLog(), "spread:ann", HalfMessages())


def test_a_turn_ends_though_the_socket_would_take_more(
    ends: tuple[socket.socket, SpreadSocket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread_socket, "TURN_BYTES", TURN_BYTES)
    ours, end = ends
    (bundle,) = bundles(opened().receive_untrusted(request(layout.AGREED, [b"room"], bytes(1000))))
    due: list[Raw] = []
    for at in range(MESSAGES):
        due += encode_delivery("#ben#b", 2, (1, 0, at), bundle.body)
    size, sizes = sum(map(len, due)), list[int]()
    while sum(sizes) < MESSAGES * (48 + 32 + 1000):
        try:
            taken = end.sendmsg(due)
        except BlockingIOError:
            taken = 0
        sizes.append(len(ours.recv(2**20)))
    assert taken == size, "all frames, in the last turn"
    assert max(sizes) < TURN_BYTES + 2 * PIECE_BYTES, "a piece more, as it was translated"


def test_a_read_that_is_full_may_have_left_something(
    ends: tuple[socket.socket, SpreadSocket],
) -> None:
    """Else the rest of a large message would wait for what comes behind it."""
    ours, end = ends
    ours.sendall(request(layout.AGREED, [b"room"], bytes(10_000)))
    assert not end.more
    for _ in range(10):
        with pytest.raises(BlockingIOError):
            end.recv(1000)
        assert end.more, "a part of the message waits in the socket"
    assert end.recv(1000)
    assert not end.more
    with pytest.raises(BlockingIOError):
        end.recv(1000)
    assert not end.more


def test_what_comes_while_messages_wait_is_read_behind_them(
    ends: tuple[socket.socket, SpreadSocket],
) -> None:
    """The system tells of it once, and the next read only translates what was read before."""
    ours, end = ends
    ours.sendall(request(layout.AGREED, [], b"") * 2 * READ_WORK)
    with pytest.raises(BlockingIOError):
        end.recv(2**20)
    ours.sendall(request(layout.AGREED, [b"room"], b"last"))
    found = b""
    for _ in range(10):
        assert end.more, "what has come was not read"
        end.pop_spent()
        with suppress(BlockingIOError):
            found += end.recv(2**20)
        if found:
            break
    assert b"last" in found
