"""Checks of starts and ends of daemons and of their views: C1 to C11, L1, L2.

`Stages` checks the notifications of clients: which view has begun, and that its regular part is
over.
"""

from collections.abc import Set
from typing import Final

import attrs

from groupcomm.sim.checkers.delivery import Delivery
from groupcomm.sim.checkers.records import (
    ClientRecord,
    ProcessRecord,
    ViewPart,
    ViewRecord,
)
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.state import ObservedState
from groupcomm.sim.checkers.view_agreement import Together
from groupcomm.trace.events import Boot, Conf, Dview, Fail, Heal, Left, Quiet, TraceEvent, Trans


class Stages:
    """A checker of Dview and Trans events: C5, and C3 for their content."""

    def __init__(self, state: ObservedState, report: Report) -> None:
        self._state = state
        self._report = report

    # ---- debts ----

    def complete(self, process: ProcessRecord) -> None:
        """Note that a daemon knows all groups of its view."""
        assert process.stay is not None
        for client in process.table.connected.values():
            if client.home is process:
                client.stages.append((True, process.stay.part))

    def connected(self, process: ProcessRecord, client: ClientRecord) -> None:
        """Note that a daemon releases the connect of a client of its own."""
        if process.booted and process.stay is not None:
            if not process.stay.part.regular:
                client.began = process.stay.part
            client.stages.append((True, process.stay.part))

    def transitional(self, process: ProcessRecord) -> None:
        """Note that the regular part of a complete view is over at a daemon."""
        assert process.stay is not None
        for client in process.table.connected.values():
            if client.home is process:
                client.stages.append((False, process.stay.part))

    # ---- notifications ----

    def notified(self, client: ClientRecord, event: Dview | Trans) -> None:
        """Check that a client is notified of the expected view."""
        begins = isinstance(event, Dview)
        stages = client.stages
        if not any(is_it == begins and p.stay.view.text == event.view for is_it, p in stages):
            self._report.add(
                "C5", f"{client} is notified of {event.view}, which is not for it", event
            )
            return
        is_it, part = stages.popleft()
        if is_it != begins or part.stay.view.text != event.view:
            self._report.add(
                "C5", f"{client} is notified of {event.view} before earlier notifications", event
            )
        while is_it != begins or part.stay.view.text != event.view:
            is_it, part = stages.popleft()
        client.stage = part
        if isinstance(event, Dview):
            client.needs.clear()
            self._check(client, part, event)

    def _check(self, client: ClientRecord, part: ViewPart, event: Dview) -> None:
        view = part.stay.view
        if event.daemons != view.names:
            self._report.add("C3", f"{client} is notified of other daemons in {event.view}", event)
        if not view.majority:
            view.majority.append(event.majority)
        elif view.majority[0] != event.majority:
            self._report.add("C3", f"{client} is notified of a wrong majority", event)

    def quiet(self, event: Quiet) -> None:
        """Check that no notification is missing."""
        final = set(self._state.final)
        for client in self._state.clients.values():
            if client.stages and not client.ended and client.home in final:
                self._report.add("C5", f"{client} is not notified of its daemon's view", event)


GRACE_US: Final = 1_000_000
"""The time after Heal in which earlier faults may still have consequences."""

AGREEMENT_US: Final = 3_000_000
"""The time after Heal in which the core has to agree on a view (L1)."""

NEVER: Final = 2**63


