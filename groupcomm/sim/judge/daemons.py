"""H1 to H6 and S1: stamps, horizons, and what daemons hold."""

from groupcomm.sim.judge.facts import AGREED, SAFE, Facts
from groupcomm.sim.trace import Count, Hold, Horizon, Order, Release, Send, Stamped


class Daemons:
    """Judges white-box events."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.found: set[str] = set()
        self.stamped: list[tuple[int, Stamped]] = []  # those that rise
        self._find_stamped()
        self.holds: list[tuple[int, Hold]] = []  # first ones, of packets that were stamped so
        self._find_holds()
        self.rings = sorted({event.ring for _, event in self.stamped})

    def _find_stamped(self) -> None:
        for index, event in self.facts.all(Stamped):
            before = [e for _, e in self.stamped if e.ring == event.ring]
            if before and event.number != before[-1].number + 1:
                self.found.add("H1")
            if before and not (event.number > before[-1].number and event.time > before[-1].time):
                self.found.add("H1")
            else:
                self.stamped.append((index, event))

    def _find_holds(self) -> None:
        for index, event in self.facts.all(Hold):
            packets = self._packets(event.ring, index)
            if (event.number, event.time) not in [(e.number, e.time) for e in packets]:
                self.found.add("H1")
            elif (event.p, event.ring, event.number) in [
                (e.p, e.ring, e.number) for _, e in self.holds
            ]:
                self.found.add("D2")
            else:
                self.holds.append((index, event))

    def judge(self) -> set[str]:
        """The ids of violated properties."""
        for index, event in self.facts.all(Stamped):
            horizons = self._horizons(event.ring, index)
            if any(event.time <= horizon.value for horizon in horizons):
                self.found.add("H3")
            held = [e.time for i, e in self.holds if i < index and e.p == event.p]
            if any(event.time <= time for time in held):
                self.found.add("H6")
        self._judge_rings()
        self._judge_horizons()
        self._judge_holds()
        self._judge_blocks()
        return self.found

    def _judge_rings(self) -> None:
        """H1, for who may number and promise."""
        for event in self.facts.events:
            if isinstance(event, Stamped | Horizon) and self.facts.ring_of[event.p] != event.ring:
                self.found.add("H1")

    def _horizons(self, ring: int, before: int) -> list[Horizon]:
        return [e for i, e in self.facts.all(Horizon) if i < before and e.ring == ring]

    def _packets(self, ring: int, before: int) -> list[Stamped]:
        return [e for i, e in self.stamped if i < before and e.ring == ring]

    def _judge_horizons(self) -> None:
        for index, event in self.facts.all(Horizon):
            if any(event.value < other.value for other in self._horizons(event.ring, index)):
                self.found.add("H2")
            for packet in self._packets(event.ring, index):
                if packet.number > event.upto and packet.time <= event.value:
                    self.found.add("H3")
        for index, count in self.facts.all(Count):
            packets = self._packets(count.ring, index)
            needed = bool(packets) and count.upto >= packets[0].number
            if needed and self.prefix(count.p, count.ring, index) < count.upto:
                self.found.add("H4")
            announced = self._horizons(count.ring, index)
            if (count.value, count.upto) not in [(h.value, h.upto) for h in announced]:
                self.found.add("H4")

    def _judge_holds(self) -> None:
        """H4, for what is released."""
        for index, release in self.facts.all(Release):
            key = (release.ring, release.number, release.time)
            held = [
                (e.ring, e.number, e.time) for i, e in self.holds if i < index and e.p == release.p
            ]
            if release.level > 0 and key not in held:
                self.found.add("H4")

    # ---- prefixes and blocks ----

    def prefix(self, daemon: str, ring: int, before: int) -> int:
        """Up to which number a daemon held a ring's packets without gap; -1 before the first."""
        packets = self._packets(ring, before)
        if not packets:
            return -1
        held = {e.number for i, e in self.holds if i < before and (e.p, e.ring) == (daemon, ring)}
        number = packets[0].number - 1
        while number + 1 in held:
            number += 1
        return number

    def block(self, daemon: str, ring: int, before: int) -> int:
        """What a daemon knew to be complete of a ring."""
        found = [-1]
        for index, count in self.facts.all(Count):
            if index < before and (count.p, count.ring) == (daemon, ring):
                found.append(count.value)
        prefix = self.prefix(daemon, ring, before)
        packets = self._packets(ring, before)
        for index, hold in self.holds:
            mine = index < before and (hold.p, hold.ring) == (daemon, ring)
            if mine and packets and packets[0].number <= hold.number <= prefix:
                found.append(hold.time)
        return max(found)

    def _judge_blocks(self) -> None:
        for index, event in self.facts.all(Release):
            if event.level >= AGREED:
                self._judge_block(event.p, event.time, index)
            if event.level == SAFE:
                self._judge_safe(event.time, index)
        for index, order in self.facts.all(Order):
            home = self.facts.home(order.c)
            if home is not None:
                self._judge_block(home, order.pos[1], index)
            sent = self.facts.sent.get((order.c, order.m), index)
            message = self.facts.events[sent]
            if sent < index and isinstance(message, Send) and message.level == SAFE:
                self._judge_safe(order.pos[1], index)

    def _judge_block(self, daemon: str, time: int, index: int) -> None:
        for ring in range(self.facts.ring_count):
            if time > self.block(daemon, ring, index):
                self.found.add("H5")

    def _judge_safe(self, time: int, index: int) -> None:
        for ring in self.rings:
            needed = [e.number for e in self._packets(ring, index) if e.time <= time]
            for daemon in self.facts.daemons:
                if needed and self.prefix(daemon, ring, index) < needed[-1]:
                    self.found.add("S1")
