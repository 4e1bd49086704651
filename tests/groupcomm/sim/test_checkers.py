"""The checkers against the reference checker, on generated histories: valid ones and broken
ones."""

import re
from collections import Counter
from functools import lru_cache
from itertools import islice
from pathlib import Path

import pytest

from groupcomm.sim.checkers import (
    agreed,
    group_tables,
    groups,
    places,
    state,
)
from groupcomm.sim.checkers.report import MAX_VIOLATIONS
from groupcomm.trace.events import (
    Ask,
    Boot,
    Conf,
    Deliver,
    Fail,
    Quiet,
    Send,
    Table,
    TraceEvent,
    decode_event_untrusted,
    encode_event,
)
from tests.groupcomm.sim.compare_checkers import break_history, fast
from tests.verification.generators import History, make_changing_history, make_history
from tests.verification.mutations import CHANGE_MUTATIONS, MUTATIONS
from tests.verification.reference import reference_check

pytestmark = pytest.mark.verification

VALID = 80
"""The number of histories; see compare_checkers.py for more."""

BROKEN = 4
"""The number of histories that are broken in each way."""

COMPARED = 2
"""The number of those that go to the reference checker, too."""

MAY_BE_HARMLESS = {
    "conf late": 0.2,  # no event of its process is in between
    "delivery late": 0.2,  # no rule says when a message arrives
    "view late": 0.2,
    "deliveries swapped": 0.4,  # deliveries of RELIABLE and UNRELIABLE, or of different senders
    "releases swapped": 0.4,
    "delivery early": 0.4,
    "release lost": 0.5,  # a release of an UNRELIABLE message
    "table altered": 0.5,  # one daemon has no other table to compare
    "table lost": 0.5,
}
"""Mutations that the rules often allow, and the least share of them that must be noticed."""

PROPERTIES = (Path(__file__).parents[3] / "docs" / "properties.md").read_text()


@lru_cache(maxsize=VALID)
def history(seed: int) -> tuple[TraceEvent, ...]:
    return tuple(make_history(seed))


def broken(kind: str, count: int = BROKEN) -> list[list[TraceEvent]]:
    """Histories with one mutation of a kind."""
    traces = (break_history(history(seed), kind, seed) for seed in range(VALID))
    return list(islice((trace for trace in traces if trace is not None), count))


@pytest.mark.parametrize("start", range(0, VALID, 40))
def test_no_false_alarm_on_valid_traces(start: int) -> None:
    for seed in range(start, start + 40):
        events = list(history(seed))
        assert not fast(events).violations, f"seed {seed}: {fast(events).violations[0]}"
        assert not reference_check(events), f"seed {seed}"


@pytest.mark.parametrize("kind", sorted(MUTATIONS))
def test_mutations_are_noticed_and_both_checks_agree(kind: str) -> None:
    traces = broken(kind)
    assert traces, "the histories have nothing of this kind"
    noticed = 0
    for number, trace in enumerate(traces):
        found = fast(trace).ids
        assert number >= COMPARED or found == reference_check(trace), f"{kind}, number {number}"
        noticed += bool(found)
    assert noticed >= MAY_BE_HARMLESS.get(kind, 0.7) * len(traces)


def test_every_property_can_be_violated() -> None:
    """Every check is set off by some mutation."""
    documented = set(re.findall(r"^\| ([A-Z]+\d*) \| [^|]+ \|$", PROPERTIES, re.MULTILINE))
    documented -= {"B1", "B2", "B3", "B4"}  # rules about runs with liars: test_byzantine.py
    documented -= {f"Q{number}" for number in range(1, 10)}  # rules about rosters: test_rosters.py
    documented -= {"U1", "U2", "U3"}  # rules about versions: test_versions.py
    documented -= {"L6"}  # a rule about hosts, which a trace does not show: test_outdated_disks.py
    assert len(documented) > 40
    found: set[str] = set()
    for kind in MUTATIONS:
        for trace in broken(kind, 6):
            found |= fast(trace).ids
    histories = [make_changing_history(seed, 24) for seed in range(40)]
    for kind in CHANGE_MUTATIONS:
        changed = (break_history(whole, kind, seed) for seed, whole in enumerate(histories))
        for trace in islice((trace for trace in changed if trace is not None), 12):
            found |= fast(trace).ids
    assert found == documented


def boot(process: str, restarts: int) -> Boot:
    return Boot(0, process, f"{restarts}.{restarts:x}")


def installs(process: str, counter: int, *others: str) -> Conf:
    return Conf(0, process, "R", f"{counter}.a.{counter:x}", ((process, *others),))