@attrs.define(eq=False, repr=False)
class Membership:
    """A checker of Boot, Fail, Left, Conf and Heal events.

    Attributes:
        deadline: the time after which `look` has to be called before the next event.
    """

    _state: ObservedState
    _report: Report
    _stages: Stages
    _together: Together
    _delivery: Delivery
    _healed_at: int | None = None
    _late: bool = False  # from Heal on earlier violations have no consequences
    _agreed: bool = False
    _incarnations: set[tuple[str, str]] = attrs.field(factory=set)  # with the daemons' names
    _admitted: set[str] = attrs.field(factory=set)  # daemons aside, in views since the agreement
    _admitting: set[str] = attrs.field(factory=set)  # views that have admitted such a daemon
    deadline: int = NEVER

    # ---- starts and ends ----

    def boot(self, event: Boot) -> None:
        """Check and note the start of a daemon."""
        process = self._state.processes.get(event.p)
        if process is None:
            started = self._state.start(event.p, int(event.incarnation.partition(".")[0]))
            self._note_incarnation(started.name, event)
        elif process.ended:
            self._report.add("D5", f"{process} starts after its end", event)
        else:
            self._report.add("C1", f"{process} starts twice", event)

    def _note_incarnation(self, name: str, event: Boot) -> None:
        """Check that no earlier start of a daemon had the same incarnation."""
        if (name, event.incarnation) in self._incarnations:
            text = f"{event.p} starts as incarnation {event.incarnation}, as {name} did before"
            self._report.add("C11", text, event)
        self._incarnations.add((name, event.incarnation))

    def ends(self, event: Fail | Left) -> None:
        """End a daemon, and its clients with it."""
        process = self._state.processes.get(event.p)
        if process is None:
            self._report.add("C1", f"{event.p} ends, and never was", event)
        elif process.ended:
            self._report.add("D5", f"{process} ends twice", event)
        else:
            for client in list(process.clients):
                self._delivery.end(client)
            process.clients.clear()
            self._state.end_process(process)
            if self._healed_at is not None and process.identity in (self._state.core or ()):
                self._fall_apart(f"{process} ends", event)

    # ---- views ----

    def conf(self, event: Conf) -> None:
        """Check a view that a daemon installs."""
        state = self._state
        process = state.processes.get(event.p)
        if process is None and state.boots:
            self._report.add("C1", f"{event.p} installs a view without having started", event)
            return
        if process is not None and process.ended:
            self._report.add("D5", f"{process} installs a view after its end", event)
            return
        members = frozenset(identity for ring in event.rings for identity in ring)
        if event.kind == "T":
            if process is None or process.stay is None:
                self._report.add("C1", f"{event.p} begins with a transitional view", event)
                return
            wrong = self._wrong_transitional(process, members, event)
        else:
            wrong = self._wrong_regular(process, members, event)
        if wrong is not None:
            self._report.add(wrong[0], f"{event.p} {wrong[1]}", event)
        elif event.kind == "T":
            assert process is not None
            self._transit(process, members, event)
        else:
            self._install(process or state.start(event.p, None), event)
        if process is not None and self._agreed and event.p in (state.core or ()):
            if wrong is None and not self._admits(event, members):
                self._report.add("L2", f"{process} goes on from the view of the core", event)
        elif self._late and not self._agreed:
            self._agreed = self._core_agrees()

    def _wrong_transitional(
        self, process: ProcessRecord, members: frozenset[str], event: Conf
    ) -> tuple[str, str] | None:
        state, stay = self._state, process.stay
        assert stay is not None
        if event.p not in members:
            return "C2", "is not in its own transitional view"
        if state.order_of(event.view) <= state.order_of(event.old):
            return "C4", f"goes from view {event.old} to {event.view}"
        if not stay.part.regular or stay.view.text != event.old:
            return "C5", f"leaves view {event.old}, being elsewhere"
        if not members <= stay.view.members.keys():
            return "C5", "comes with daemons that were not in the view"
        ways = stay.view.ways
        for next_, theirs in ways.values():
            if next_ == event.view and theirs != members:
                return "C5", (
                    f"comes to view {event.view} with other transitional members than it announced"
                )
        for other in members:
            next_, theirs = ways.get(other, ("", frozenset()))
            if event.p in theirs and (next_, theirs) != (event.view, members):
                return "C6", f"and {other} leave view {event.old} with each other, and differ"
        if not members <= stay.view.stays.keys():
            return "C10", "comes with a daemon that has not installed the view"
        return None

    def _wrong_regular(
        self, process: ProcessRecord | None, members: frozenset[str], event: Conf
    ) -> tuple[str, str] | None:
        if event.p not in members:
            return "C2", "is not in the view that it installs"
        if process is not None and self._state.order_of(event.view) <= process.floor:
            return "C4", f"installs view {event.view}, having been in a later one"
        if self._state.shapes.get(event.view, event.rings) != event.rings:
            return "C3", f"has other members in view {event.view}"
        if process is None:
            return None
        stay = process.stay
        if stay is not None:
            if stay.part.regular or stay.next != event.view:
                return "C5", f"installs view {event.view} without a transitional view to it"
            assert stay.transitional_members is not None
            if not stay.transitional_members <= members:
                return "C5", f"loses a transitional member on the way to view {event.view}"
        return None

    def _transit(self, process: ProcessRecord, members: frozenset[str], event: Conf) -> None:
        stay = process.stay
        assert stay is not None
        stay.view.ways[event.p] = (event.view, members)
        stay.part = ViewPart(stay, False)
        stay.transitional_members, stay.next = members, event.view
        if stay.complete and process.booted:
            self._stages.transitional(process)

    def _install(self, process: ProcessRecord, event: Conf) -> None:
        state = self._state
        view = self._view(process, event)
        old = process.stay
        if old is not None:
            assert old.transitional_members is not None
            self._together.left(old, event)
            if old.complete:
                process.completed, process.together = old.view.text, old.transitional_members
            else:
                process.together &= old.transitional_members
        stay = state.install(process, view)
        view.came[event.p] = (process.completed, process.together)
        view.brought[event.p] = process.table.bring(process)
        view.base[event.p] = stay.go_on(old) if old is not None else {}
        if not process.booted:
            stay.complete = True
            process.table = process.table.go_on()
            state.announce(process)

    def _view(self, process: ProcessRecord, event: Conf) -> ViewRecord:
        state = self._state
        view = state.views.get(event.view)
        if view is None:
            view = ViewRecord(event.view, event.rings)
            state.add_view(view)
        for member in view.members if process.booted else ():
            other = state.processes.get(member)
            if other is None or not other.booted:
                self._report.add("C7", f"{member} is in a view, and has not started", event)
        return view

    # ---- the core ----

    def heal(self, event: Heal) -> None:
        """Note that all faults have ended."""
        if self._healed_at is not None:
            self._report.add("D5", "the faults end twice", event)
            return
        self._healed_at = event.t
        self._state.core, self._state.aside = event.core, frozenset(event.aside)
        self.deadline = event.t + GRACE_US - 1

    def _core_agrees(self) -> bool:
        core = self._state.core
        assert core is not None
        stays = [self._state.stays.get(identity) for identity in core]
        first = stays[0] if stays else None
        if first is None or not self._is_of_core(first.view.members.keys()):
            return False
        if not all(s is not None and s.view is first.view and s.part.regular for s in stays):
            return False
        self._admitted = set(self._state.aside & first.view.members.keys())
        return True

    def _is_of_core(self, members: Set[str]) -> bool:
        """Return whether these are all daemons of the core, and besides them only daemons aside."""
        core = frozenset(self._state.core or ())
        return core <= members <= core | self._state.aside

    def _admits(self, event: Conf, members: frozenset[str]) -> bool:
        """Return whether a view may admit a daemon whose disk has answered meanwhile.

        All of the core must come along, and each daemon is admitted once.
        """
        new = self._state.aside - self._admitted
        if event.kind == "T":
            return members >= set(self._state.core or ()) and bool(
                new or event.view in self._admitting
            )
        if not self._is_of_core(members):
            return False
        if members & new:
            self._admitted |= members
            self._admitting.add(event.view)
        return event.view in self._admitting

    def look(self, event: TraceEvent) -> None:
        """Check L1: some time has passed since Heal, or the trace has ended."""
        if self._healed_at is None or self.deadline == NEVER:
            return
        if not self._late:
            self._late = True
            self._agreed = self._core_agrees()
            self.deadline = self._healed_at + AGREEMENT_US
        if event.t > self.deadline or isinstance(event, Quiet):
            self.deadline = NEVER
            if not self._agreed:
                self._report.add("L1", "the daemons of the core do not agree on a view", event)

    def _fall_apart(self, text: str, event: TraceEvent) -> None:
        if not self._agreed:
            self.deadline = NEVER
            self._report.add("L1", f"{text}, before the core agrees on a view", event)
