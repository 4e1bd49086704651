"""Hosts whose daemons lie, are of several releases, or fall to an attacker, if settings say so."""

from collections.abc import Callable

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import Roster, RosterRecord
from groupcomm.config.view import Start
from groupcomm.engine import DaemonCore
from groupcomm.engine.protection import STALE
from groupcomm.sim.cluster.disk import Damage, Disk
from groupcomm.sim.cluster.host import HostContext, SimulatedHost
from groupcomm.sim.cluster.process import SimulatedProcess
from groupcomm.sim.virtual_time import random_for
from groupcomm.trace.recorders import TraceProbe
from tests.verification.simulation.process import VerificationProcess
from tests.verification.simulation.releases import APART, draw_release
from tests.verification.simulation.roster_checker import RosterChecker
from tests.verification.simulation.settings import VerificationSettings
from tests.verification.simulation.version_checker import VersionChecker
from tests.verification.specification.refinement import Refinement


class VerificationHost(SimulatedHost):
    """One machine of a cluster.

    Args:
        cluster, index, name, site: see `SimulatedHost`.
        settings: the settings of the run.
        version_checker: checks the versions that all views use.
        roster_checker: checks the rosters of all daemons.
        observer: compares steps with the specification; None for no comparison.

    Attributes:
        corrupt: makes the core of each start from now on lie; None for none.
        is_taken: an attacker has the host, and no daemon of the cluster starts here any more.
        meets_all: whether daemons that start here from now on share a version with all others.
        on_forgotten: called once the disk is damaged, with the rosters that it held before.
    """

    PROCESS = VerificationProcess

    def __init__(
        self,
        cluster: HostContext,
        index: int,
        name: str,
        site: int,
        settings: VerificationSettings,
        version_checker: VersionChecker,
        roster_checker: RosterChecker,
        observer: Refinement | None,
    ) -> None:
        super().__init__(cluster, index, name, site)
        self._wide = settings
        self._version_checker, self._roster_checker = version_checker, roster_checker
        self._observer = observer
        self.is_spare = index in settings.spares
        self.meets_all = settings.rosters
        self.is_taken = False
        self.corrupt: Callable[[DaemonCore], None] | None = None
        self.on_forgotten: Callable[[VerificationHost, RosterRecord], None] = lambda host, kept: (
            None
        )

    @property
    def differs(self) -> bool:
        """Return whether a daemon runs here whose settings differ from the common ones."""
        if self._wide.rosters or self.process is None:
            return False  # its roster may
        config, common = self.process.core.config, self._cluster.config
        if config.versions == APART:
            return True
        return attrs.evolve(config, versions=common.versions) != common

    def boot(self) -> None:
        """Start a daemon, unless an attacker has the host."""
        if not self.is_taken:
            super().boot()

    def start_clone(self, *, hears: bool = True) -> None:
        """Start a copy of the daemon, unless it may have enough votes alone: both would act."""
        if not self._wide.votes:
            super().start_clone(hears=hears)

    def start_process(self, disk: Disk, start: Start) -> SimulatedProcess:
        """Start a daemon with a disk; its start is counted there."""
        process = super().start_process(disk, start)
        self._version_checker.booted(start.daemon, process.core.config.versions)
        assert isinstance(process, VerificationProcess)
        process.begin_checks(self._version_checker, self._roster_checker)
        if self._wide.paths is not None:
            process.send_segments(self._wide.paths.said_bytes)
        if self.corrupt is not None:
            self.corrupt(process.core)
            process.may_fail = True
        if self._wide.evicted is not None:  # it sealed the kept packets while it was still trusted
            process.stale = STALE | {"identity"}
        return process

    def make_probe(self, name: str) -> TraceProbe:
        """Return the probe of a start."""
        if self._observer is None:
            return super().make_probe(name)
        cluster = self._cluster
        return self._observer.probe(self._loop, cluster.record, name, cluster.identities)

    def config_of(self, name: str, agreed: Roster | None) -> CoreConfig:
        """Return the configuration of a start, maybe that of another release."""
        if agreed is not None:
            self._roster_checker.used(name, agreed)
        config, settings = super().config_of(name, agreed), self._wide
        if not settings.versions:
            return config
        rng, meets_all = random_for(settings.seed, f"release {name}"), self.meets_all
        joins = settings.paths is not None
        release = draw_release(rng, meets_all=meets_all or self.starts == 1, segments=joins)
        return attrs.evolve(config, versions=release)

    def damage_disk(self, damage: Damage) -> None:
        """Damage the disk while no daemon runs; it may keep the rosters."""
        rosters = self.disk.rosters
        super().damage_disk(damage)
        self.on_forgotten(self, rosters)