@pytest.mark.parametrize("clone_is_with", [(), ("b/1",)], ids=["clone alone", "clone with another"])
@pytest.mark.parametrize(
    ("later", "with_one_that_knows", "found"),
    [(15, False, set()), (15, True, {"C4"}), (9, False, {"C4"})],
)
def test_a_view_of_a_clone_whose_disk_is_gone_may_be_passed_by_later(
    *, clone_is_with: tuple[str, ...], later: int, with_one_that_knows: bool, found: set[str]
) -> None:
    """Simulator seed 463, suite 2, an evicted daemon: a clone was in a view with a counter far
    ahead, alone or with a daemon that the next start does not hear. The clone's disk is gone, and
    that start learns only how often it had started."""
    both, others = ("a/2", *clone_is_with), ("b/1",) * with_one_that_knows
    events: list[TraceEvent] = [
        boot("a/1", 1),
        boot("b/1", 1),
        installs("a/1", 10),
        boot("a/2", 2),  # a clone of the daemon
        *(Conf(0, member, "R", "20.a.14", (both,)) for member in both),
        *([] if clone_is_with else [installs("b/1", 21)]),
        Fail(0, "a/2"),
        Fail(0, "a/1"),
        boot("a/3", 3),
        installs("a/3", later, *others),
        *(Conf(0, other, "R", f"{later}.a.{later:x}", (("a/3", *others),)) for other in others),
    ]
    assert fast(events).ids == found == reference_check(events)


@pytest.mark.parametrize(
    ("place", "found"), [(2, {"L5"}), (4, set()), (5, {"L5"})], ids=["before", "beside", "after"]
)
def test_whoever_asked_the_original_of_a_clone_that_replaced_it_is_never_connected(
    place: int, found: set[str]
) -> None:
    """Simulator seed 312, rosters, two sites, the fault disk. While both run nobody can tell from a
    trace whose client it is."""
    events: list[TraceEvent] = [
        boot("a/2", 2),
        installs("a/2", 10),
        boot("a/1", 1),
        Table(0, "a/2", ("10.a.a", 0, 0, 0, 0), "0"),
        Fail(0, "a/1"),
        Quiet(0),
    ]
    events.insert(place, Ask(0, "#ann#a/1", "connect", "", 0))
    assert fast(events).ids == found == reference_check(events)


def test_what_the_rules_allow_is_no_violation() -> None:
    """UNRELIABLE may be lost, and RELIABLE messages may overtake each other."""
    harmless = Counter[str]()
    for seed in range(VALID):
        events = list(history(seed))
        for index, event in enumerate(events):
            fewer = harmless["lost"] <= harmless["overtaken"]
            if fewer and isinstance(event, Deliver) and event.level == 0:
                changed = [*events[:index], *events[index + 1 :]]
                harmless["lost"] += 1
            elif swapped := _swap_reliable(events, index):
                changed = swapped
                harmless["overtaken"] += 1
            else:
                continue
            assert not fast(changed).violations, f"seed {seed}, event {index}"
            assert not reference_check(changed), f"seed {seed}, event {index}"
            break
    assert min(harmless["lost"], harmless["overtaken"]) >= 10


def _swap_reliable(events: list[TraceEvent], index: int) -> list[TraceEvent] | None:
    """Return two RELIABLE deliveries at one client, next to each other in the trace, change
    places."""
    pair = events[index : index + 2]
    one, other = (pair[0], pair[-1])
    if not (isinstance(one, Deliver) and isinstance(other, Deliver) and one is not other):
        return None
    if (one.c, one.level, other.level) != (other.c, 1, 1):
        return None
    changed = list(events)
    changed[index : index + 2] = [_at(other, one.t), _at(one, other.t)]
    return changed


def _at(event: Deliver, time: int) -> Deliver:
    return Deliver(time, event.c, event.s, event.m, event.level, event.to, event.digest, event.pos)


def test_long_traces_are_forgotten_without_false_alarms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (agreed, group_tables, groups, places, state):
        monkeypatch.setattr(module, "KEPT", 300)
    monkeypatch.setattr(state, "KEPT_CLIENTS", 10)
    for seed in range(6):
        long = History(seed, daemons=1 + seed % 4, rings=1 + seed % 2 * (seed > 1), clients=6)
        long.play(150)
        long.settle()
        checkers = fast(long.log.events)
        assert not checkers.violations, f"seed {seed}: {checkers.violations[0]}"


def test_a_message_that_is_forgotten_may_not_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "KEPT", 40)
    long = History(1, daemons=3, rings=1, clients=4)
    long.play(60)
    events = long.log.events
    first = next(event for event in events if isinstance(event, Deliver))
    checkers = fast([*events, _at(first, events[-1].t)])
    (found,) = checkers.violations
    assert (found.property, "long after" in str(found)) == ("D2", True)


def test_a_violation_names_the_property_and_its_proof() -> None:
    (trace, *_) = broken("delivery altered")
    violation = fast(trace).violations[0]
    assert violation.property == "D1"
    assert str(violation).startswith("D1: #")
    assert isinstance(violation.events[0], Deliver)


def test_violations_are_capped_but_each_property_is_named() -> None:
    events = list(history(1))
    send = next(event for event in events if isinstance(event, Send))
    many = [*events[:-1], *[Send(events[-1].t, *_rest(send))] * 300]
    checkers = fast([*many, events[-1]])
    assert len(checkers.violations) <= MAX_VIOLATIONS + len(checkers.ids)
    assert "D4" in checkers.ids


def _rest(send: Send) -> tuple[str, int, int, tuple[str, ...], int, bool, bool]:
    return (send.c, send.m, send.level, send.to, send.digest, send.discard, send.ordered)


def test_equal_seeds_give_equal_traces() -> None:
    assert make_history(7) == make_history(7)
    assert make_history(7) != make_history(8)


def test_every_event_survives_its_line() -> None:
    for seed in range(20):
        for event in history(seed):
            assert decode_event_untrusted(encode_event(event)) == event
