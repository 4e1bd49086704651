"""D6, R, G4, X3, L5, G6: the events that are missing when a trace ends with Quiet; and refusals."""

from groupcomm.trace.events import Ask, Member, Order, Send
from tests.verification.reference.deliveries import Deliveries
from tests.verification.reference.facts import Facts
from tests.verification.reference.stages import Stages
from tests.verification.reference.tables import Tables
from tests.verification.reference.terms import AGREED, NO_VIEW, RELIABLE, Name, daemon_of, name_of


class Missing:
    """Checker of the events that are missing at the end."""

    def __init__(
        self, facts: Facts, tables: Tables, stages: Stages, deliveries: Deliveries
    ) -> None:
        self.facts = facts
        self.stages = stages
        self.views = facts.views
        self.tables = tables
        self.deliveries = deliveries
        self.found: set[str] = set()

    def check(self) -> set[str]:
        """Return the ids of violated properties."""
        for index, event in self.facts.all(Member):
            view, _ = self.stages.at(event.c, index)
            if event.cause == "network" and view != NO_VIEW:
                names = list(map(name_of, self.views.members(view)))
                if any(daemon_of(client) not in names for client in event.members):
                    self.found.add("G6")
        asked = {e.c: i for i, e in reversed(self.facts.all(Ask)) if e.what == "connect"}
        self._check_refused(asked)
        if self.views.quiet:
            self._check_delivered()
            self._check_released()
            self._check_answers()
            self._check_homeless(asked)
            self._check_gone()
        return self.found

    def _check_delivered(self) -> None:
        """Check D6, R, G4, X3."""
        facts = self.facts
        for client, name in self.deliveries.owed:
            got = (client, name) in self.deliveries.got
            if got or facts.level(name) < RELIABLE or not facts.stays(client):
                continue
            if name[0] == client:
                self.found.add("D6")
            else:
                self.found.add("G4" if facts.level(name) >= AGREED else "R")
            if self._had_joined(client, name):
                self.found.add("X3")

    def _had_joined(self, client: str, name: Name) -> bool:
        """Return whether the client had seen itself join one of the groups before the Send."""
        return any(
            index < self.facts.sent[name]
            and event.c == client
            and event.group in self.facts.to(name)
            and (event.cause, event.changed) == ("join", (client,))
            for index, event in self.facts.all(Member)
        )

    def _check_released(self) -> None:
        """Check R."""
        facts, end = self.facts, self.facts.end
        for name in facts.accepted:
            home = facts.home(name[0])
            if home is None or home not in self.views.core or facts.level(name) < RELIABLE:
                continue
            if facts.released(name, home) is None and not facts.is_cut(name):
                self.found |= set() if self._may_be_dropped(name, home) else {"R"}
        last = {p: self.views.view(p, end) for p in self.views.core}
        bundles = {p: {r.bundle for r in facts.of(p, last[p])} for p in last}
        if any(bundles[p] != bundles[q] for p in last for q in last if last[p] == last[q]):
            self.found.add("R")

    def _may_be_dropped(self, name: Name, home: str) -> bool:
        """Return whether an item is of a session with a line that has ended, and older than what
        began with the present view."""
        asked = [e.c for _, e in self.facts.all(Ask) if e.what == "line"]
        completed = self.views.completed_at(home, self.views.view(home, self.facts.end))
        is_older = completed is None or self.facts.accepted[name][-1] < completed
        return name[0] in asked and self.facts.ended_at(name[0]) is not None and is_older

    def _check_answers(self) -> None:
        """Check L5, for items and views."""
        facts = self.facts
        orders = {(e.c, e.m) for i, e in facts.all(Order) if facts.sent.get((e.c, e.m), i) < i}
        unanswered = self._unanswered_joins()
        for name in facts.sent:
            if not facts.stays(name[0]):
                continue
            item = facts.item(name)
            if (
                name not in facts.accepted
                or name in unanswered
                or (isinstance(item, Send) and item.ordered and name not in orders)
            ):
                self.found.add("L5")
        for process in self.views.core:
            view = self.views.view(process, facts.end)
            if process in self.views.booted and self.views.completed_at(process, view) is None:
                self.found.add("L5")

    def _unanswered_joins(self) -> list[Name]:
        """Joins by name; each view of a client's own join answers its oldest."""
        waiting: list[tuple[str, str, int]] = []
        for index, event in self.facts.live:
            if (
                isinstance(event, Ask)
                and event.what in ("join", "read")
                and index not in self.facts.reused
            ):
                waiting.append((event.c, event.group, event.m))
            elif isinstance(event, Member) and event.cause == "join":
                own = [w for w in waiting if w[:2] == (event.c, event.group)]
                if event.changed == (event.c,) and own:
                    waiting.remove(own[0])
        return [(client, number) for client, _, number in waiting]

    def _check_homeless(self, asked: dict[str, int]) -> None:
        """Check L5, for clients that no daemon has admitted."""
        for client, index in asked.items():
            if self.facts.home(client) is not None:
                continue
            running = [
                p
                for p in self.views.processes
                if name_of(p) == daemon_of(client) and p not in self.views.ends
            ]
            waits = len(running) == 1 and running[0] in self.views.core
            before = waits and self.views.booted.get(running[0], index) < index
            others = [
                p
                for p, end in self.views.ends.items()
                if name_of(p) == daemon_of(client) and self.views.booted.get(p, index) < index < end
            ]
            if before and not others and not self._has_gone(client):
                self.found.add("L5")

    def _check_refused(self, asked: dict[str, int]) -> None:
        """Check L5, for clients that were told that another session has their name."""
        for _, event in self.facts.all(Ask):
            if event.what != "refused":
                continue
            name, at = event.c.rpartition("/")[0], asked.get(event.c, -1)
            if not any(c.rpartition("/")[0] == name and i < at for c, i in asked.items()):
                self.found.add("L5")

    def _check_gone(self) -> None:
        """Check G6."""
        for process in self.views.core:
            for client in self.tables.at(process, self.facts.end).names.values():
                if self._has_gone(client) and self.facts.home(client) in self.views.core:
                    self.found.add("G6")

    def _has_gone(self, client: str) -> bool:
        """Return whether a client crashed, said goodbye, or was told that its name is taken."""
        return any(
            event.c == client and event.what in ("crash", "disconnect", "refused")
            for _, event in self.facts.all(Ask)
        )
