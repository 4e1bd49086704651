"""Horizon per site: a message waits until every site has promised to send nothing earlier.

Source: docs/design.md, "Delivery: blocks and horizons"; groupcomm/order is the real one, this is
the teaching form, in which a process is a site. It combines the stamps of L. Lamport, CACM 21(7),
1978, with the blocks of bus1: its queue releases nothing behind a block, here a site's horizon.

Rule: a message carries its site's clock and its number in the site's stream. A *horizon* h of a
    site is its promise that all its later messages have a clock above h; it names the number of the
    last message, and counts only once the stream is here up to that one. A message, too, is a
    horizon at its own clock. The lowest message by (clock, site) of those that are in their streams
    without a gap is delivered once no counted horizon is below its clock. A site announces a
    horizon when a foreign message is above the one it has announced, so an idle site holds up
    nobody.

Unlike the daemon, it has no timers, so each foreign message is answered unless a later message or
answer of this site is in flight already; its clock has no physical time; nothing is lost.

It keeps all three orders over any channels, where `acknowledged` needs channels that keep their
order: the numbers in the streams replace that. Where several sites send at once it needs fewer
answers.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from groupcomm.clocks.lamport import LamportClock
from groupcomm_lessons.algorithms.process import Message, Name, Order, Packet, Process, Step


class _Site:
    """The state of one other site: its stream, and the horizon that counts.

    Attributes:
        horizon: no message at or below this clock can still come.
    """

    def __init__(self) -> None:
        self.horizon = 0
        self._held = 0  # the site's messages up to this number have arrived
        self._early: dict[int, tuple[int, Message]] = {}  # clock and message beyond a gap
        self._notices: list[tuple[int, int]] = []  # number and horizon of notices beyond a gap

    def add(self, number: int, clock: int, message: Message) -> list[tuple[int, Message]]:
        """Add a message; return the messages that are now in the stream without a gap."""
        self._early[number] = clock, message
        found = []
        while following := self._early.pop(self._held + 1, None):
            self._held += 1
            self.horizon = max(self.horizon, following[0])
            found.append(following)
        self._count_notices()
        return found

    def announce(self, upto: int, horizon: int) -> None:
        """Note an announced horizon, which counts once the stream is here up to the number
        `upto`."""
        self._notices.append((upto, horizon))
        self._count_notices()

    def _count_notices(self) -> None:
        counted = [horizon for upto, horizon in self._notices if upto <= self._held]
        self.horizon = max([self.horizon, *counted])
        self._notices = [notice for notice in self._notices if notice[0] > self._held]

    @property
    def early(self) -> list[Message]:
        """Return the messages that are beyond a gap."""
        return [message for _, message in self._early.values()]


class SiteHorizons(Process):
    """A site: a stamp is (clock, number in the stream), without a message a horizon (h, upto).

    All sites get every message; a site that is not a destination only notes its place.
    """

    claims = frozenset(Order)

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._clock = LamportClock()
        self._announced = 0  # the horizon of this site that the others know
        self._others = {name: _Site() for name in self.members if name != me}
        self._queue: list[tuple[int, Name, Message]] = []  # a heap

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`."""
        message = self._message(data, destinations)
        self._announced = clock = self._clock.send()
        heappush(self._queue, (clock, self.me, message))
        return Step(self._fan_out(message, (clock, message.number), self.members), self._deliver())

    def receive(self, packet: Packet) -> Step:
        """Process a message, and promise to send nothing below it; or process such a promise."""
        clock, number = packet.stamp
        site = self._others[packet.source]
        if packet.message is None:
            site.announce(number, clock)
            return Step(deliveries=self._deliver())
        for each_clock, message in site.add(number, clock, packet.message):
            heappush(self._queue, (each_clock, packet.source, message))
        self._clock.receive(clock)
        return Step(self._promise(clock), self._deliver())

    def _promise(self, clock: int) -> tuple[Packet, ...]:
        """Announce a horizon, if the announced one is below a foreign clock."""
        if self._announced >= clock:
            return ()
        self._announced = self._clock.value
        return self._fan_out(None, (self._announced, self._sent), self.members)

    def _deliver(self) -> tuple[Message, ...]:
        least = min((site.horizon for site in self._others.values()), default=self._clock.value)
        deliveries = []
        while self._queue and self._queue[0][0] <= least:
            message = heappop(self._queue)[2]
            if self.me in message.destinations:
                deliveries.append(message)
        return tuple(deliveries)

    @property
    def waiting(self) -> tuple[Message, ...]:
        """Return the messages that wait, those beyond a gap last; see `Process.waiting`."""
        queued = [message for _, _, message in sorted(self._queue)]
        early = [message for site in self._others.values() for message in site.early]
        return tuple(m for m in queued + early if self.me in m.destinations)
