"""V1, V2, D6, O5, S1 to S3: the agreement of the members of a view."""

from itertools import combinations, pairwise

from groupcomm.trace.events import Deliver, Member, Order, Send
from tests.verification.reference.companions import half_of
from tests.verification.reference.daemons import Daemons
from tests.verification.reference.deliveries import Deliveries
from tests.verification.reference.facts import Facts, Released
from tests.verification.reference.stages import Stages
from tests.verification.reference.tables import Tables
from tests.verification.reference.terms import AGREED, CAUSAL, CONNECT, SAFE, Name


class Together:
    """Checker of the releases and deliveries of a view by the time that it is left."""

    def __init__(
        self,
        facts: Facts,
        stages: Stages,
        deliveries: Deliveries,
        daemons: Daemons,
        tables: Tables,
    ) -> None:
        self.facts = facts
        self.views = facts.views
        self.stages = stages
        self.deliveries = deliveries
        self.daemons = daemons
        self.tables = tables
        self.found: set[str] = set()

    def check(self) -> set[str]:
        """Return the ids of violated properties."""
        for one, other in combinations(self.views.processes, 2):
            for _, view in self.views.installs(one):
                coming = self.views.next_view(one, view)
                if coming and self.views.next_view(other, view) == coming:
                    self._check_pair(one, other, view)
        self._check_intervals()
        for view in self.views.rings:
            self._check_obligations(view)
        for released in self.facts.everywhere():
            self._check_stable(released)
        for again in self.facts.repeated:
            if again.regular and again.event.level == SAFE:
                self._check_held(again)
        for index, order in self.facts.all(Order):
            self._check_order(index, order)
        return self.found

    def _check_pair(self, one: str, other: str, view: str) -> None:
        """Check V1."""
        mine, theirs = self.facts.of(one, view), self.facts.of(other, view)
        if {r.bundle for r in mine} != {r.bundle for r in theirs}:
            self.found.add("V1")
        rings = {self.views.ring_of(p, view) for p in (one, other)}
        if self._agreed_regular(mine, rings) != self._agreed_regular(theirs, rings):
            self.found.add("V1")
        complete = [self.views.completed_at(p, view) is not None for p in (one, other)]
        if complete[0] != complete[1]:
            self.found.add("V1")

    def _agreed_regular(
        self, releases: list[Released], rings: set[int | None]
    ) -> set[tuple[str, int, int, int]]:
        """Return the agreed bundles of a regular part that daemons of these rings share."""
        return {
            r.bundle
            for r in releases
            if r.regular
            and r.event.level >= AGREED
            and not (len(rings) > 1 and r.event.ring in rings and r.event.kind < CONNECT)
        }

    # ---- due releases ----

    def _check_obligations(self, view: str) -> None:
        """Check D6, O5, S1, S3: the releases due at a process that has left a view."""
        everything = [r for r in self.facts.everywhere() if r.view == view and r.event.level > 0]
        alone = self._early(everything)
        for process in self.views.processes:
            if self.views.left_at(process, view) is None:
                continue
            mine = {r.bundle for r in self.facts.of(process, view)}
            safe = {r.bundle for r in self.facts.of(process, view) if r.event.level == SAFE}
            fellows = self.views.fellows(process, view)
            for released in everything:
                lacks_safe = released.event.level == SAFE and released.bundle not in safe
                if lacks_safe and process in self._bound(released, alone):
                    self.found.add("S1" if released.regular else "S3")
                if released.bundle in mine:
                    continue
                author = self.daemons.author(view, released.event.ring, released.event.number)
                if author == process:
                    self.found.add("D6")
                elif author in fellows:
                    self.found.add("O5")

    def _early(self, everything: list[Released]) -> set[tuple[str, int, int, int]]:
        """Return the SAFE bundles whose first Release in a regular part is early."""
        safe = [r for r in everything if r.regular and r.event.level == SAFE]
        first = {r.bundle: r for r in reversed(safe)}
        return {bundle for bundle, r in first.items() if self._is_early(r)}

    def _bound(self, released: Released, alone: set[tuple[str, int, int, int]]) -> list[str]:
        """Return the processes that must release a SAFE bundle, too."""
        if released.regular:
            members = self.views.members(released.view)
            if released.bundle in alone:
                ring = released.event.ring
                return [p for p in members if self.views.ring_of(p, released.view) == ring]
            return members
        return self.views.fellows(released.event.p, released.view)

    # ---- conditions of SAFE releases ----

    def _check_stable(self, released: Released) -> None:
        """Check S1, S2, S3: the packets that members hold at a release."""
        index, event, view = released.index, released.event, released.view
        if not released.regular and event.level > 0:
            for fellow in self.views.fellows(event.p, view):
                held = self.daemons.held(fellow, (view, event.ring), index)
                if event.number not in [hold.number for hold in held]:
                    self.found.add("S3")
        if released.regular and event.level == SAFE:
            self._check_held(released)
            for member in self.views.members(view):
                installed = self.views.installed_at(member, view)
                if installed is None or installed > index:
                    self.found.add("S2")

    def _check_held(self, released: Released) -> None:
        """Check S1 of a regular Release."""
        index, event, view = released.index, released.event, released.view
        if self._all_hold(view, event.time, index):
            return
        if not self._is_early(released):
            self.found.add("S1")
        else:
            for process in self.views.members(view):
                if self.views.ring_of(process, view) == event.ring:
                    held = self.daemons.prefix(process, (view, event.ring), index)
                    self.found |= {"S1"} if held < event.number else set()
            table = self.tables.at(event.p, index)
            for to in (to for name in self._names_of(released) for to in self.facts.to(name)):
                named = [table.names[to]] if to in table.names else []
                for client in [*named, *table.members(to), *table.readers.get(to, [])]:
                    home = self.facts.home(client, index)
                    ring = self.views.ring_of(home, view) if home is not None else None
                    self.found |= {"S1"} if ring not in (None, event.ring) else set()

    def _is_early(self, released: Released) -> bool:
        """Return whether a Release of a SAFE bundle in a regular part is early."""
        view = released.view
        several = len(self.views.rings.get(view, ())) > 1
        return several and not self._all_hold(view, released.event.time, released.index)

    def _names_of(self, released: Released) -> list[Name]:
        event, sent = released.event, self.facts.sent
        names = [(event.c, number) for number in range(event.first, event.last + 1)]
        return [name for name in names if sent.get(name, released.index) < released.index]

    def _all_hold(self, view: str, time: int, index: int) -> bool:
        """Return whether all members hold all packets up to a time."""
        for ring in self.daemons.rings(view):
            needed = [e.number for e in self.daemons.packets(ring, index) if e.time <= time]
            for process in self.views.members(view):
                if needed and self.daemons.prefix(process, ring, index) < needed[-1]:
                    return False
        return True

    def _check_order(self, index: int, order: Order) -> None:
        name = (order.c, order.m)
        if order.trans or self.facts.sent.get(name, index) >= index:
            return
        if self.facts.level(name) == SAFE and index not in self.daemons.inner:
            view, _ = self.stages.at(order.c, index)
            if not self._all_hold(view, order.pos[1], index):
                self.found.add("S1")

    # ---- agreement of clients ----

    def _check_intervals(self) -> None:
        """V2: two that come along from view to view get the same in between."""
        views: dict[tuple[str, str], list[tuple[int, Member]]] = {}
        for index, event in self.facts.all(Member):
            views.setdefault((event.c, event.group), []).append((index, event))
        steps = [
            (client, start, end)
            for (client, _), mine in views.items()
            for start, end in pairwise(mine)
        ]
        for one, other in combinations(steps, 2):
            same = self._step_of(one) == self._step_of(other)
            known = one[0] in other[2][1].vs and other[0] in one[2][1].vs
            if same and known and self._got(*one) != self._got(*other):
                self.found.add("V2")

    def _step_of(self, step: tuple[str, tuple[int, Member], tuple[int, Member]]) -> object:
        """From which view of which group to which other, and in which half of its view."""
        client, (_, before), (index, after) = step
        view, regular = self.stages.at(client, index)
        half = half_of(self.views, self.facts.home(client, index), view, regular=regular)
        return (before.group, before.pos, after.pos, half)

    def _got(self, client: str, start: tuple[int, Member], end: tuple[int, Member]) -> set[Name]:
        """Return the messages to a group that a client got between two of its views, if they
        count."""
        found = set()
        for index, event in self.deliveries.kept:
            name = (event.s, event.m)
            between = event.c == client and start[0] < index < end[0]
            got = between and self.deliveries.got.get((client, name)) == index
            if got and start[1].group in self.facts.to(name) and self._counts(event, start, end):
                found.add(name)
        return found

    def _counts(self, event: Deliver, start: tuple[int, Member], end: tuple[int, Member]) -> bool:
        name = (event.s, event.m)
        sent = self.facts.item(name)
        assert isinstance(sent, Send)
        fragments = any(
            r.event.count > 1 for p in self.views.processes for r in self.facts.parts(name, p)
        )
        if sent.discard or fragments:
            return False
        if sent.level >= AGREED:
            return True
        if sent.level < CAUSAL or end[1].cause != "network":
            return False
        before = [
            e
            for i, e in self.facts.all(Member)
            if i < self.facts.sent[name] and (e.c, e.group) == (event.s, start[1].group)
        ]
        return bool(before) and before[-1].pos == start[1].pos
