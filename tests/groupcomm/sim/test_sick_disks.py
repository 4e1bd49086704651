"""Clusters in which disks are slow, hang or fail: views of the others, and the checked daemons."""

import functools
from math import inf

import attrs
import pytest

from groupcomm.config.core import Timing
from groupcomm.membership.failure_detector import MEMBER_WAIT_S
from groupcomm.membership.states import MembershipState
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.cluster.disk import Ailment
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.network.links import chain, equal_links
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND
from groupcomm.trace.events import Boot, Conf, Heal, Quiet, TraceEvent
from tests.groupcomm.sim.checked_cluster import CheckedCluster
from tests.groupcomm.sim.compare_checkers import fast
from tests.verification.campaigns.slow_disk import Measured, measure_all
from tests.verification.reference import reference_check
from tests.verification.simulation.runs import run

TIMING = Timing()
WAYS_S = {1: 0.0, 2: 0.04}
"""The delay between the farthest daemons, by the number of sites."""

# ---- one disk of five ----


@functools.cache
def usual_at(sites: int) -> Measured:
    """Return the times where all disks are well."""
    return measure_all(sites, [0.0])[0]


@pytest.mark.parametrize(
    ("sites", "write_s"),
    [
        pytest.param(sites, write_s, marks=[pytest.mark.long] * ((sites, write_s) != (2, 10.0)))
        for sites in (1, 2)
        for write_s in (0.5, 10.0, inf)
    ],
)
@pytest.mark.verification
def test_the_others_have_their_view_whatever_one_disk_takes(sites: int, write_s: float) -> None:
    """All rows: python -m tests.verification.campaigns.slow_disk."""
    usual, (row,) = usual_at(sites), measure_all(sites, [write_s])
    spare_s = TIMING.gather_wait_s + 2.1 * WAYS_S[sites] + 0.02
    assert row.start_s <= usual.start_s + spare_s
    assert row.crash_s <= usual.crash_s + spare_s
    assert row.again_s <= usual.again_s + spare_s + MEMBER_WAIT_S
    assert row.views <= 2, "the daemon with the disk goes once at most, and comes back once"
    if write_s == inf:
        assert row.back_s == inf
    elif write_s > 1.0:
        assert row.again_s <= usual.again_s + spare_s, "such a disk is not waited for"
        assert 1.0 < row.back_s < 21.0
    else:
        assert row.back_s <= usual.back_s + spare_s, "it was not left out at all"


# ---- all disks alike ----


def test_a_daemon_alone_works_with_a_disk_that_takes_seconds() -> None:
    cluster = Cluster(plain_settings(daemons=1), start=False)
    host = cluster.daemons[0]
    host.disk.ail(Ailment.SLOW, 3 * SECOND)
    host.boot()
    cluster.run(3.1)
    assert cluster.agree([0]), "one write is enough"
    host.kill()
    host.boot()
    cluster.run(3.1)
    assert cluster.agree([0])


@pytest.mark.parametrize(
    "write_s",
    [pytest.param(0.1, marks=pytest.mark.long), 0.5, pytest.param(1.0, marks=pytest.mark.long)],
)
def test_nobody_is_left_out_because_another_has_started(write_s: float) -> None:
    """All disks are equally slow, as on one file server: daemons with a view follow, and keep
    it."""
    views: list[Conf] = []

    def record(event: TraceEvent) -> None:
        if isinstance(event, Conf) and event.kind == "R":
            views.append(event)

    cluster = Cluster(plain_settings(daemons=4), record)
    for host in cluster.daemons:
        host.disk.ail(Ailment.SLOW, int(write_s * SECOND))
    cluster.run(30.0)
    for _ in range(3):
        cluster.daemons[3].kill()
        cluster.form([0, 1, 2])
        cluster.daemons[3].boot()
        views.clear()
        cluster.form(range(4), limit_s=5 * write_s)
        others = [view for view in views if not view.p.startswith("delta")]
        assert [len(view.rings[0]) for view in others] == [4] * 3
        cluster.run(10.0)


@pytest.mark.parametrize("ailment", [Ailment.FULL, Ailment.BROKEN])
def test_a_start_that_cannot_be_counted_is_tried_again(ailment: Ailment) -> None:
    cluster = Cluster(plain_settings(daemons=2), start=False)
    one, other = cluster.daemons
    one.disk.ail(ailment)
    one.boot()
    other.boot()
    cluster.run(5.0)
    assert one.process is None
    assert cluster.agree([1])
    one.disk.recover()
    cluster.run(1.0)
    assert cluster.agree([0, 1])


def test_no_counter_is_used_twice_whatever_becomes_of_writes() -> None:
    """Each view of a daemon is above all earlier ones, and each mark is on disk before its use."""
    faults = Faults(crash_s=1.0, full_disk_s=3.0, failing_disk_s=3.0, hung_disk_s=3.0)
    for seed in (1, 2):
        settings = attrs.evolve(plain_settings(daemons=4, seed=seed, faults=faults), calm_s=0.5)
        assert run(settings).findings == ()


# ---- daemons aside are not in the core ----


