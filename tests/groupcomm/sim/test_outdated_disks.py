"""Disks that were lost, are old or were copied: nobody repairs them before liveness is judged."""

from math import inf

import attrs
import pytest

from groupcomm.security.layout import SUITE_IDENTITIES
from groupcomm.sim.checkers.records import (
    name_of,
)
from groupcomm.sim.cluster.cluster import NoMeeting
from groupcomm.sim.cluster.disk import Ailment, Damage
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.settings import plain_settings
from groupcomm.trace.events import Boot, Fail, Left, TraceEvent
from tests.verification.campaigns.outdated_disks import (
    DISKS,
    Case,
    Measured,
    OneReturn,
    cases,
    table,
)
from tests.verification.simulation.cluster import VerificationCluster
from tests.verification.simulation.releases import APART
from tests.verification.simulation.settings import widened


def formed(daemons: int = 3) -> VerificationCluster:
    cluster = VerificationCluster(plain_settings(daemons=daemons))
    cluster.run(1.0)
    return cluster


def lose_disk(cluster: VerificationCluster, index: int) -> None:
    host = cluster.daemons[index]
    host.kill()
    host.damage_disk(Damage.LOST)


def test_after_all_faults_a_daemon_with_an_empty_disk_is_together_with_the_others() -> None:
    cluster = formed()
    lose_disk(cluster, 1)
    cluster.run(1.0)
    cluster.end_faults()
    assert cluster.daemons[1].is_outdated, "its disk still knows nothing of its first start"
    assert cluster.agree(cluster.core)


def test_daemons_that_do_not_meet_because_of_a_disk_are_found() -> None:
    cluster = formed()
    lose_disk(cluster, 1)
    cluster.network.cut([(1, 0), (0, 1), (1, 2), (2, 1)])  # it meets nobody
    with pytest.raises(NoMeeting, match=r"have no common view 4 s after all faults; a disk"):
        cluster.end_faults()


@pytest.mark.parametrize("sites", [1, 3])
def test_a_daemon_that_meets_nobody_on_an_old_disk_has_later_views_all_the_same(
    sites: int,
) -> None:
    """Seed 7129 with three sites: counters were far ahead of all clocks, and it was alone first."""
    settings = plain_settings(daemons=3, sites=sites)
    cluster = VerificationCluster(
        attrs.evolve(settings, faults=attrs.evolve(settings.faults, ahead_s=300.0))
    )
    host = cluster.daemons[1]
    host.clock.set_ahead(300.0)
    host.kill()
    host.boot()
    cluster.run(1.0)
    host.clock.set_ahead(-300.0)
    before = cluster.view.id
    host.kill()
    host.damage_disk(Damage.OLD)
    if sites > 1:
        cluster.network.cut([(1, 0), (0, 1), (1, 2), (2, 1)])
    host.boot()
    cluster.run(1.5)
    process = host.process
    assert process is not None
    assert process.core.view_state is not None
    assert process.core.view_state.view.id > before


# ---- daemons that are aside, or spare ----


def test_a_daemon_with_a_sick_disk_and_a_release_that_fits_nobody_is_upgraded_too() -> None:
    settings = widened(plain_settings(daemons=3), versions=True)
    cluster = VerificationCluster(settings)
    host = cluster.daemons[1]
    for _ in range(100):
        if host.process is not None and host.core.config.versions == APART:
            break
        host.kill()
        host.boot()
        cluster.run(0.1)
    assert host.core.config.versions == APART
    host.disk.ail(Ailment.FULL)
    cluster.heal(range(3), sick_share=1.0)
    assert (cluster.core, cluster.aside) == ((0, 1, 2), ())
    cluster.form()


def test_spare_daemons_have_identities() -> None:
    settings = widened(plain_settings(daemons=3), suite=SUITE_IDENTITIES, rosters=True, spares=(2,))
    cluster = VerificationCluster(settings)
    names = [host.name for host in cluster.daemons]
    for host in cluster.daemons:
        assert host.credentials is not None
        assert all(map(host.credentials.roll.is_trusted, names))


# ---- the silence of a return ----


@pytest.mark.parametrize("disk", DISKS)
def test_a_daemon_that_all_others_remember_is_back_soon(disk: str) -> None:
    """All cases: python -m tests.verification.campaigns.outdated_disks."""
    found = OneReturn(Case(daemons=3, restarted=0, disk=disk, sites=1)).measure()
    assert found.meeting_s < 2.0
    assert found.silence_s < 0.2, "the others are served meanwhile"


def test_the_table_has_a_row_for_each_number_of_restarts() -> None:
    quick = Measured(silence_s=0.04, meeting_s=0.56)
    never = Measured(silence_s=inf, meeting_s=inf)
    every = {case: never if case.disk == "old" else quick for case in cases([3], [1, 2])}
    lines = table(every)
    assert lines[0].startswith("| daemons | restarted | lost, 1 site | lost, 2 sites | old, 1 site")
    assert lines[2].startswith("| 3 | 0 | 0.0 / 0.6 | 0.0 / 0.6 | never / never | never / never | ")
    assert len(lines) == 2 + 3


# ---- what a seed draws ----


@pytest.mark.long
def test_often_some_of_the_others_are_restarted_while_a_daemon_loses_its_disk() -> None:
    """Then some remember its earlier starts, and some do not."""
    counts = [count for seed in range(1, 13) for count in restarted_meanwhile(seed)]
    some = [count for count in counts if 0 < count < 3]
    assert len(some) > 0.2 * len(counts) > 2


def restarted_meanwhile(seed: int) -> list[int]:
    """Return, for each of four daemons' starts with a disk that has forgotten earlier ones, how
    many of the others were restarted while it was away."""
    events: list[TraceEvent] = []
    settings = plain_settings(daemons=4, seed=seed, faults=Faults(disk=True))
    VerificationCluster(attrs.evolve(settings, calm_s=3.0), events.append).run(10.0)
    most, ended, found = dict[str, int](), dict[str, int](), list[int]()
    boots: list[tuple[int, str]] = []
    for event in events:
        if isinstance(event, Fail | Left):
            ended[name_of(event.p)] = event.t
        elif isinstance(event, Boot):
            name, restarts = name_of(event.p), int(event.incarnation.partition(".")[0])
            if name in ended and restarts <= most[name]:
                found.append(len({other for at, other in boots if at > ended[name]} - {name}))
            boots.append((event.t, name))
            most[name] = max(most.get(name, 0), restarts)
    return found
