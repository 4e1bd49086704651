"""H1 to H6: stamps, horizons, and the packets that daemons hold."""

from groupcomm.trace.events import Count, Hold, Horizon, Order, Stamped
from tests.verification.reference.facts import Facts, Released
from tests.verification.reference.stages import Stages
from tests.verification.reference.terms import AGREED

Ring = tuple[str, int]
"""A ring of a view."""


class Daemons:
    """Checker of white-box events; each belongs to the view that its process was in."""

    def __init__(self, facts: Facts, stages: Stages) -> None:
        self.facts = facts
        self.stages = stages
        self.found: set[str] = set()
        self.stamped: dict[Ring, list[tuple[int, Stamped]]] = {}  # stamps that rise
        self._find_stamped()
        self.holds: dict[tuple[str, Ring], list[tuple[int, Hold]]] = {}  # first, rightly stamped
        self._find_holds()
        self.horizons: dict[Ring, list[tuple[int, Horizon]]] = {}
        for index, event in facts.all(Horizon):
            self.horizons.setdefault(self._ring(event, index), []).append((index, event))
        self.counts: dict[tuple[str, Ring], list[tuple[int, Count]]] = {}
        for index, count in facts.all(Count):
            key = (count.p, self._ring(count, index))
            self.counts.setdefault(key, []).append((index, count))
        # The Orders of inner messages of their homes, and those of them that are above a block.
        self.inner = {i for i, order in facts.all(Order) if self._is_inner(i, order)}
        self.early = {i for i, order in facts.all(Order) if self._is_early(i, order)}

    def _is_inner(self, index: int, order: Order) -> bool:
        facts, name = self.facts, (order.c, order.m)
        view, regular = self.stages.at(order.c, index)
        home, rings = facts.home(order.c, index), self.rings(view)
        if home is None or not regular or facts.sent.get(name, index) >= index:
            return False
        own = len(rings) > 1 and facts.views.ring_of(home, view) == order.pos[2]
        whole = facts.at_home(name)
        return own and facts.level(name) >= AGREED and whole is not None and whole[0].index < index

    def _is_early(self, index: int, order: Order) -> bool:
        view, _ = self.stages.at(order.c, index)
        home, rings = self.facts.home(order.c, index), self.rings(view)
        if home is None or index not in self.inner:
            return False
        return any(order.pos[1] > self.block(home, ring, index) for ring in rings)

    def _ring(self, event: Stamped | Hold | Horizon | Count, index: int) -> Ring:
        return (self.facts.views.view(event.p, index), event.ring)

    def _find_stamped(self) -> None:
        for index, event in self.facts.all(Stamped):
            known = self.stamped.setdefault(self._ring(event, index), [])
            before = known[-1][1] if known else None
            if before is not None and event.number != before.number + 1:
                self.found.add("H1")
            if before is not None and not (
                event.number > before.number and event.time > before.time
            ):
                self.found.add("H1")
            else:
                known.append((index, event))

    def _find_holds(self) -> None:
        for index, event in self.facts.all(Hold):
            ring = self._ring(event, index)
            packets = self.packets(ring, index)
            holds = self.holds.setdefault((event.p, ring), [])
            if (event.number, event.time) not in [(e.number, e.time) for e in packets]:
                self.found.add("H1")
            elif event.number in [e.number for _, e in holds]:
                self.found.add("D2")
            else:
                holds.append((index, event))

    # ---- events before an index ----

    def packets(self, ring: Ring, before: int) -> list[Stamped]:
        """Return the packets that were stamped in a ring."""
        return [e for i, e in self.stamped.get(ring, []) if i < before]

    def announced(self, ring: Ring, before: int) -> list[Horizon]:
        """Return the horizons that were announced for a ring."""
        return [e for i, e in self.horizons.get(ring, []) if i < before]

    def held(self, process: str, ring: Ring, before: int) -> list[Hold]:
        """Return the packets of a ring that a process had got."""
        return [e for i, e in self.holds.get((process, ring), []) if i < before]

    def prefix(self, process: str, ring: Ring, before: int) -> int:
        """Up to which number a process held a ring's packets without gap; -1 before the first."""
        packets = self.packets(ring, before)
        if not packets:
            return -1
        numbers = {e.number for e in self.held(process, ring, before)}
        number = packets[0].number - 1
        while number + 1 in numbers:
            number += 1
        return number

    def block(self, process: str, ring: Ring, before: int) -> int:
        """Return the number up to which a process knew a ring to be complete."""
        found = [-1]
        found += [e.value for i, e in self.counts.get((process, ring), []) if i < before]
        packets = self.packets(ring, before)
        prefix = self.prefix(process, ring, before)
        for hold in self.held(process, ring, before):
            if packets and packets[0].number <= hold.number <= prefix:
                found.append(hold.time)
        return max(found)

    def rings(self, view: str) -> list[Ring]:
        """Return the rings of a view."""
        return [(view, index) for index in range(len(self.facts.views.rings.get(view, ())))]

    # ---- the ids ----

    def check(self) -> set[str]:
        """Return the ids of violated properties."""
        for index, event in self.facts.all(Stamped):
            self._check_stamped(index, event)
        for index, horizon in self.facts.all(Horizon):
            self._check_horizon(index, horizon)
        for index, count in self.facts.all(Count):
            self._check_count(index, count)
        for released in [*self.facts.everywhere(), *self.facts.repeated]:
            self._check_release(released)
        for index, order in self.facts.all(Order):
            view, _ = self.stages.at(order.c, index)
            home = self.facts.home(order.c, index)
            if home is not None and not order.trans and index not in self.early:
                self._check_block(home, view, order.pos[1], index)
        return self.found

    def author(self, view: str, ring: int, number: int) -> str | None:
        """Return the process that stamped a packet."""
        packets = self.packets((view, ring), self.facts.end)
        return next((e.p for e in packets if e.number == number), None)

    def _check_member(self, event: Stamped | Horizon, index: int) -> None:
        """Check H1, for the processes that may number and promise."""
        view = self.facts.views.view(event.p, index)
        if self.facts.views.ring_of(event.p, view) != event.ring:
            self.found.add("H1")

    def _check_stamped(self, index: int, event: Stamped) -> None:
        self._check_member(event, index)
        ring = self._ring(event, index)
        if any(event.time <= horizon.value for horizon in self.announced(ring, index)):
            self.found.add("H3")
        for other in self.rings(ring[0]):
            if any(event.time <= hold.time for hold in self.held(event.p, other, index)):
                self.found.add("H6")

    def _check_horizon(self, index: int, event: Horizon) -> None:
        self._check_member(event, index)
        ring = self._ring(event, index)
        if any(event.value < other.value for other in self.announced(ring, index)):
            self.found.add("H2")
        for packet in self.packets(ring, index):
            if packet.number > event.upto and packet.time <= event.value:
                self.found.add("H3")

    def _check_count(self, index: int, count: Count) -> None:
        ring = self._ring(count, index)
        packets = self.packets(ring, index)
        needed = bool(packets) and count.upto >= packets[0].number
        if needed and self.prefix(count.p, ring, index) < count.upto:
            self.found.add("H4")
        announced = self.announced(ring, index)
        if (count.value, count.upto) not in [(h.value, h.upto) for h in announced]:
            self.found.add("H4")

    def _check_release(self, released: Released) -> None:
        """Check H4, H5."""
        index, event = released.index, released.event
        if event.level == 0:
            return
        held = self.held(event.p, (released.view, event.ring), index)
        if (event.number, event.time) not in [(e.number, e.time) for e in held]:
            self.found.add("H4")
        if released.regular and event.level >= AGREED and not self.facts.is_inner(released):
            self._check_block(event.p, released.view, event.time, index)

    def _check_block(self, process: str, view: str, time: int, index: int) -> None:
        """Check H5."""
        for ring in self.rings(view):
            if time > self.block(process, ring, index):
                self.found.add("H5")
