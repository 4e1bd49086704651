"""A central scheduler: it grants the resource in the order in which requests come to it.

Source: L. Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System", CACM 21(7),
1978, section "Ordering the Events Totally", which shows that this is not enough.

Rule: the scheduler is the first member by name. A process sends it a request, waits for a grant,
    and sends a release; three packets a use. One process at a time has the resource, and every
    process gets it, but not in the order of the requests: a later request, even by a process that
    knows of an earlier one, may arrive first, even over channels that keep their order.
"""

import enum
from collections import deque
from collections.abc import Iterable

from groupcomm_lessons.algorithms.mutual_exclusion import Claimant
from groupcomm_lessons.algorithms.process import Name, Packet, Step


class Kind(enum.IntEnum):
    """The kind of a packet without a message."""

    REQUEST = 1  # a process to the scheduler
    GRANT = 2  # the scheduler to a process
    RELEASE = 3  # a process to the scheduler

    def __str__(self) -> str:
        return self.name.lower()


class CentralScheduler(Claimant):
    """A process with the scheduler's rule; a stamp is a `Kind`, and users' messages have none."""

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self.scheduler = self.members[0]
        self._queue: deque[Name] = deque()  # only the scheduler uses this and the next
        self._holder: Name | None = None

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a message of a user, which the scheduler does not see; see `Process.send`."""
        message = self._message(data, destinations)
        own = (message,) if self.me in message.destinations else ()
        return Step(self._fan_out(message, None, message.destinations), own)

    def receive(self, packet: Packet) -> Step:
        """Deliver a user's message, or process a packet to or from the scheduler."""
        if packet.message is not None:
            return Step(deliveries=(packet.message,))
        if packet.stamp == Kind.GRANT:
            return Step(deliveries=self._granted())
        return self._schedule(packet.source, packet.stamp)

    def says(self, packet: Packet) -> str:
        """See `Process.says`."""
        return str(Kind(packet.stamp))

    def _ask(self) -> Step:
        return self._tell_scheduler(Kind.REQUEST)

    def _give_back(self) -> Step:
        return self._tell_scheduler(Kind.RELEASE)

    def _tell_scheduler(self, kind: Kind) -> Step:
        if self.me == self.scheduler:
            return self._schedule(self.me, kind)
        return Step(self._fan_out(None, kind, [self.scheduler]))

    def _schedule(self, name: Name, kind: Kind) -> Step:
        """Queue a request or note a release; then grant the first request, if the resource is
        free."""
        if kind == Kind.REQUEST:
            self._queue.append(name)
        else:
            self._holder = None
        if self._holder is not None or not self._queue:
            return Step()
        self._holder = self._queue.popleft()
        if self._holder == self.me:
            return Step(deliveries=self._granted())
        return Step(self._fan_out(None, Kind.GRANT, [self._holder]))
