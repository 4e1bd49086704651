"""A global number as the stamp: causal and total, as long as no two messages are concurrent.

Source: the naive form of a sequencer (M. Kaashoek, A. Tanenbaum, "Group Communication in the Amoeba
Distributed Operating System", ICDCS 1991), except that the number goes round instead of the process
that gives it. Broadcasts only; over any channels.

A process keeps the highest number that it has sent or delivered, 0 at first. It sends with the next
number, and delivers the message with the next one. So every number names one message only if each
is sent by a process that has delivered all before. If not, two messages get one number, and a
process that has delivered one of them finds that the other is not the next: it is concurrent. Then
there are two choices: an error, or delivery at once. The latter loses causal order: a number does
not say any more which of the messages with the number below it must come first.
"""

from collections.abc import Iterable
from typing import NamedTuple

from groupcomm_lessons.algorithms.buffering import Buffering, Received
from groupcomm_lessons.algorithms.concurrency import ConcurrentMessage
from groupcomm_lessons.algorithms.process import Name, Packet, Step


class NumberStamp(NamedTuple):
    """The stamp of a message: a number that another message may have only by mistake."""

    number: int
    sender: Name

    def concurrent_with(self, other: "NumberStamp") -> bool:
        """Return whether the stamps show that neither message may have caused the other.

        They do if the numbers are equal. Others may be concurrent, too.
        """
        return self.number == other.number and self.sender != other.sender


class GlobalId(Buffering):
    """A process that delivers a concurrent message at once. It claims nothing: users may
    collide."""

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._number = 0

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`: the sender delivers at once."""
        message = self._broadcast(data, destinations)
        self._number += 1
        stamp = NumberStamp(self._number, self.me)
        return Step(self._fan_out(message, stamp, self.members), (message,))

    def _is_next(self, received: Received) -> bool:
        return bool(received.stamp.number <= self._number + 1)

    def _count(self, received: Received) -> None:
        if received.stamp.number <= self._number:
            self._trace.concurrent(received.message.id)
        self._number = max(self._number, received.stamp.number)


class GlobalIdOrError(GlobalId):
    """A process that refuses a concurrent message."""

    def receive(self, packet: Packet) -> Step:
        """See `Buffering.receive`.

        Raises:
            ConcurrentMessage: its number was used already by another message.
        """
        assert packet.message is not None
        used = {received.stamp.number for received in self._buffer}
        if packet.stamp.number <= self._number or packet.stamp.number in used:
            self._trace.concurrent(packet.message.id)
            raise ConcurrentMessage(self.me, packet.message)
        return super().receive(packet)
