"""Disks that forget rosters: only when the roster bears it, and operators wait meanwhile."""

import attrs
import pytest

from groupcomm.config.roster import MoveDaemon, Roster, RosterChange, RosterRecord
from groupcomm.engine import ChangeRoster
from groupcomm.sim.cluster.disk import Damage
from groupcomm.sim.settings import plain_settings
from tests.verification.simulation.cluster import VerificationCluster
from tests.verification.simulation.forgotten_rosters import ForgottenRosters
from tests.verification.simulation.settings import widened

AWAY = 1


class Forgetting:
    """A cluster of three whose roster was changed, without an operator of its own."""

    def __init__(self) -> None:
        self.cluster = VerificationCluster(widened(plain_settings(daemons=3), rosters=True))
        operator = self.cluster.operator
        assert operator is not None
        operator.rest()
        self.watch = ForgottenRosters(self.cluster.daemons, self.cluster.config.daemons)
        self.host = self.cluster.daemons[AWAY]
        self.host.on_forgotten = self.watch.restore
        self.change(MoveDaemon("alfa", ("alfa.example:1",)))
        self.cluster.run(1.0)

    def change(self, change: RosterChange) -> None:
        host = self.cluster.daemons[0]
        host.core.command(ChangeRoster(change=change))
        assert host.process is not None
        host.process.wake()

    def damage(self, damage: Damage = Damage.LOST) -> RosterRecord:
        """Return what the disk holds after it was damaged."""
        self.host.kill()
        self.host.damage_disk(damage)
        return self.host.disk.rosters


def test_a_lost_disk_forgets_the_roster_until_its_daemon_has_met_the_others() -> None:
    it = Forgetting()
    kept = it.host.disk.rosters
    assert kept.agreed is not None
    assert it.damage() == RosterRecord()
    assert it.watch.is_waiting
    it.host.boot()
    it.cluster.run(3.0)
    assert it.host.disk.rosters.agreed == kept.agreed
    assert not it.watch.is_waiting


def test_while_a_change_is_under_way_the_rosters_survive() -> None:
    it = Forgetting()
    it.change(MoveDaemon("alfa", ("alfa.example:2",)))
    it.cluster.run(0.005)
    kept = it.host.disk.rosters
    assert it.damage() == kept != RosterRecord()
    assert it.host.disk.record.restarts == 0, "the record of starts is lost all the same"
    assert not it.watch.is_waiting


def test_two_disks_do_not_forget_at_once() -> None:
    it = Forgetting()
    it.damage()
    other = it.cluster.daemons[2]
    other.on_forgotten = it.watch.restore
    kept = other.disk.rosters
    other.kill()
    other.damage_disk(Damage.LOST)
    assert other.disk.rosters == kept != RosterRecord()


def alone(roster: Roster, name: str) -> Roster:
    return attrs.evolve(roster, entries=tuple(e for e in roster.entries if e.name == name))


@pytest.mark.parametrize("name", ["bravo", "charlie"], ids=["alone in it", "not in it"])
def test_no_backup_gives_a_daemon_a_majority_of_its_own_or_a_roster_without_it(name: str) -> None:
    it = Forgetting()
    kept = it.host.disk.rosters
    assert kept.agreed is not None
    it.host.kill()
    it.host.disk.rosters = RosterRecord(agreed=alone(kept.agreed, name))
    it.watch.restore(it.host, kept)
    assert it.host.disk.rosters == kept


def test_a_daemon_that_no_file_lists_keeps_the_roster_by_which_it_knows_the_others() -> None:
    it = Forgetting()
    listed = [name for name in it.cluster.config.daemons if name != it.host.name]
    watch = ForgottenRosters(it.cluster.daemons, listed)
    it.host.on_forgotten = watch.restore
    kept = it.host.disk.rosters
    assert it.damage() == kept
