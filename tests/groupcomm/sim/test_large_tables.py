"""Large group tables where work takes time: a daemon goes and comes back, no other view ends."""

import pytest

from groupcomm.engine import delivery
from groupcomm.events import GroupView, Transition
from groupcomm.groups import announcement, carried
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings

GROUPS = 150
"""Of each program: each daemon has one, which is in a group with the others besides."""

MANY, AT_ONCE = 100_000, 250

FIVEFOLD_US = 25
"""Five times what a unit takes on the reference machine: in one step the tables take seconds."""

SLOW_US = 4000
"""So a new daemon needs a token timeout of processor time for the tables of the others."""


@pytest.fixture
def crowded() -> Cluster:
    """Three daemons in one view, whose programs are in many groups."""
    cluster = Cluster(plain_settings(daemons=3, seed=1))
    cluster.run(1.0)
    programs = [cluster.connect(f"u{at}", at) for at in range(3)]
    cluster.run(0.5)
    for at, program in enumerate(programs):
        for group in ["all", *(f"{at}/{number}" for number in range(GROUPS))]:
            program.join(group)
    cluster.run(3.0)
    assert [len(program.groups) for program in programs] == [GROUPS + 1] * 3
    return cluster


def lose_and_return(cluster: Cluster, unit_us: int = SLOW_US) -> list[int]:
    """Kill a daemon and start it again, on slow machines; return how often each left a view."""
    before = departures(cluster)
    slow_down(cluster, unit_us)
    cluster.daemons[2].kill()
    cluster.run(16.0)
    cluster.daemons[2].boot()
    cluster.run(0.1)
    slow_down(cluster, unit_us)
    cluster.run(16.0)
    return [now - then for now, then in zip(departures(cluster), before, strict=True)]


def slow_down(cluster: Cluster, unit_us: int) -> None:
    for host in cluster.daemons:
        assert host.process is not None
        host.process.unit_us = unit_us


def departures(cluster: Cluster) -> list[int]:
    """Return the number of times that daemons 0 and 1 have left a view."""
    return [host.core.membership.reasons.total() for host in cluster.daemons[:2]]


def told(client: SimulatedClient) -> dict[str, list[tuple[str, ...]]]:
    """Return the views that a program has got since its first transition, as users' names."""
    events = client.events
    begin = next(at for at, event in enumerate(events) if isinstance(event, Transition))
    found: dict[str, list[tuple[str, ...]]] = {}
    for event in events[begin:]:
        if isinstance(event, GroupView):
            found.setdefault(event.group, []).append(tuple(m.user for m in event.members))
    return found


def test_large_tables_end_no_view(crowded: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "PIECE", 25)
    monkeypatch.setattr(announcement, "SECTION_ROWS", 25)
    monkeypatch.setattr(carried, "STEP_ROWS", 25)
    assert lose_and_return(crowded) == [2, 2], "as the daemon is lost, and as it comes back"
    for at in range(2):
        (client,) = [c for c in crowded.clients if c.user == f"u{at}"]
        views = told(client)
        assert views["all"] == [("u0", "u1"), ("u0", "u1")]
        assert len(views) == GROUPS + 1
        assert all(found == [(f"u{at}",)] * 2 for name, found in views.items() if name != "all")


@pytest.mark.verification
def test_a_hundred_thousand_groups_end_no_view() -> None:
    cluster = Cluster(plain_settings(daemons=3, seed=1))
    cluster.run(1.0)
    programs = [cluster.connect(f"u{at}", at % 3) for at in range(4 * 3)]
    cluster.run(0.5)
    for first in range(0, MANY // len(programs), AT_ONCE):
        for at, program in enumerate(programs):
            for number in range(first, first + AT_ONCE):
                program.join(f"{at}/{number}")
        cluster.run(0.5)
    cluster.run(1.0)
    assert sum(len(program.groups) for program in programs) >= MANY
    assert lose_and_return(cluster, unit_us=FIVEFOLD_US) == [2, 2]
    assert len(cluster.daemons[0].core.groups()) >= MANY * 2 // 3


@pytest.mark.verification
def test_in_one_step_they_would(crowded: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "PIECE", 10**9)
    assert min(lose_and_return(crowded)) > 2
