"""Targets in archives and subscribers: messages between them, channels, and their machines.

An input of a machine is one message, which any program may send it.
"""

from functools import lru_cache
from typing import Final

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import BadDatagram
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_archive import comparing
from groupcomm_archive.agreement import Agreement
from groupcomm_archive.archive import Archive, ReadStore
from groupcomm_archive.cursors import ArchivedCursors, StoreCursors
from groupcomm_archive.digests import Digest, Range, range_of
from groupcomm_archive.rights import Rights
from groupcomm_client.history import channel
from groupcomm_client.history import frames as history
from groupcomm_client.history.channel import HELLO_BYTES, PieceOpener
from groupcomm_client.history.frames import ARCHIVES, LENGTH_BYTES
from groupcomm_client.history.given import EARLIEST
from groupcomm_client.history.places import NOWHERE, Line, just_before
from groupcomm_client.history.subscriber import State, Subscriber
from tests.groupcomm_client.history.pieces import piece_of
from tests.verification.campaigns.fuzz.checks import Target, known, stable

INPUTS_EACH: Final = 200
"""The inputs of one machine."""

ME: Final = MemberId("#me#a", 1)
ANN: Final = MemberId("#ann#b", 2)
KEY: Final = bytes(range(32))
PIECES: Final = (b"one", b"two" * 20, b"three")
"""What the archive has sealed for a channel with this key."""

AT: Final = Position(ViewId(2**32, "a", 2**63), 2**50, 1, 2, 0)


def later(time: int) -> Position:
    """Return a place in the view, some microseconds later."""
    return AT._replace(time=AT.time + time)


def view_of(group: str, id: Position, *, own: bool = False) -> GroupView:
    """Return a view of a group with both members."""
    return GroupView(
        group=group,
        id=id,
        members=(ME, ANN),
        cause=Cause.JOIN,
        changed=(ME,) if own else (ANN,),
        vs_set=(ME,),
        own=own,
    )


# ---- messages and channels ----


def _events_of(raw: bytes) -> None:
    """Decode a piece, and its events; these make a piece that has the same ones."""
    piece = known(history.decode_untrusted(raw))
    if not isinstance(piece, history.Piece):
        raise BadDatagram("another kind of frame")
    made = _piece_of(known(history.events_of_untrusted(piece)))
    assert _piece_of(known(history.events_of_untrusted(made))) == made


def _piece_of(events: list[Line]) -> history.Piece:
    return piece_of(events, 1, 0, NOWHERE, NOWHERE)


def _channel_of(raw: bytes) -> None:
    found = channel.channel_of_untrusted(raw)
    assert len(raw) == HELLO_BYTES
    assert found in raw
    assert not channel.is_proved(raw, KEY) or raw == channel.hello(found, KEY)


def _expect(raw: bytes) -> None:
    """Read a length; the caller has waited for LENGTH_BYTES bytes."""
    size = PieceOpener(KEY).expect_untrusted(raw[:LENGTH_BYTES].ljust(LENGTH_BYTES, b"\0"))
    assert 0 < size <= channel.CHUNK_BYTES + 16


def _open(raw: bytes) -> None:
    """Read a channel: nothing comes out of it that the archive has not put in, in its order."""
    opener, at, opened = PieceOpener(KEY), 0, 0
    while at < len(raw):
        size = opener.expect_untrusted(raw[at : at + LENGTH_BYTES].ljust(LENGTH_BYTES, b"\0"))
        at += LENGTH_BYTES
        piece = opener.open_untrusted(raw[at : at + size])
        at += size
        if piece is not None:
            assert piece == PIECES[opened]
            opened += 1


# ---- machines ----


