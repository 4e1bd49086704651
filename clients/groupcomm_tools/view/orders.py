"""Orders that did not hold in a trace of steps, found from sendings and deliveries alone."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

import attrs

from groupcomm.trace.events import TraceEvent
from groupcomm.trace.steps import Given, MessageId
from groupcomm_lessons.algorithms.history import Broken
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.algorithms.step_orders import StepOrders, orders_of

JUDGED_DELIVERIES: Final = 50_000
"""The longest trace that is checked: a longer one would take more than some seconds."""

SHOWN: Final = 30
"""Violations of each order that are shown."""


@attrs.frozen
class Unkept:
    """An order that was not kept.

    Attributes:
        order: name of the order.
        text: the violation, in one sentence.
        proof: the deliveries, the later one first; for total order those of two processes.
    """

    order: str
    text: str
    proof: tuple[Given, ...]


def unkept_orders(events: Sequence[TraceEvent]) -> tuple[list[Unkept], str]:
    """Return the violations of FIFO, causal or total order, whether claimed or not, and the
    unchecked parts.
    """
    deliveries = [event for event in events if isinstance(event, Given)]
    if len(deliveries) > JUDGED_DELIVERIES:
        return [], (
            f"orders were not checked: the trace has {len(deliveries)} deliveries, more than"
            f" {JUDGED_DELIVERIES}"
        )
    orders = orders_of(events)
    found = [
        Unkept(order.value, broken.why, orders.proof(broken))
        for order in (Order.FIFO, Order.CAUSAL)
        for broken in islice(orders.history.find(order), SHOWN)
    ]
    return found + _unlike(orders), ""


_Given = Mapping[tuple[str, MessageId], Given]


def _unlike(orders: StepOrders) -> list[Unkept]:
    """Return pairs of messages that two processes delivered in different orders, each pair once."""
    pairs: dict[frozenset[MessageId], Broken] = {}
    for broken in orders.history.find(Order.TOTAL):
        pairs.setdefault(frozenset((broken.first.id, broken.second.id)), broken)
        if len(pairs) == SHOWN:
            break
    unlike = []
    for broken in pairs.values():
        first, second = broken.first, broken.second
        one = orders.proof(broken)
        other = _other_way_round(first.id, second.id, orders.given)
        text = f"{one[0].p}: {first} before {second}; {other[0].p}: the other way round"
        unlike.append(Unkept(Order.TOTAL.value, text, one + other))
    return unlike


def _other_way_round(first: MessageId, second: MessageId, given: _Given) -> tuple[Given, ...]:
    """Return the deliveries of a process that delivered the second message first."""
    places = {key: place for place, key in enumerate(given)}
    for process in sorted({process for process, _ in given}):
        early, late = (process, second), (process, first)
        if early in given and late in given and places[early] < places[late]:
            return given[late], given[early]
    raise AssertionError(f"{first} comes before {second} everywhere")
