"""An abstract daemon for generated histories: the rules of the order without any protocol.

There are no packets on a wire, no token and no bytes. A daemon looks at the packets that all
daemons hold where a real one would wait for messages that report them. Every rule is written down
once more here, so that checkers and core are not tested against themselves.
"""

from collections import deque

from groupcomm.trace.events import Count, Hold, Release, Stamped
from tests.verification.generators.records import (
    AGREED,
    CAUSAL,
    FIFO,
    FRAGMENT,
    SAFE,
    Bundle,
    Log,
    Notice,
    Packet,
    Place,
    Session,
)
from tests.verification.generators.sessions import AbstractSessions


class Daemon:
    """One daemon: its packets, its releases, and the notices to its clients.

    Attributes:
        blocks: per ring, nothing at or below can still come.
        prefix: per ring, everything up to this number is held.
        waiting: bundles without a number.
        inbox: the items in flight to it.
        desk: its clients, and the groups as it knows them.
    """

    def __init__(self, identity: str, ring: int, view: str, log: Log) -> None:
        self.identity = identity
        self.name = identity.rpartition("/")[0]
        self.ring = ring
        self.view = view
        self._log = log
        self.desk = AbstractSessions(identity, view, log)
        self.waiting: deque[Bundle] = deque()
        self.inbox: list[Packet | Notice | Bundle] = []
        self.held = 0
        self.notices: list[Notice] = []
        self.low: list[Bundle] = []  # held bundles below AGREED that are not released
        self.agreed: list[Bundle] = []  # the same from AGREED on, by place
        self.done: Place = (0, 0, 0)
        self.ranks: dict[Session, int] = {}  # ranks of released items at FIFO or above
        self.answers: list[Bundle] = []  # ordered bundles without an answer
        self.checks: list[Bundle] = []  # bundles with private names that have perhaps not arrived

    def join_view(self, daemons: list["Daemon"], rings: int, start: int) -> None:
        """Begin with the daemons of the view; packets are numbered from ``start + 1`` on."""
        self.daemons = daemons
        self.blocks = [0] * rings
        self.prefix = [start] * rings
        self.highest = [start] * rings
        self.times: list[dict[int, int]] = [{} for _ in range(rings)]

    @property
    def least(self) -> int:
        """Return whether everything at or below is held here, and nothing of it can still come."""
        return min(self.blocks)

    # ---- input ----

    def hold(self, packet: Packet) -> None:
        """Accept a packet."""
        ring, number, time = packet.ring, packet.number, packet.time
        self._log.add(Hold(self._log.tick(), self.identity, ring, number, time))
        self.held = max(self.held, time)
        times = self.times[ring]
        times[number] = time
        while self.prefix[ring] + 1 in times:
            self.prefix[ring] += 1
            self.blocks[ring] = max(self.blocks[ring], times.pop(self.prefix[ring]))
        for bundle in packet.bundles:
            if bundle.level >= AGREED:
                self.agreed.append(bundle)
            else:
                self.low.append(bundle)
        self.agreed.sort(key=lambda bundle: bundle.key)

    def receive_notice(self, notice: Notice) -> None:
        """Accept a horizon; it counts once everything up to its packet is held."""
        self.notices.append(notice)

    def count(self) -> None:
        """Count the horizons that can be counted."""
        for notice in list(self.notices):
            ring, value, upto = notice.ring, notice.value, notice.upto
            if self.prefix[ring] >= upto:
                self.notices.remove(notice)
                if value > self.blocks[ring]:
                    self.blocks[ring] = value
                    self._log.add(Count(self._log.tick(), self.identity, ring, value, upto))

    def accept_unreliable(self, bundle: Bundle) -> None:
        """Release bundles without a place in the order."""
        self.emit_release(bundle)
        if bundle.client not in self.desk.gone:
            self.desk.send_out(bundle)

    # ---- releases ----

    def release_all(self) -> None:
        """Release all deliverable bundles, lower levels before the next agreed bundle."""
        self.count()
        while bundle := self._next_low() or self._next_agreed():
            self._release(bundle)
        self._answer()

    def _next_low(self) -> Bundle | None:
        for bundle in self.low:
            if self._is_next(bundle) and (bundle.level != CAUSAL or self._has_causes(bundle)):
                self.low.remove(bundle)
                return bundle
        return None

    def _next_agreed(self) -> Bundle | None:
        if not self.agreed:
            return None
        bundle = self.agreed[0]
        if not (self._is_stable(bundle) and self._is_next(bundle)):
            return None
        return self.agreed.pop(0)

    def _is_stable(self, bundle: Bundle) -> bool:
        """Return whether nothing lower can still come here, nor, if it is SAFE, to anybody."""
        everywhere = self.daemons if bundle.level == SAFE else [self]
        return all(daemon.least >= bundle.time for daemon in everywhere)

    def _is_next(self, bundle: Bundle) -> bool:
        """Return whether a bundle may go: RELIABLE at once, others after earlier ones of their
        client."""
        return bundle.level < FIFO or self.ranks.get(bundle.client, 0) + 1 == bundle.rank

    def _has_causes(self, bundle: Bundle) -> bool:
        vector, agreed = bundle.causes
        return (
            self.done >= agreed
            and all(self.prefix[ring] >= number for ring, number in enumerate(vector))
            and not any(low.number <= vector[low.ring] for low in self.low if low is not bundle)
        )

    def number(self, packet: Packet) -> None:
        """Give a packet to its bundles, with the releases here as causes."""
        causes = (tuple(self.highest), self.done)
        ring, number, time = packet.ring, packet.number, packet.time
        self._log.add(Stamped(self._log.tick(), self.identity, self.view, ring, number, time))
        for place, bundle in enumerate(packet.bundles):
            bundle.ring, bundle.number, bundle.time = ring, number, time
            bundle.place = place
            bundle.causes = causes
            if any(message.ordered for message in bundle.messages):
                self.answers.append(bundle)

    # ---- releases ----

    def _release(self, bundle: Bundle) -> None:
        self.emit_release(bundle)
        ring = bundle.ring
        self.highest[ring] = max(self.highest[ring], bundle.number)
        if bundle.level >= FIFO:
            self.ranks[bundle.client] = bundle.rank
        if bundle.level >= AGREED:
            self.done = bundle.key
        if bundle.kind <= FRAGMENT:
            self.desk.send_out(bundle)
            if bundle.targets and bundle.client.home == self.identity:
                self.checks.append(bundle)
        else:
            self.desk.control(bundle)

    def emit_release(self, bundle: Bundle) -> None:
        """Record that a bundle is released here."""
        count = bundle.messages[0].parts if bundle.kind == FRAGMENT else 1
        self._log.add(
            Release(
                self._log.tick(),
                self.identity,
                bundle.ring,
                bundle.number,
                bundle.time,
                bundle.place,
                bundle.kind,
                bundle.level,
                bundle.client.identity,
                bundle.first,
                bundle.last,
                bundle.index,
                count,
            )
        )

    # ---- notices to senders ----

    def _answer(self) -> None:
        for bundle in list(self.answers):
            if self._is_stable(bundle):
                self.answers.remove(bundle)
                if bundle.index == bundle.messages[0].parts - 1:
                    self.desk.tell_position(bundle)
        passed = min(self.least, self.agreed[0].time - 1) if self.agreed else self.least
        for bundle in list(self.checks):
            if bundle.time <= passed:
                self.checks.remove(bundle)
                if bundle.index == bundle.messages[0].parts - 1:
                    self.desk.bounce(bundle)
