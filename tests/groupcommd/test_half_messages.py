"""Half messages of clients of Spread have a bound; the client with the oldest one has to go."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from groupcomm.session.spread import layout
from groupcomm.session.spread.layout import Head, encode_head, encode_names
from groupcommd.host.bounded_log import BoundedLog
from groupcommd.programs.half_messages import HalfMessages
from groupcommd.programs.spread_socket import SpreadBroken, SpreadSocket
from tests.groupcomm.session.spread.test_session import opened, request


def test_nobody_has_to_go_within_the_bounds() -> None:
    halves = HalfMessages(100)
    assert halves.note("a", "ann", 50) is None
    assert halves.note("b", "ben", 50) is None
    assert halves.note("a", "ann", 0) is None
    assert halves.note("c", "cat", 50) is None


def test_the_oldest_of_a_principal_with_more_than_half_has_to_go() -> None:
    halves = HalfMessages(100)
    for client, principal in (("b", "ben"), ("x", "eve"), ("y", "eve")):
        assert halves.note(client, principal, 25) is None
    assert halves.note("z", "eve", 25) == "x"


def test_the_oldest_of_all_has_to_go_where_many_principals_share_too_much() -> None:
    halves = HalfMessages(100)
    for number in range(4):
        assert halves.note(number, f"p{number}", 25) is None
    assert halves.note(4, "p4", 25) == 0


def test_a_client_whose_message_came_whole_is_as_young_as_its_next_one() -> None:
    halves = HalfMessages(100)
    for client in "ab":
        halves.note(client, "ann", 25)
    halves.note("a", "ann", 25, begins=True)
    assert halves.note("c", "ann", 25) == "b"


class Streams:
    """Clients of Spread of one listener, and what their sockets tell the daemon."""

    def __init__(self, most: int) -> None:
        self._halves, self._stack, self._log = HalfMessages(most), ExitStack(), BoundedLog()

    def close(self) -> None:
        self._stack.close()

    def connect(self, principal: str = "spread:ann") -> tuple[socket.socket, SpreadSocket]:
        """Return the ends of the program and of the daemon."""
        ours, theirs = map(self._stack.enter_context, socket.socketpair())
        theirs.setblocking(False)
        return ours, SpreadSocket(theirs, opened(), self._log, principal, self._halves)


@pytest.fixture
def streams() -> Iterator[Streams]:
    found = Streams(4000)
    yield found
    found.close()


def read(end: SpreadSocket) -> bytes:
    try:
        return end.recv(65_536)
    except BlockingIOError:
        return b""


def test_who_sends_half_messages_on_many_connections_loses_the_oldest(streams: Streams) -> None:
    half, before = request(layout.AGREED, [b"room"], bytes(1000))[:900], HalfMessages.ended
    opened_ends = [streams.connect() for _ in range(4)]
    for ours, end in opened_ends:
        ours.sendall(half)
        assert read(end) == b""
    assert HalfMessages.ended == before + 2
    for ours, end in opened_ends[:2]:
        with pytest.raises(SpreadBroken, match="send messages whole"):
            end.recv(100)
        assert ours.recv(1) == b"", "its stream has ended"
    ours, end = opened_ends[2]
    ours.sendall(request(layout.AGREED, [b"room"], bytes(1000))[900:])
    assert read(end), "the others go on"


def test_who_goes_in_the_middle_of_a_message_leaves_room_for_others(streams: Streams) -> None:
    half, before = request(layout.AGREED, [b"room"], bytes(1000))[:900], HalfMessages.ended
    for _ in range(5):
        ours, end = streams.connect()
        ours.sendall(half)
        assert read(end) == b""
        end.close()
    assert HalfMessages.ended == before


def test_a_message_that_comes_slowly_is_heard_once_it_is_whole(streams: Streams) -> None:
    ours, end = streams.connect()
    for byte in encode_head(Head(layout.AGREED, b"#ann#a", 1, 0, False, 1)):
        ours.send(bytes((byte,)))
        assert read(end) == b""
    ours.sendall(encode_names([b"room"]) + b"x")
    assert read(end)
