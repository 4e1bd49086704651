"""Readers in whole clusters: over sites and views of the daemons, and as both checkers see them."""

import functools
from itertools import permutations

import pytest
from msgspec.structs import replace

from groupcomm.events import GroupView, Message
from groupcomm.level import LEVELS
from groupcomm.sim.check import check_events
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from groupcomm.trace.events import Ask, Deliver, Member, Quiet, TraceEvent
from tests.groupcomm.sim.checked_cluster import with_few_notices
from tests.verification.reference import reference_check

HALVES = [(a, b) for a, b in permutations(range(3), 2) if (a < 2) != (b < 2)]


@functools.cache
def trace_of_readers(sites: int = 1) -> tuple[TraceEvent, ...]:
    """Return the trace of a member and a reader at each of three daemons, before, in and after a
    partition; one reader leaves, one crashes.
    """
    found: list[TraceEvent] = []
    settings = with_few_notices(plain_settings(daemons=3, sites=sites))
    cluster = Cluster(settings, found.append)
    cluster.run(0.5)
    members = [cluster.connect(f"member{at}", at) for at in range(3)]
    readers = [cluster.connect(f"reader{at}", at) for at in range(3)]
    cluster.run(0.2)
    for client in (*members, *readers):
        client.join("g", views=client in members)
    cluster.run(0.5)
    for change in (None, cluster.network.cut, cluster.network.mend, None):
        if change is not None:
            change(HALVES)
        for level in LEVELS:
            members[0].multicast(["g"], b"m", level=level)
            readers[1].multicast(["g"], b"r", level=level)
        cluster.run(2.0)
    for reader in readers:
        assert len([event for event in reader.events if isinstance(event, GroupView)]) == 1
        assert len([event for event in reader.events if isinstance(event, Message)]) > 20
    shown = [event for event in members[0].events if isinstance(event, GroupView)]
    assert all(len(view.members) <= 3 for view in shown)
    assert len(shown) <= 5, "three joins, and two views of the daemons"
    readers[0].leave("g")
    readers[2].crash()
    cluster.run(0.5)
    members[1].multicast(["g"], b"last")
    cluster.settle()
    assert isinstance(found[-1], Quiet)
    return tuple(found)


@pytest.mark.parametrize("sites", [1, 3])
def test_readers_get_what_members_get_and_cause_no_views(sites: int) -> None:
    """Over several sites their daemons subscribe, and announce them in each new view."""
    trace = trace_of_readers(sites)
    assert check_events("readers", trace).violations == ()
    if sites == 1:
        assert reference_check(list(trace)) == set()


def is_of_reader(event: TraceEvent) -> bool:
    """Return whether a reader gets a view, or a message that may not be lost."""
    if not isinstance(event, Deliver | Member) or not event.c.startswith("#reader1"):
        return False
    return isinstance(event, Member) or event.level > 0


@pytest.mark.parametrize(
    ("kind", "expected"), [(Deliver, "R"), (Member, "G3")], ids=["message", "view"]
)
def test_both_checkers_miss_what_a_reader_does_not_get(
    kind: type[TraceEvent], expected: str
) -> None:
    trace = list(trace_of_readers())
    trace.remove(next(event for event in trace if type(event) is kind and is_of_reader(event)))
    assert expected in found_by_both(trace)


def test_both_checkers_notice_a_reader_in_the_views_of_members() -> None:
    trace = list(trace_of_readers())
    at, view = next(
        (at, event)
        for at, event in enumerate(trace)
        if isinstance(event, Member) and len(event.members) == 3
    )
    reader = next(event.c for event in trace if isinstance(event, Ask) and event.what == "read")
    trace[at] = replace(view, members=(*view.members, reader))
    assert "G2" in found_by_both(trace)


def found_by_both(trace: list[TraceEvent]) -> set[str]:
    """Return the properties that both checkers find violated."""
    return {each.property for each in check_events("readers", trace).violations} & reference_check(
        trace
    )
