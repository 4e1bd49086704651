"""The line of a sender: what it has sent, over all of its sessions, and not got an answer for.

Pure. A line is one for all daemons, whatever sessions its sender has (groupcomm/groups/lines.py).
Each message has its number on the line for good. It is kept until the daemon has accepted it; the
next session sends again what is kept and was not delivered. docs/exactly-once.md has the states.
"""

import secrets
from collections import deque
from typing import Final

import msgspec

from groupcomm.errors import InDoubt
from groupcomm.events import LineGranted
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import LINE_BYTES

MOST_KEPT_BYTES: Final = 16 * 1024 * 1024
"""With more bytes without an answer the sender waits; one message may exceed it."""

MESSAGE_BYTES: Final = 200
"""What a message counts besides its data: about the memory that it takes."""

LOST_TABLE: Final = (
    "too many daemons were started anew at once, or one of an earlier release was among them, so"
    " that nobody knows what was delivered"
)
FORGOTTEN: Final = "the daemons have forgotten the line, as too many other senders ended since then"


BEFORE_FIRST: Final = 2**32
"""The number before a line's first message: above those of all joins and leaves of a session before
it, so that no number of a session comes twice."""


class Sent(msgspec.Struct, eq=False, gc=False):
    """A message that was sent, and has no answer yet."""

    number: int
    groups: tuple[str, ...]
    data: bytes
    level: ServiceLevel
    type: int
    self_discard: bool
    ordered: bool


class Line:
    """The line of one sender.

    Attributes:
        id: its id, which only its sender and the daemons know.
        last: the number of its last message.
        kept: the messages without an answer, by rising numbers.
        size: the bytes that they take.
    """

    __slots__ = ("_answered", "_table", "id", "kept", "last", "size")

    def __init__(self) -> None:
        self.id = secrets.token_bytes(LINE_BYTES)
        self.last = BEFORE_FIRST
        self._answered = self.size = 0
        self.kept: deque[Sent] = deque()
        self._table: tuple[bytes, int] | None = None

    @property
    def answered(self) -> int:
        """Return the number up to which messages have their answers."""
        return self._answered

    @property
    def known_table(self) -> tuple[bytes, int]:
        """Return the table that the last session was told, and how many lines it has forgotten."""
        return self._table or (b"", 0)

    @property
    def has_room(self) -> bool:
        """Return whether another message may be sent."""
        return self.size < MOST_KEPT_BYTES

    def add(self, sent: Sent) -> None:
        """Keep a message that was sent."""
        self.last = sent.number
        self.kept.append(sent)
        self.size += len(sent.data) + MESSAGE_BYTES

    def answer(self, upto: int) -> None:
        """Note that messages up to this number cannot be lost any more."""
        kept = self.kept
        while kept and kept[0].number <= upto:
            first = kept.popleft()
            self.size -= len(first.data) + MESSAGE_BYTES
            self._answered = first.number

    def begin(self, granted: LineGranted) -> list[Sent]:
        """Begin a session; return the messages to send again, by rising numbers.

        Raises:
            InDoubt: the daemons do not know any more what was delivered of the line.
        """
        before = self._table
        if self.kept and before is not None:
            if granted.table != before[0]:
                raise InDoubt(len(self.kept), LOST_TABLE)
            is_unknown = not granted.last and granted.forgotten != before[1]
            if is_unknown or granted.last < self._answered:
                raise InDoubt(len(self.kept), FORGOTTEN)
        self._table = (granted.table, granted.forgotten)
        self.answer(granted.last)
        return list(self.kept)
