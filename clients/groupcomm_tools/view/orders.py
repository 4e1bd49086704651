"""Orders that did not hold in a trace of steps, found from sendings and deliveries alone."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import attrs

from groupcomm.algorithms.history import Broken, History
from groupcomm.algorithms.process import Message, Order
from groupcomm.trace.events import TraceEvent
from groupcomm.trace.steps import Given, MessageId, StampedSent

JUDGED_DELIVERIES: Final = 50_000
"""A longer trace is not checked: it would take more than some seconds."""

SHOWN: Final = 30
"""Violations of each order that are shown."""


@attrs.frozen
class Unkept:
    """An order that was not kept.

    Attributes:
        order: name of the order.
        text: one sentence.
        proof: deliveries, the later one first; for total order those of two processes.
    """

    order: str
    text: str
    proof: tuple[Given, ...]


def unkept_orders(events: Sequence[TraceEvent]) -> tuple[list[Unkept], str]:
    """Return what breaks FIFO, causal or total order, whether claimed or not; and what was not
    checked.
    """
    deliveries = [event for event in events if isinstance(event, Given)]
    if len(deliveries) > JUDGED_DELIVERIES:
        return [], (
            f"orders were not checked: the trace has {len(deliveries)} deliveries, more than"
            f" {JUDGED_DELIVERIES}"
        )
    history, given = _history(events)
    found = [
        Unkept(order.value, broken.why, _proof(broken, given))
        for order in (Order.FIFO, Order.CAUSAL)
        for broken in islice(history.find(order), SHOWN)
    ]
    return found + _unlike(history.find(Order.TOTAL), given), ""


_Given = dict[tuple[str, MessageId], Given]


def _history(events: Sequence[TraceEvent]) -> tuple[History, _Given]:
    history = History()
    sent: dict[MessageId, Message] = {}
    given: _Given = {}
    for event in events:
        if isinstance(event, StampedSent) and (event.s, event.m) not in sent:
            message = sent[event.s, event.m] = Message(event.s, event.m, event.to, b"")
            history.send(message)
        elif isinstance(event, Given) and (event.s, event.m) in sent:
            history.deliver(event.p, sent[event.s, event.m])
            given[event.p, (event.s, event.m)] = event
    return history, given


def _proof(broken: Broken, given: _Given) -> tuple[Given, ...]:
    return tuple(given[broken.process, message.id] for message in (broken.second, broken.first))


def _unlike(found: Iterator[Broken], given: _Given) -> list[Unkept]:
    """Return pairs of messages that two processes delivered in different orders, each pair once."""
    pairs: dict[frozenset[MessageId], Broken] = {}
    for broken in found:
        pairs.setdefault(frozenset((broken.first.id, broken.second.id)), broken)
        if len(pairs) == SHOWN:
            break
    unlike = []
    for broken in pairs.values():
        first, second = broken.first, broken.second
        one = _proof(broken, given)
        other = _other_way_round(first.id, second.id, given)
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