@pytest.mark.parametrize("ailment", Ailment)
def test_who_has_a_sick_disk_at_the_end_may_be_in_the_view_or_not(ailment: Ailment) -> None:
    checked = CheckedCluster(plain_settings(daemons=4))
    cluster = checked.cluster
    checked.connect(4)
    sick = cluster.daemons[1]
    sick.disk.ail(ailment, 4 * SECOND)
    cluster.daemons[3].kill()
    cluster.run(2.0)
    clock, now = cluster.daemons[3].clock, cluster.loop.now
    clock.set_ahead_of(clock.wall(now) + 60.0, now)
    cluster.daemons[3].boot()
    cluster.heal(range(4), sick_share=1.0)
    assert (cluster.core, cluster.aside) == ((0, 2, 3), (1,))
    cluster.run(2.0)
    assert cluster.agree(cluster.core)
    assert sick.core.state is MembershipState.OPERATIONAL
    assert sick.core.view is not None
    assert len(sick.core.view.daemons) == 1, "its disk lacks the mark of 60 s ahead"
    if ailment is Ailment.SLOW:
        cluster.run(8.0)
        view = cluster.daemons[0].core.view
        assert view is not None
        assert len(view.daemons) == 4
    checked.finish()


def test_disks_of_daemons_that_others_need_recover() -> None:
    """The middle of a chain of sites cannot stand aside: others reach each other over it."""
    links = equal_links(3, 0.01, chain)
    cluster = Cluster(plain_settings(daemons=(1, 1, 1), links=links))
    cluster.daemons[1].disk.ail(Ailment.HUNG)
    cluster.heal(range(3), sick_share=1.0)
    assert (cluster.core, cluster.aside) == ((0, 1, 2), ())
    assert cluster.daemons[1].disk.ailment is None
    cluster = Cluster(plain_settings(daemons=2))
    for host in cluster.daemons:
        host.disk.ail(Ailment.HUNG)
    cluster.heal(range(2), sick_share=1.0)
    assert cluster.core, "somebody is left"


# ---- the checks ----

AFTER_S = 2.0


def conf(at_s: float, p: str, kind: str, counter: int, members: str, old: int = 0) -> Conf:
    view = f"{counter}.a.1"
    rings = (tuple(f"{name}/1" for name in members),)
    return Conf(int(at_s * SECOND), f"{p}/1", kind, view, rings, f"{old}.a.1" if old else "")


def history(*moves: tuple[float, int, str, str]) -> list[TraceEvent]:
    """Views of a and b, healed at 1 s, with c aside; d is another daemon.

    Each move: the time, the counter of the next view, its members, and those that came along.
    """
    trace: list[TraceEvent] = [Boot(0, f"{name}/1", "1.1") for name in "abcd"]
    before: dict[str, int] = {}
    healed = False
    for at_s, counter, members, along in moves:
        if at_s >= 1.0 and not healed:
            trace.append(Heal(SECOND, ("a/1", "b/1"), ("c/1",)))
            healed = True
        for name in members:
            together = along if name in along else name
            if name in before:
                trace.append(conf(at_s, name, "T", counter, together, before[name]))
            trace.append(conf(at_s, name, "R", counter, members))
        before |= dict.fromkeys(members, counter)
    if not healed:
        trace.append(Heal(SECOND, ("a/1", "b/1"), ("c/1",)))
    return [*trace, Quiet(9 * SECOND)]


def both(trace: list[TraceEvent]) -> set[str]:
    """Return the findings of both checkers about the views of the core."""
    found = fast(trace).ids & {"L1", "L2"}
    assert reference_check(trace) & {"L1", "L2"} == found
    return found


def test_the_core_agrees_with_or_without_who_is_aside() -> None:
    assert both(history((0.5, 1, "ab", ""))) == set()
    assert both(history((0.5, 1, "abc", ""))) == set()
    assert both(history((0.5, 1, "abd", ""))) == {"L1"}
    assert both(history((0.5, 1, "abcd", ""))) == {"L1"}
    assert both(history((0.5, 1, "a", ""), (0.5, 2, "b", ""))) == {"L1"}


def test_who_is_aside_is_taken_in_once() -> None:
    alone = ((0.5, 1, "ab", ""), (0.6, 2, "c", ""))
    assert both(history(*alone, (5.0, 3, "abc", "ab"))) == set()
    assert both(history(*alone, (5.0, 3, "abc", "ab"), (6.0, 4, "ab", "ab"))) == {"L2"}
    assert both(history(*alone, (5.0, 3, "abc", "ab"), (6.0, 4, "abc", "abc"))) == {"L2"}
    inside = (0.5, 1, "abc", "")
    assert both(history(inside, (5.0, 2, "ab", "ab"))) == {"L2"}
    assert both(history(inside, (5.0, 2, "abc", "abc"))) == {"L2"}


def test_all_of_the_core_come_along_as_one_is_taken_in() -> None:
    alone = ((0.5, 1, "ab", ""), (0.6, 2, "c", ""))
    assert both(history(*alone, (5.0, 3, "abc", ""))) == {"L2"}
    assert both(history(*alone, (5.0, 3, "ac", "a"))) == {"L2"}
    assert both(history(*alone, (5.0, 3, "abcd", "ab"))) == {"L2"}
    assert both(history(*alone, (5.0, 3, "ab", "ab"))) == {"L2"}


def test_a_core_that_has_agreed_may_be_taking_somebody_in_when_its_time_is_over() -> None:
    trace = history((0.5, 1, "ab", ""), (0.6, 2, "c", ""))[:-1]
    moves = ((3.9, "a", "ab", 1), (3.95, "c", "c", 2), (4.1, "b", "ab", 1))
    for at_s, name, along, before in moves:
        trace += [conf(at_s, name, "T", 3, along, before), conf(at_s, name, "R", 3, "abc")]
    assert both([*trace, Quiet(9 * SECOND)]) == set()
