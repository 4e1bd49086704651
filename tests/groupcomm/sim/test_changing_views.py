"""The checkers against the reference checker, on histories whose views change: valid and broken
ones."""

from collections import Counter
from functools import lru_cache
from itertools import islice

import pytest

from groupcomm.trace.events import (
    Bounce,
    Conf,
    Deliver,
    Fail,
    Heal,
    Left,
    Member,
    Order,
    Quiet,
    Release,
    TraceEvent,
    decode_event_untrusted,
    encode_event,
)
from tests.groupcomm.sim.compare_checkers import break_history, fast
from tests.verification.generators import ChangingHistory, make_changing_history
from tests.verification.mutations import CHANGE_MUTATIONS, MUTATIONS
from tests.verification.reference import reference_check

pytestmark = pytest.mark.verification

VALID = 160
"""The number of histories; see compare_checkers.py for more."""

ROUNDS = 24
"""Small ones."""

BROKEN = 4
"""The number of histories that are broken in each way."""

COMPARED = 2
"""The number of those that go to the reference checker, too."""

KINDS = sorted(MUTATIONS | CHANGE_MUTATIONS)

MAY_BE_HARMLESS = {
    "acceptance lost": 0.4,  # no daemon has released the message
    "bounce lost": 0.3,  # its client does not continue
    "conf early": 0.2,  # no event of its process is in between
    "deliveries swapped": 0.0,  # deliveries of RELIABLE and UNRELIABLE, or of different senders
    "delivery early": 0.4,
    "delivery late": 0.2,  # no rule says when a message arrives
    "delivery lost": 0.3,  # its client does not continue
    "majority altered": 0.5,  # no other client gets that view
    "network view lost": 0.3,
    "own message not delivered": 0.4,  # no other client has it, and its daemon does not continue
    "release lost": 0.5,  # a release of an UNRELIABLE message
    "releases swapped": 0.3,
    "self delivery lost": 0.2,
    "send late": 0.4,  # it is late, but before its acceptance
    "stamp lowered everywhere": 0.4,
    "table altered": 0.2,  # a daemon that is alone has no other table to compare
    "table lost": 0.2,
    "transition late": 0.2,
    "transition lost": 0.4,
    "view late": 0.2,
    "view lost": 0.3,
    "view of a disconnect lost": 0.3,
    "ordered lost": 0.3,
}
"""Mutations that the rules often allow, and the least share of them that must be noticed."""

RARE = {"delivery after crash", "delivery to a later owner"}
"""Mutations for which few histories have events."""


@lru_cache(maxsize=VALID)
def history(seed: int) -> tuple[TraceEvent, ...]:
    return tuple(make_changing_history(seed, ROUNDS))


def broken(kind: str) -> list[tuple[int, list[TraceEvent]]]:
    """Histories with one mutation of a kind, with their seeds."""
    traces = ((seed, break_history(history(seed), kind, seed)) for seed in range(VALID))
    return list(islice(((seed, trace) for seed, trace in traces if trace is not None), BROKEN))


@pytest.mark.parametrize("start", range(0, VALID // 2, 40))
def test_no_false_alarm_on_valid_traces(start: int) -> None:
    for seed in range(start, start + 40):
        events = list(history(seed))
        assert not fast(events).violations, f"seed {seed}: {fast(events).violations[0]}"
        assert not reference_check(events), f"seed {seed}"


@pytest.mark.parametrize("kind", KINDS)
def test_mutations_are_noticed_and_both_checks_agree(kind: str) -> None:
    traces = broken(kind)
    assert len(traces) >= (0 if kind in RARE else 3), "the histories have too little of this kind"
    noticed = 0
    for number, (seed, trace) in enumerate(traces):
        found = fast(trace).ids
        assert number >= COMPARED or found == reference_check(trace), f"{kind}, seed {seed}"
        noticed += bool(found)
    assert noticed >= MAY_BE_HARMLESS.get(kind, 0.7) * len(traces)


def test_traces_have_what_changing_views_bring() -> None:
    """Parts that no history has are not tested by them."""
    there = Counter[str]()
    for seed in range(VALID):
        events = list(history(seed))
        there.update({type(event).__name__ for event in events})
        there["ends without Quiet"] += not isinstance(events[-1], Quiet)
        there["ends with Quiet"] += any(isinstance(event, Heal) for event in events)
        for event in events:
            if isinstance(event, Order) and event.trans:
                there["transitional order"] += 1
            elif isinstance(event, Member) and event.cause == "network":
                there["network view"] += 1
                there["network view, not all together"] += event.vs != event.members
        there["transitional delivery"] += _transitional_deliveries(events)
        there["start after another"] += any(
            isinstance(e, Conf) and e.p.endswith("/2") and sum(map(len, e.rings)) > 1
            for e in events
        )
    assert there[Fail.__name__] >= 40
    assert there[Left.__name__] >= 10
    assert there[Bounce.__name__] >= 40
    for what in ("transitional order", "network view, not all together", "start after another"):
        assert there[what] >= 5, what
    assert there["transitional delivery"] >= 100
    assert there["ends without Quiet"] >= 15
    assert there["ends with Quiet"] >= 80


def _transitional_deliveries(events: list[TraceEvent]) -> int:
    parts: dict[str, str] = {}
    count = 0
    for event in events:
        if isinstance(event, Conf):
            parts[event.p] = event.kind
        elif isinstance(event, Release):
            count += parts[event.p] == "T"
    return count


def test_long_traces_are_checked_without_false_alarms() -> None:
    for seed in range(3):
        long = ChangingHistory(seed, daemons=5, clients=4, unrest=0.1)
        long.play(200)
        long.settle()
        checkers = fast(long.log.events)
        assert not checkers.violations, f"seed {seed}: {checkers.violations[0]}"
        assert sum(isinstance(event, Deliver) for event in long.log.events) > 100


def test_equal_seeds_give_equal_traces() -> None:
    assert make_changing_history(7) == make_changing_history(7)
    assert make_changing_history(7) != make_changing_history(8)


def test_every_event_survives_its_line() -> None:
    for seed in range(10):
        for event in history(seed):
            assert decode_event_untrusted(encode_event(event)) == event
