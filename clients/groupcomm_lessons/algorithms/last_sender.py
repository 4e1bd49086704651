"""The last message received as the stamp: right for one cause, and wrong for two.

Source: none, as nobody claims that it is right. It is the obvious way to shorten a message history:
a message need name only its latest cause, because that one names its own. This holds along a chain
of messages. It fails as soon as a process has received two messages of which neither may have
caused the other. Broadcasts only; over any channels.

Each process counts its deliveries of each sender. A stamp is the sender of the message that
its own sender delivered last, and that count of it; own messages are delivered, too, when they are
sent. By the source's rule a receiver delivers if the received count is *the same as* its own count
of that sender (`LastSenderSame`). Then a receiver that is ahead holds the message back for ever. So
the form in use asks whether its own count is as high at least (`LastSender`).
"""

from collections.abc import Iterable
from typing import NamedTuple

from groupcomm.trace.steps import MessageId
from groupcomm_lessons.algorithms.buffering import Buffering, Received
from groupcomm_lessons.algorithms.process import Name, Step


class CauseStamp(NamedTuple):
    """The stamp of a message: its sender, and its latest cause.

    Attributes:
        sender, number: the id of the message.
        cause, cause_number: the id of the last message that its sender delivered; "" and 0 without
            one.
    """

    sender: Name
    number: int
    cause: Name
    cause_number: int

    def concurrent_with(self, other: "CauseStamp") -> bool:
        """Return whether the stamps show that neither message may have caused the other.

        They do if two senders name the same cause, and causal order has held so far: a process that
        has delivered an effect first may name its cause after it. Others may be concurrent, too.
        """
        return self.sender != other.sender and self[2:] == other[2:]


class LastSender(Buffering):
    """A process that names one cause. It claims nothing, as others may send, too."""

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._counts = dict.fromkeys(self.members, 0)
        self._last: Name = ""

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`: the sender delivers at once."""
        message = self._broadcast(data, destinations)
        cause_number = self._counts.get(self._last, 0)
        stamp = CauseStamp(self.me, message.number, self._last, cause_number)
        self._deliver_from(self.me)
        return Step(self._fan_out(message, stamp, self.members), (message,))

    def _is_next(self, received: Received) -> bool:
        stamp: CauseStamp = received.stamp
        return self._counts.get(stamp.cause, 0) >= stamp.cause_number

    def _missing(self, received: Received) -> Iterable[MessageId]:
        stamp = received.stamp
        return [] if self._is_next(received) else [(stamp.cause, stamp.cause_number)]

    def _count(self, received: Received) -> None:
        self._deliver_from(received.message.sender)

    def _deliver_from(self, sender: Name) -> None:
        self._counts[sender] += 1
        self._last = sender


class LastSenderSame(LastSender):
    """A process that asks for the same count; it never delivers a message whose cause was
    followed."""

    def _is_next(self, received: Received) -> bool:
        stamp: CauseStamp = received.stamp
        return self._counts.get(stamp.cause, 0) == stamp.cause_number
