"""Reassembly of large messages from their fragments, at the client that receives them.

Fragments of RELIABLE and UNRELIABLE messages may come in any order; those of different senders
always mix. A sender has one message at FIFO or above in fragments at a time, so a new one shows
that the old one was given up; of UNRELIABLE messages only the newest is kept, as the parts of an
older one may be lost. The memory for each sender is bounded, and so is the memory for all together.
"""

from typing import Final, TypeAlias

from groupcomm.clocks.stamp import Position
from groupcomm.errors import BadDatagram
from groupcomm.events import CausalContext, MemberId, Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.messages import MAX_MESSAGE_BYTES, decode_fragment_untrusted
from groupcomm.wire.packet import Raw

SENDER_CAP_BYTES: Final = 2 * MAX_MESSAGE_BYTES
"""The bytes that one sender's unfinished messages may fill: one, and those that overtake it."""

PART_BYTES: Final = 128
"""The cost of keeping a part, besides its data."""

UNFINISHED_BYTES: Final = 1024
"""The cost of keeping an unfinished message, besides its parts."""

_UNRELIABLE: Final = int(ServiceLevel.UNRELIABLE)
_RELIABLE: Final = int(ServiceLevel.RELIABLE)

_About: TypeAlias = tuple[int, int, int, tuple[str, ...], int, int]
"""The common parts of all fragments of a message: count, level, flags, groups, type, length."""


class _Unfinished:
    """A message and its parts that have come, by index; `size` is the size of their data."""

    __slots__ = ("about", "causes", "cost", "level", "parts", "position", "size")

    def __init__(self, about: _About) -> None:
        self.about = about
        self.level = about[1]
        self.size = 0
        self.cost = 0
        self.parts: dict[int, Raw] = {}
        self.position: Position | None = None
        self.causes: CausalContext | None = None


class _Sender:
    """The unfinished messages of one sender by number, oldest first, and their cost."""

    __slots__ = ("cost", "messages")

    def __init__(self) -> None:
        self.cost = 0
        self.messages: dict[int, _Unfinished] = {}


class Reassembly:
    """The unfinished messages of all senders.

    Attributes:
        cap_bytes: the bytes that they may fill together; above it UNRELIABLE ones are dropped.
        held_bytes: the bytes that they fill; above the cap only if no UNRELIABLE ones are left.
    """

    __slots__ = ("_senders", "cap_bytes", "held_bytes")

    def __init__(self, cap_bytes: int) -> None:
        self.cap_bytes = cap_bytes
        self.held_bytes = 0
        self._senders: dict[MemberId, _Sender] = {}

    def add(
        self,
        member: MemberId,
        bundle: Bundle,
        payload: Raw,
        position: Position | None,
        causes: CausalContext | None = None,
    ) -> Message | None:
        """Add a fragment; return its message if it was the last one missing.

        Raises:
            BadDatagram: the sender has broken a rule; the fragment is dropped.
        """
        type_, total, data = decode_fragment_untrusted(payload)
        if total > MAX_MESSAGE_BYTES or not data:
            raise BadDatagram("fragment", f"{len(data)} of {total} bytes")
        about = (bundle.count, bundle.level, bundle.flags, bundle.groups, type_, total)
        message = self._find(member, bundle.message, about)
        if message is None or bundle.index in message.parts:
            return None
        if message.size + len(data) > total:
            raise BadDatagram("fragment", f"more than {total} bytes in the parts of a message")
        message.parts[bundle.index] = data
        message.size += len(data)
        if bundle.index == bundle.count - 1:
            message.position = position  # the last fragment has the message's position
            message.causes = causes
        if len(message.parts) == bundle.count:
            return self._finish(member, bundle.message)
        new = UNFINISHED_BYTES if len(message.parts) == 1 else 0
        self._charge(member, message, new + PART_BYTES + len(data))
        return None

    def drop(self, member: MemberId, number: int) -> None:
        """Drop an unfinished message of a sender, or with number 0 all its unfinished messages."""
        sender = self._senders.get(member)
        if sender is None:
            return
        for known in list(sender.messages) if number == 0 else [number]:
            if known in sender.messages:
                self._forget(member, known)

    def _find(self, member: MemberId, number: int, about: _About) -> _Unfinished | None:
        """Return the message of a fragment, known or new; None if a newer one has replaced it."""
        sender = self._senders.get(member)
        if sender is not None:
            known = sender.messages.get(number)
            if known is not None:
                if known.about != about:
                    raise BadDatagram("fragment", f"fragments of message {number} disagree")
                return known
            if about[1] != _RELIABLE and not self._supersede(member, number, about[1]):
                return None
        message = _Unfinished(about)
        self._senders.setdefault(member, _Sender()).messages[number] = message
        return message

    def _supersede(self, member: MemberId, number: int, level: int) -> bool:
        """Drop the messages that a new one at FIFO or above, or an UNRELIABLE one, replaces."""
        for known, message in list(self._senders[member].messages.items()):
            alike = (message.level == _UNRELIABLE) == (level == _UNRELIABLE)
            if alike and message.level != _RELIABLE:
                if known > number:
                    return False
                self._forget(member, known)
        return True

    def _charge(self, member: MemberId, message: _Unfinished, cost: int) -> None:
        """Add to the cost of a message; if it is too much, drop the oldest one, even itself."""
        sender = self._senders[member]
        message.cost += cost
        sender.cost += cost
        self.held_bytes += cost
        while sender.cost > SENDER_CAP_BYTES:
            self._forget(member, next(iter(sender.messages)))
        if self.held_bytes > self.cap_bytes:
            self._forget_unreliable()

    def _forget_unreliable(self) -> None:
        for member, sender in list(self._senders.items()):
            for number, message in list(sender.messages.items()):
                if message.level == _UNRELIABLE:
                    self._forget(member, number)

    def _forget(self, member: MemberId, number: int) -> _Unfinished:
        sender = self._senders[member]
        message = sender.messages.pop(number)
        sender.cost -= message.cost
        self.held_bytes -= message.cost
        if not sender.messages:
            del self._senders[member]
        return message

    def _finish(self, member: MemberId, number: int) -> Message:
        message = self._forget(member, number)
        count, level, _, groups, type_, total = message.about
        if message.size != total:
            raise BadDatagram("fragment", f"{message.size} of {total} bytes in all parts")
        return Message(
            sender=member,
            number=number,
            groups=groups,
            level=LEVELS[level],
            type=type_,
            data=b"".join([message.parts[index] for index in range(count)]),
            bundle=message.position,
            causes=message.causes,
        )
