"""Lamport's mutual exclusion: every process sorts all requests, and knows when its own is first.

Source: L. Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System", CACM 21(7),
1978, section "Ordering the Events Totally", rules 1 to 5.

Rule: (1) a process sends its request with its clock to all, and queues it; (2) a receiver queues it
and answers with a later clock; (3) a process has the resource when its request is the first of its
queue by (clock, process) and a later packet has come from every process; (4) a process sends its
release to all, and removes the request from its queue, (5) and so does every receiver of the
release. Three times as many packets a use as there are others.

Over channels that keep their order one process at a time has the resource, and all requests are
granted, in the order of their stamps. A request that may have caused another has the lower clock,
as messages of users carry clocks, too. A cause that bypasses these clocks (a telephone call) stays
unseen: the paper's anomalous behaviour.
"""

import enum
from collections.abc import Iterable

from groupcomm.clocks.lamport import LamportClock
from groupcomm_lessons.algorithms.mutual_exclusion import Claimant
from groupcomm_lessons.algorithms.process import Message, Name, Packet, Step


class Kind(enum.IntEnum):
    """The kind of a packet."""

    REQUEST = 1
    ANSWER = 2
    RELEASE = 3
    MESSAGE = 4  # a message of a user

    def __repr__(self) -> str:
        return self.name.lower()


class LamportMutex(Claimant):
    """A process with Lamport's rule; a stamp is (kind, clock)."""

    needs_fifo = True

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._clock = LamportClock()
        self._latest = {name: 0 for name in self.members if name != me}  # the last clock of each
        self._queue: dict[Name, int] = {}  # the clock of the request of each member that has one

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`."""
        message = self._message(data, destinations)
        stamp = Kind.MESSAGE, self._clock.send()
        own = (message,) if self.me in message.destinations else ()
        return Step(self._fan_out(message, stamp, message.destinations), own)

    def receive(self, packet: Packet) -> Step:
        """Advance the clock, update the queue, and check whether the resource is granted."""
        kind, clock = packet.stamp
        self._clock_received(packet.source, clock)
        packets: tuple[Packet, ...] = ()
        if kind == Kind.REQUEST:
            self._queue[packet.source] = clock
            packets = self._fan_out(None, (Kind.ANSWER, self._clock.send()), [packet.source])
        elif kind == Kind.RELEASE:
            self._queue.pop(packet.source, None)
        said = () if packet.message is None else (packet.message,)
        return Step(packets, said + self._turn())

    def says(self, packet: Packet) -> str:
        """See `Process.says`."""
        return Kind(packet.stamp[0]).name.lower()

    def _clock_received(self, source: Name, clock: int) -> None:
        self._latest[source] = clock
        self._clock.receive(clock)

    def _ask(self) -> Step:
        clock = self._queue[self.me] = self._clock.send()
        return Step(self._fan_out(None, (Kind.REQUEST, clock), self.members), self._turn())

    def _give_back(self) -> Step:
        del self._queue[self.me]
        return Step(self._fan_out(None, (Kind.RELEASE, self._clock.send()), self.members))

    def _turn(self) -> tuple[Message, ...]:
        """Return the grant, if rule 3 holds now and did not before."""
        if self.wish is None or self.holds:
            return ()
        own = self._queue[self.me], self.me
        first = all((clock, name) >= own for name, clock in self._queue.items())
        later = all((clock, name) > own for name, clock in self._latest.items())
        return self._granted() if first and later else ()
