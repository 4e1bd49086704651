"""Disks that were lost, are old or were copied: nobody repairs them before liveness is judged."""

import attrs
import pytest

from groupcomm.security.layout import SUITE_IDENTITIES
from groupcomm.sim.cluster.cluster import Cluster, NoMeeting
from groupcomm.sim.cluster.disk import Ailment, Damage
from groupcomm.sim.faults.releases import APART
from groupcomm.sim.settings import plain_settings


def formed(daemons: int = 3) -> Cluster:
    cluster = Cluster(plain_settings(daemons=daemons))
    cluster.run(1.0)
    return cluster


def lose_disk(cluster: Cluster, index: int) -> None:
    host = cluster.daemons[index]
    host.kill()
    host.damage_disk(Damage.LOST)


def test_after_all_faults_a_daemon_with_an_empty_disk_learns_its_starts_from_the_others() -> None:
    cluster = formed()
    lose_disk(cluster, 1)
    cluster.run(1.0)
    cluster.end_faults()
    host = cluster.daemons[1]
    assert host.outdated == 1, "it was told"
    assert not host.is_outdated
    assert cluster.agree(cluster.core)


def test_daemons_that_do_not_meet_because_of_a_disk_are_found() -> None:
    cluster = formed()
    lose_disk(cluster, 1)
    cluster.network.cut([(1, 0), (0, 1), (1, 2), (2, 1)])  # so nobody tells it
    with pytest.raises(NoMeeting, match=r"have no common view 10 s after all faults; a disk"):
        cluster.end_faults()


# ---- daemons that are aside, or spare ----


def test_a_daemon_with_a_sick_disk_and_a_release_that_fits_nobody_is_upgraded_too() -> None:
    settings = attrs.evolve(plain_settings(daemons=3), versions=True)
    cluster = Cluster(settings)
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
    settings = attrs.evolve(
        plain_settings(daemons=3), suite=SUITE_IDENTITIES, rosters=True, spares=(2,)
    )
    cluster = Cluster(settings)
    names = [host.name for host in cluster.daemons]
    for host in cluster.daemons:
        assert host.credentials is not None
        assert all(map(host.credentials.roll.is_trusted, names))
