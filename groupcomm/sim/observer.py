"""Observers: further checks of a run, beside its checkers."""

from collections.abc import Mapping
from typing import Protocol

from groupcomm.config.view import DaemonId
from groupcomm.sim.checkers.report import Violation
from groupcomm.trace.events import TraceEvent
from groupcomm.trace.recorders import RecordEvent, TraceProbe
from groupcomm.trace.steps import TraceClock


class Observer(Protocol):
    """A further check of a run, which also hears of the steps that no trace has.

    Attributes:
        violations: what it has found.
        actions: the number of steps that it has compared.
    """

    violations: list[Violation]
    actions: int

    def use_base(self, base: int) -> None:
        """Note the number before the first one of each stream."""

    def feed(self, event: TraceEvent) -> None:
        """Accept the next event of the trace."""

    def probe(
        self,
        clock: TraceClock,
        record: RecordEvent,
        process: str,
        identities: Mapping[DaemonId, str],
    ) -> TraceProbe:
        """Return the probe of a daemon."""