class _Archive:
    """The machines of an archive, with a store that is empty but for places."""

    def __init__(self) -> None:
        self.now, self.inputs = 0.0, 0
        span = range_of(AT)
        held = [(just_before(AT), later(10)), (later(20), later(30))]
        self.archive = Archive(ME, ("g", "h"), held)
        self.agreement = Agreement()
        self.agreement.begin_session(ME)
        self.agreement.is_live = True
        self.cursors = ArchivedCursors(ME)
        self.rights = Rights(ME)
        archives = view_of(ARCHIVES, AT, own=True)
        self.agreement.handle(archives)
        self.agreement.update(
            {"g": [(NOWHERE, Range(AT.view, span.span + 9).last)]},
            {"g": Range(AT.view, span.span + 9).last},
            [("g", span, Digest(1, AT, b"digest"))],
            [],
        )
        self.cursors.handle(archives)
        self.act()

    def handle(self, message: Message) -> None:
        """Handle a message as the program of an archive does, which lets everybody read."""
        self.now += 1
        allowed = [message] if self.rights.admit(message, self.now) else []
        pairs = self.rights.questions(self.now)
        allowed += self.rights.decide([(pair, True) for pair in pairs], self.now)
        for each in allowed:
            self.archive.handle(each, self.now)
        self.agreement.handle(message)
        self.cursors.handle(message)
        self.archive.wake(self.now)
        self.agreement.wake(self.now)
        self.rights.keep(self.archive.streams)
        self.act()

    def act(self) -> None:
        """Do what the machines want; writes are done at once, a read of the store finds nothing."""
        for action in self.archive.pop_actions():
            if isinstance(action, ReadStore):
                end = history.Piece(
                    *(action.key[1], action.index, action.after, action.upto),
                    is_end=not action.is_last,
                )
                self.archive.read(action.key, history.encode_piece(end), self.now)
        while any(isinstance(action, StoreCursors) for action in self.cursors.pop_actions()):
            self.cursors.stored()
        self.agreement.pop_actions()
        self.agreement.pop_differences()
        self.rights.pop_actions()


_archive = lru_cache(maxsize=1)(_Archive)


def _archive_receives(raw: bytes) -> None:
    """Check that an archive gets over any message, to itself or to all archives."""
    machines = _archive()
    machines.inputs += 1
    if machines.inputs >= INPUTS_EACH:
        _archive.cache_clear()
    for to in (ME.name, ARCHIVES):
        machines.handle(Message(ANN, 1, (to,), ServiceLevel.AGREED, 0, raw, AT, principal="ann"))
    known(history.decode_untrusted(raw) or comparing.decode_comparing_untrusted(raw))


class _Subscriber:
    """A subscriber that looks for an archive, and gets its answers."""

    def __init__(self) -> None:
        self.now, self.inputs = 0.0, 0
        view = DaemonView(id=AT.view, daemons=("a", "b"), majority=True)
        self.subscriber = Subscriber(ME, ("g",), EARLIEST, now=0.0, view=view, has_channels=True)
        self.subscriber.handle(view_of("g", later(10), own=True), 0.0)
        self.subscriber.wake(0.0)  # it asks

    def handle(self, raw: bytes) -> None:
        """Handle a message of an archive; time passes."""
        message = Message(ANN, 1, (ME.name,), ServiceLevel.FIFO, 0, raw, None)
        self.subscriber.handle(message, self.now)
        self.now += 0.1
        self.subscriber.wake(self.now)
        self.subscriber.pop_actions()
        self.subscriber.waiting.pop()
        self.subscriber.taken(self.now)
        assert self.subscriber.state in State


_subscriber = lru_cache(maxsize=1)(_Subscriber)


def _subscriber_receives(raw: bytes) -> None:
    """Check that a subscriber gets over any answer of an archive."""
    machine = _subscriber()
    machine.inputs += 1
    if machine.inputs >= INPUTS_EACH:
        _subscriber.cache_clear()
    machine.handle(raw)
    known(history.decode_untrusted(raw))


HISTORY_TARGETS: Final[dict[str, Target]] = {
    "client.history.frames": stable(history.decode_untrusted, history.encode),
    "client.history.frames.events_of": _events_of,
    "client.history.channel.channel_of": _channel_of,
    "client.history.channel.expect": _expect,
    "client.history.channel.open": _open,
    "client.history.subscriber": _subscriber_receives,
    "archive.comparing.comparing": stable(
        comparing.decode_comparing_untrusted, comparing.encode_comparing
    ),
    "archive": _archive_receives,
}
