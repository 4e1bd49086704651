"""Real time as the stamp: right if clocks agree and no message takes longer than the wait.

Source: F. Cristian, H. Aghili, R. Strong, D. Dolev, "Atomic Broadcast: From Simple Message
Diffusion to Byzantine Agreement", FTCS 1985, reduced to its clocks. Broadcasts only; any channels.

A message carries the time of its sending. Every process, the sender too, delivers it when its own
clock is `wait` later, in the order of the stamps. If all clocks agree and every message takes less
than `wait`, the order is total and causal. A process knows neither, so the algorithm claims
nothing:

1. no receiver can know that an earlier message is still in flight, and it comes too late;
2. a clock that is behind gives an effect an earlier time than its cause.

A message that comes too late is delivered at once.
"""

from bisect import insort
from collections.abc import Iterable
from typing import NamedTuple

from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.buffering import Buffering, Received
from groupcomm_lessons.algorithms.process import Name, Packet, Step


class TimeStamp(NamedTuple):
    """The stamp of a message; stamps sort by time, then by sender and number.

    Attributes:
        time: the time of its sender's clock, in microseconds.
        sender, number: the id of the message.
    """

    time: int
    sender: Name
    number: int

    def concurrent_with(self, other: "TimeStamp") -> bool:
        """Return whether the stamps show that neither message may have caused the other.

        They do if clocks agree, `wait` is not 0 and the times are the same. Others may be
        concurrent, too.
        """
        return self.time == other.time and self.sender != other.sender


class RealTime(Buffering):
    """A process that waits by its clock, which the caller sets.

    Attributes:
        now: its clock, in microseconds.
        wait: the time from sending to delivery, in microseconds; it should be longer than any
            message takes.
    """

    def __init__(self, me: Name, members: Iterable[Name], *, wait: int = 0, now: int = 0) -> None:
        super().__init__(me, members)
        self.wait = wait
        self.now = now

    def set_clock(self, now: int) -> Step:
        """Set the clock to `now`; deliver the messages that are due.

        Raises:
            LocalProtocolError: the time is before the present one.
        """
        if now < self.now:
            raise LocalProtocolError(
                f"the clock of {self.me} shows {self.now}, and cannot be set back to {now}"
            )
        self.now = now
        return Step(deliveries=tuple(self._pop_next()))

    @property
    def deadline(self) -> int | None:
        """Return the clock's time when the next message is due; None if none waits."""
        return self._buffer[0].stamp.time + self.wait if self._buffer else None

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a message, for which the sender waits like all others; see `Process.send`."""
        message = self._broadcast(data, destinations)
        stamp = TimeStamp(self.now, self.me, message.number)
        packets = self._fan_out(message, stamp, self.members)
        return Step(packets, self.receive(Packet(self.me, self.me, message, stamp)).deliveries)

    def receive(self, packet: Packet) -> Step:
        """Put a message in its place, and deliver the messages that are due."""
        assert packet.message is not None
        insort(self._buffer, Received(packet.message, packet.stamp), key=lambda one: one.stamp)
        return Step(deliveries=tuple(self._pop_next()))

    def _is_next(self, received: Received) -> bool:
        return bool(received.stamp.time + self.wait <= self.now)

    def _count(self, received: Received) -> None:
        """Count nothing."""
