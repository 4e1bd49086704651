"""The check of recorded traces, also for the orders that steps of algorithms kept."""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

import attrs

from groupcomm.sim import check
from groupcomm.sim.check import CheckResult
from groupcomm.sim.checkers import Violation
from groupcomm.trace.events import TraceEvent
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.algorithms.step_orders import StepOrders

PROMISED: Final = frozenset({Order.FIFO, Order.CAUSAL})
"""The default orders that the steps of algorithms must keep."""

ORDERS_SHOWN: Final = 100
"""Violations of each order that are reported."""


def check_events(
    name: str, events: Iterable[TraceEvent], orders: Collection[Order] = PROMISED
) -> CheckResult:
    """Check events in the order in which they happened.

    Args:
        name: the name of the trace.
        events: the events of daemons, clients and algorithms.
        orders: the orders that steps of algorithms must have kept.
    """
    steps = StepOrders()
    result = check.check_events(name, _fed(steps, events))
    broken = (
        Violation(order.value, found.why, steps.proof(found))
        for order in Order
        if order in orders
        for found in islice(steps.history.find(order), ORDERS_SHOWN)
    )
    return attrs.evolve(result, violations=(*result.violations, *broken))


def _fed(steps: StepOrders, events: Iterable[TraceEvent]) -> Iterator[TraceEvent]:
    for event in events:
        steps.feed(event)
        yield event
