"""Clusters with all that only verification has, and which live on after faults."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final

import attrs

from groupcomm.config.core import CoreConfig, Rekeying
from groupcomm.config.roster import Roster
from groupcomm.sim.checkers.report import Violation
from groupcomm.sim.cluster.cluster import (
    LOOK_S,
    SETTLED_S,
    Act,
    Cluster,
    NoAgreement,
    NoMeeting,
    ignore,
    sites_by_host,
)
from groupcomm.sim.cluster.identities import daemon_names
from groupcomm.sim.settings import Settings
from groupcomm.sim.virtual_time import microseconds
from groupcomm.trace.recorders import RecordEvent
from tests.verification.simulation.attackers.attackers import Attackers
from tests.verification.simulation.attackers.roles import POLITE, rules_against
from tests.verification.simulation.host import VerificationHost
from tests.verification.simulation.operator import Operator
from tests.verification.simulation.roster_checker import RosterChecker
from tests.verification.simulation.rough_programs import RoughPrograms
from tests.verification.simulation.settings import VerificationSettings, widened
from tests.verification.simulation.targets import TargetedFaults
from tests.verification.simulation.version_checker import VersionChecker
from tests.verification.specification.refinement import Refinement

ROSTER_LIMIT_S: Final = 60.0
"""The time after all faults by which the daemons agree on a roster, unless there is a bug."""


class RostersDiffer(NoAgreement):
    """The daemons of a run do not agree on a roster in the end."""

    property = "Q4"


class VerificationCluster(Cluster):
    """A cluster with the liars, attackers, operators, releases and targets of its settings.

    Args:
        settings, record, start: see `Cluster`.
        observer: compares the run with the specification; None for no comparison.

    Attributes:
        attackers: the attackers with the roles of the settings.
        version_checker: checks the versions that all views use.
        roster_checker: checks the rosters of all daemons.
        operator: changes the roster; None unless the settings ask for it.
        kept_rosters: the roster of each host when all faults ended; None for that of the files.
    """

    SETTINGS = VerificationSettings
    settings: VerificationSettings
    daemons: Sequence[VerificationHost]

    def __init__(
        self,
        settings: Settings,
        record: RecordEvent = ignore,
        *,
        start: bool = True,
        observer: Refinement | None = None,
    ) -> None:
        wide = widened(settings)
        self.version_checker, self.roster_checker = VersionChecker(), RosterChecker()
        self.operator: Operator | None = None
        self.kept_rosters: list[Roster | None] = []
        self._targets: TargetedFaults | None = None
        self._observer = observer
        super().__init__(wide, record, start=False)
        if observer is not None:
            observer.use_base(self.config.starts.stream)
        self.core = tuple(index for index in self.core if index not in wide.spares)
        paths, sites = wide.paths, sites_by_host(wide)
        if paths is not None and paths.true_bytes < paths.said_bytes:
            near = [pair for pair in self.network.paths if sites[pair[0]] == sites[pair[1]]]
            self.network.narrow(near, paths.true_bytes)
        self.access = rules_against(wide.attackers)
        self.principal = POLITE if self.access.restricts else ""
        self.attackers = Attackers(self.loop, wide, self.config, self.network, self.daemons, record)
        if start:
            self.start()

    def make_config(self) -> CoreConfig:
        """Return the common part of the configurations of all cores."""
        config, spares = super().make_config(), self.settings.spares
        names = daemon_names(self.settings.daemons)
        listed = tuple(
            tuple(names[index] for index in site if index not in spares)
            for site in self.settings.sites
        )
        paths = self.settings.paths
        return attrs.evolve(
            config,
            sites=listed,
            segmented_limit=0 if paths is None else paths.segmented_limit,
            rekeying=Rekeying(epoch_s=self.settings.epoch_s),
        )

    def make_host(self, index: int, name: str, site: int) -> VerificationHost:
        """Return a host."""
        checkers = self.version_checker, self.roster_checker, self._observer
        return VerificationHost(self, index, name, site, self.settings, *checkers)

    def start(self, *, form: bool = True, faults: bool = True) -> None:
        """Start all daemons, the faults, attackers and the operator."""
        super().start(form=form, faults=faults)
        self.attackers.start()
        if self.settings.rosters:
            self.operator = Operator(
                self.loop,
                self._random("operator"),
                self.daemons,
                self.settings.links,
                self._quick_faults,
                self.config.daemons,
                votes=self.settings.votes,
            )
            self.roster_checker.on_first_use = self.operator.on_first_use
            if faults:
                self.operator.start()

    def begin_faults(
        self, settings: Settings, part: str, spared: Collection[int] = ()
    ) -> Counter[str]:
        """Begin faults once more, after `rest`; operators go on as well.

        Return the numbers of faults by name, which grow as faults happen.

        Args:
            settings: those of the cluster, except for the faults and the calm between them.
            part: the name of this part of a long run, which has its own random sources.
            spared: the hosts whose daemons and disks suffer nothing, by index.
        """
        for host in self.daemons:
            host.meets_all = self.settings.rosters
        self._start_faults(settings, part, spared)
        if self.operator is not None:
            self.operator.start(self._quick_faults)
        return Counter() if self._schedule is None else self._schedule.counts

    @property
    def _quick_faults(self) -> Sequence[Callable[[], None]]:
        return () if self._schedule is None else self._schedule.quick_faults

    def _start_faults(
        self, settings: Settings, part: str = "", spared: Collection[int] = ()
    ) -> None:
        if self.settings.targets:
            rng = self._random(f"targets{part}")
            self._targets = TargetedFaults(self.loop, rng, self.network, settings.daemons)
        super()._start_faults(settings, part, spared)

    def further_acts(self) -> list[Act]:
        """Begin and return the rough programs."""
        if not self.settings.targets:
            return []
        rng = self._random("rough programs")
        return [RoughPrograms(self.loop, rng, self.connect, self.up)]

    # ---- the end ----

    def heal(self, core: Collection[int], *, sick_share: float = 0.0) -> None:
        """End all faults in `core`, or in the roster on which the daemons agree; see `Cluster`.

        Raises:
            RostersDiffer: the daemons do not agree on a roster within the limit.
            NoMeeting: they do not meet, as a disk has forgotten starts.
        """
        self.attackers.on_heal()
        if self.operator is not None:
            core = self._settle_roster(self.operator)
        super().heal(core, sick_share=sick_share)

    def rest(self) -> None:
        """End all faults for now: all daemons run, with one configuration, and hear each other.

        Operators change nothing until faults begin again.

        Raises:
            RostersDiffer: the daemons do not agree on a roster within the limit.
            NoMeeting: they do not meet, as a disk has forgotten starts.
        """
        self.core = tuple(range(len(self.daemons)))
        if self.operator is not None:
            self.core = self._settle_roster(self.operator)
            self.operator.rest()
        for index in self.core:
            self.daemons[index].disk.recover()
        self._end_schedule()
        self._schedule = self._targets = None
        for path in self.network.paths.values():
            path.ruled = None
        self._end_attacker()
        self._bring_back(set(self.core))

    def _bring_back(self, inside: set[int]) -> None:
        for index in self.core:
            self.daemons[index].meets_all = True
        super()._bring_back(inside)

    def _end_schedule(self) -> None:
        super()._end_schedule()
        if self._targets is not None:
            self._targets.end()

    def _settle_roster(self, operator: Operator) -> tuple[int, ...]:
        """Run without faults until all daemons of the roster have it; return their hosts.

        A change may still be under way, and a daemon that it removes is of no core.

        Raises:
            RostersDiffer: they do not agree on a roster within the limit.
            NoMeeting: the same, and a disk of theirs has forgotten starts.
        """
        operator.stop()
        self._end_schedule()
        self.kept_rosters = [
            host.disk.rosters.agreed if host.process is None else host.core.config.roster
            for host in self.daemons
            if not host.is_spare
        ]
        for host in self.daemons:
            host.on_end = lambda host, end: None
            host.disk.recover()
            host.boot()
        limit_s = ROSTER_LIMIT_S * self.settings.pace
        limit, settled = self.loop.now + microseconds(limit_s), 0.0
        while settled < SETTLED_S:  # a change may wait at a daemon
            if self.loop.now >= limit:
                up = [host.index for host in self.daemons if host.process is not None]
                if any(self.daemons[index].is_outdated for index in up):
                    raise NoMeeting(self._running(up), limit_s)
                raise RostersDiffer(f"no roster is agreed on {limit_s:g} s after all faults")
            settled = settled + LOOK_S if self._is_roster_settled() else 0.0
            self.run(LOOK_S)
            if self.loop.now > limit - microseconds(limit_s / 2):
                operator.help_strangers()
            for host in self.daemons:
                host.boot()
        return tuple(host.index for host in self.daemons if host.process is not None)

    def _is_roster_settled(self) -> bool:
        if any(not host.is_idle and host.process is None for host in self.daemons):
            return False  # it starts
        up = [host for host in self.daemons if host.process is not None]
        rosters = {host.core.config.roster.id for host in up}
        if len(rosters) > 1 or any(not host.is_up for host in up):
            return False
        if not self.agree([host.index for host in up]):
            return False
        managers = [host.core.roster_manager for host in up]
        if any(manager.is_changing or manager.record.pending is not None for manager in managers):
            return False
        roster = up[0].core.config.roster
        names = {host.name for host in up}
        return names == set(roster.names) and all(
            entry.share.held == entry.share.votes and not entry.share.away
            for entry in roster.entries
        )

    def settle(self) -> None:
        """Run until nothing new happens, then record that no event may be missing."""
        self.attackers.on_settle()
        super().settle()
        self.attackers.stop()

    def come_to_rest(self, limit_s: float) -> bool:
        """Run until nothing new happens; return whether that is so within a time, in seconds."""
        before, limit = None, self.loop.now + microseconds(limit_s)
        while before != (before := self._progress()) or not self.agree(self.core):
            if self.loop.now >= limit:
                return False
            self.run(SETTLED_S * self.settings.pace)
        return True

    def violations(self) -> Sequence[Violation]:
        """Return what the checks of rosters, versions and steps, and the attackers, have found."""
        if self.settings.rosters:
            given_up = set() if self.operator is None else self.operator.given_up
            ends = [self.daemons[index] for index in self.core]
            self.roster_checker.finish(
                ((host.name, host.core.config.roster) for host in ends if host.process is not None),
                (kept for kept in self.kept_rosters if kept and kept.id not in given_up),
            )
        versions = self.version_checker.violations if self.settings.versions else []
        breaches = [Violation("attacker", text) for text in self.attackers.breaches]
        observed = self._observer.violations if self._observer else ()
        return [*self.roster_checker.violations, *versions, *breaches, *observed]
