"""All checkers behind one method: feed it the events of a trace, in order.

docs/properties.md defines the properties. Each event is looked up once, then passed to the checkers
that it concerns; the cost of an event does not grow with the length of the trace.
"""

from collections.abc import Callable
from typing import Any

from groupcomm.sim.checkers.agreed import AgreedOrder, Positions
from groupcomm.sim.checkers.client_events import ClientEvents
from groupcomm.sim.checkers.delivery import Delivery, Holes
from groupcomm.sim.checkers.fifo_causal import Causes, SenderOrder
from groupcomm.sim.checkers.group_tables import Tables
from groupcomm.sim.checkers.groups import ClientViews, GroupViews, Private
from groupcomm.sim.checkers.membership import Membership, Stages
from groupcomm.sim.checkers.records import (
    Stay,
)
from groupcomm.sim.checkers.releases import Releases
from groupcomm.sim.checkers.report import Report, Violation
from groupcomm.sim.checkers.stamps import Stamps
from groupcomm.sim.checkers.state import ObservedState
from groupcomm.sim.checkers.view_agreement import Together
from groupcomm.trace.events import (
    Accept,
    Boot,
    Conf,
    Count,
    Fail,
    Heal,
    Hold,
    Horizon,
    Left,
    Quiet,
    Rejects,
    Release,
    Stamped,
    Table,
    TraceEvent,
)
from groupcomm.trace.steps import STEPS, AlgorithmStep

_FIFO = 2


def _pass(_: AlgorithmStep) -> None:
    """Ignore steps of algorithms and filters, which promise nothing of their own."""


Handler = Callable[[Any], None]
StayHandler = Callable[[Any, Stay], None]


class Checkers:
    """All checkers of one trace."""

    def __init__(self) -> None:
        self._report = report = Report()
        self._state = state = ObservedState()
        self._stages = Stages(state, report)
        self._stamps = Stamps(report)
        self._together = Together(state, report)
        self._sender_order = SenderOrder(report)
        self._agreed = AgreedOrder(report, state)
        self._positions = Positions(report)
        holes = Holes(report)
        self._delivery = Delivery(report, state, holes)
        self._tables = Tables(state, report, self._stages, holes)
        self._views = GroupViews(state, report)
        self._private = Private(state, report)
        self._membership = Membership(state, report, self._stages, self._together, self._delivery)
        self._releases = Releases(
            report,
            state,
            stamps=self._stamps,
            positions=self._positions,
            agreed=self._agreed,
            sender_order=self._sender_order,
            delivery=self._delivery,
            tables=self._tables,
            together=self._together,
        )
        clients = ClientEvents(
            report,
            state,
            stages=self._stages,
            stamps=self._stamps,
            positions=self._positions,
            agreed=self._agreed,
            sender_order=self._sender_order,
            causes=Causes(report, state),
            holes=holes,
            delivery=self._delivery,
            views=self._views,
            client_views=ClientViews(report),
            private=self._private,
        )
        self._time = 0
        self._quiet: Quiet | None = None
        self._of_stays: dict[type[TraceEvent], StayHandler] = {
            Stamped: self._on_stamped,
            Hold: self._stamps.hold,
            Horizon: self._stamps.horizon,
            Count: self._stamps.count,
            Release: self._releases.released,
            Table: self._tables.table,
            Accept: self._on_accept,
        }
        self._handlers = {**clients.handlers, **self._own_handlers()}

    def _own_handlers(self) -> dict[type[TraceEvent], Handler]:
        return {
            Boot: self._membership.boot,
            Fail: self._membership.ends,
            Left: self._membership.ends,
            Conf: self._membership.conf,
            Heal: self._membership.heal,
            Rejects: self._on_rejects,
            Quiet: self._on_quiet,
            **dict.fromkeys(STEPS, _pass),
        }

    def feed(self, event: TraceEvent) -> None:
        """Process the next event of a well-formed trace, see check.py."""
        time = event.t
        if time != self._time:
            if time < self._time:
                self._report.add("D5", f"it is {time} after {self._time}", event)
            if time > self._membership.deadline:
                self._membership.look(event)
            self._time = time
        if self._quiet is not None:
            self._report.add("D5", "something happens after everything has settled", event)
        state = self._state
        state.events += 1
        kind = type(event)
        of_stay = self._of_stays.get(kind)
        if of_stay is None:
            self._handlers[kind](event)
            return
        stay = state.stays.get(event.p)  # type: ignore[union-attr]
        if stay is not None:
            of_stay(event, stay)
        else:
            self._out_of_place(event)

    def finish(self) -> None:
        """Finish the trace; if it ends with Quiet, no event may be missing."""
        self._agreed.finish()
        if self._quiet is not None:
            self.rest(self._quiet)

    def rest(self, event: Quiet) -> None:
        """Check that no event of the daemons that must be complete now is missing.

        More events may follow. Before all faults have ended these are the daemons that run.

        Args:
            event: the moment, which need not be in the trace.
        """
        self._delivery.quiet(event)
        self._private.quiet(event)
        self._views.quiet(event)
        self._stages.quiet(event)
        self._together.quiet(event)

    @property
    def violations(self) -> list[Violation]:
        """Return the violations so far."""
        return self._report.violations

    @property
    def ids(self) -> set[str]:
        """Return the ids of the violated properties."""
        return self._report.ids

    def _out_of_place(self, event: Any) -> None:
        """Report an event of a daemon that has ended, or that has no view."""
        process = self._state.processes.get(event.p)
        if process is not None and process.ended:
            self._report.add("D5", f"{process} goes on after its end", event)
        else:
            self._report.add("C1", f"{event.p} does something without a view", event)

    def _on_stamped(self, event: Stamped, stay: Stay) -> None:
        if self._stamps.stamped(event, stay) and stay.view.unauthored:
            self._together.stamped(event, stay)

    def _on_rejects(self, event: Rejects) -> None:
        process = self._state.processes.get(event.p)
        if process is not None and process.ended:
            self._report.add("D5", f"{process} goes on after its end", event)
        elif process is None and self._state.boots:
            self._report.add("C1", f"{event.p} has not started", event)
        elif event.bad != event.injected:
            self._report.add(
                "D8", f"{event.p} rejected {event.bad} of {event.injected} bad datagrams", event
            )

    def _on_accept(self, event: Accept, stay: Stay) -> None:
        client = self._state.client(event.c)
        if client.home is not stay.process:
            self._report.add("D1", f"{event.p} takes from {client}, which is not its own", event)
        for number in range(event.first, event.last + 1):
            item = client.sent.get(number)
            if item is None:
                if number > client.forgotten:
                    text = f"{event.p} takes {number} of {client}, which was not sent"
                    self._report.add("D1", text, event)
                continue
            item.accepted += 1
            item.accepted_in = stay.view if stay.complete else None
            if item.accepted == 1:
                if item.level >= _FIFO:
                    self._sender_order.accepted(item)
                self._private.accepted(item)

    def _on_quiet(self, event: Quiet) -> None:
        if self._quiet is None:
            self._membership.look(event)
        self._quiet = event
