"""The schedule of faults: their times and victims, drawn from the seed, and their common end.

Jams, slow steps and jumping clocks occur all the time. A fault that breaks views, such as a crash
or a partition, happens every few seconds, and sometimes a second thing while the first is being
recovered from; so a cluster is in working order a good part of the time, however many are on.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any, Final

from groupcomm.config.core import CoreConfig
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.faults.faults import TOKEN_TIMEOUT_S
from groupcomm.sim.faults.links import LinkFaults, SitePlan
from groupcomm.sim.faults.outages import DiskFaults, Outages
from groupcomm.sim.faults.partitions import Cuts, Disruptions
from groupcomm.sim.network.network import Network
from groupcomm.sim.settings import Settings
from groupcomm.sim.virtual_time import SECOND, Loop, microseconds

JAM_INTERVAL_US: Final = SECOND
SLOW_INTERVAL_US: Final = 2 * SECOND
JUMP_INTERVAL_US: Final = 2 * SECOND

JAM_REST: Final = 3
"""Jams come no closer than this many times their greatest length, on average."""

FOLLOW_SHARE: Final = 0.3
"""The probability that a fault follows at once, to meet the recovery from the last one."""


class FaultSchedule:
    """The faults of a run: it starts them at once, and ends them all when told to.

    Args:
        loop: virtual time.
        rng: the random source of times and victims.
        settings: the settings of the run: the faults, and the calm time between two faults that
            break views.
        network: the network whose datagrams suffer.
        hosts: the hosts that suffer.
        configs: wrong configurations that hosts may get.
        spared: the hosts whose daemons and disks suffer nothing, by index; the network spares none.
        part: the part of a long run; the network draws for each one anew.

    Attributes:
        counts: the faults that have happened so far, by name; those of single datagrams and slow
            steps are not counted.
    """

    def __init__(
        self,
        loop: Loop,
        rng: Random,
        settings: Settings,
        network: Network,
        hosts: Sequence[SimulatedHost],
        configs: Sequence[CoreConfig] = (),
        spared: Collection[int] = (),
        part: str = "",
    ) -> None:
        faults = settings.faults
        victims = [host for host in hosts if host.index not in spared]
        self.counts: Counter[str] = Counter()
        self._loop = loop
        self._rng = rng
        self._faults = faults
        self._calm_us = microseconds(settings.calm_s)
        self._network = network
        self._hosts = hosts
        self._several_sites = len(settings.sites) > 1
        self._running = True
        self.outages = Outages(loop, rng, faults, victims, configs)
        self.disk_faults = DiskFaults(loop, rng, faults, victims)
        self.cuts = Cuts(loop, network)
        self.disruptions = Disruptions(loop, rng, faults, network, self.cuts, sites_of(hosts))
        plan = SitePlan(sites=sites_of(hosts), links=[link.sites for link in settings.links])
        self.link_faults = LinkFaults(loop, rng, faults, self.cuts, plan)
        self._names: dict[Callable[[], None], str] = {}
        self._acts = self._disrupting()
        network.start_faults(faults, part)
        for strength, act in (
            (faults.jam_s, self._jam),
            (faults.slow_factor, self._slow_down),
            (faults.clock_rate, self._jump),
            (self._acts, self._disrupt),
            (faults.ahead_s, self._mislead),
        ):
            if strength:
                loop.at(loop.now + rng.randrange(SECOND), act)

    def _disrupting(self) -> list[Callable[[], None]]:
        """Return the enabled faults that break views, and note their names."""
        faults = self._faults
        acts: list[tuple[str, Any, Callable[[], None]]] = [
            ("crash", faults.crash_s, self.outages.crash),
            ("pause", faults.pause_s, self.outages.pause),
            ("disk", faults.disk, self.outages.damage_disk),
            ("leave", faults.leave, self.outages.leave),
            ("files", faults.files, self.outages.change_file),
            ("slow-disk", faults.slow_disk_s, self.disk_faults.slow_down),
            ("hung-disk", faults.hung_disk_s, self.disk_faults.hang),
            ("full-disk", faults.full_disk_s, self.disk_faults.fill_up),
            ("failing-disk", faults.failing_disk_s, self.disk_faults.fail),
            ("frozen-clock", faults.frozen_s, self.outages.freeze_clock),
        ]
        if len(self._hosts) > 1:
            acts += [
                ("partition", faults.partition_s, self.disruptions.part),
                ("directed", faults.directed_loss, self.disruptions.lose_one_way),
                ("flapping", faults.flap_s, self.disruptions.flap),
                ("card", faults.card_bytes, self.disruptions.spoil_card),
            ]
        if self._several_sites:
            acts += [
                ("links", faults.link_cut_s, self.link_faults.cut),
                ("link-flapping", faults.link_flap_s, self.link_faults.flap),
                ("gateways", faults.gateways, self.outages.crash_gateway),
            ]
        self._names = {act: name for name, _, act in acts}
        return [act for _, strength, act in acts if strength]

    @property
    def quick_faults(self) -> list[Callable[[], None]]:
        """Return the enabled faults that break a view at once or soon."""
        quick = (self.outages.crash, self.disruptions.part, self.disruptions.lose_one_way)
        return [act for act in self._acts if act in quick]

    def end(self) -> None:
        """End all faults.

        Clocks stay as fast as they are, the dead dead, and disks that are unwell unwell.
        """
        self._running = False
        self.outages.end()
        self.disk_faults.end()
        self.disruptions.end()
        self.link_faults.end()
        self.cuts.end()
        self._network.end_faults()
        for host in self._hosts:
            host.set_step(1)

    def _jam(self, _: None) -> None:
        """Hold the datagrams to one daemon."""
        if self._running:
            longest = microseconds(self._faults.jam_s)
            until = self._loop.now + int(self._rng.random() * longest)
            self.counts["jam"] += 1
            self._network.jam(self._rng.randrange(len(self._hosts)), until)
            interval = max(JAM_INTERVAL_US, JAM_REST * longest)
            self._loop.at(self._loop.now + 1 + self._rng.randrange(2 * interval), self._jam)

    def _slow_down(self, _: None) -> None:
        """Make another daemon the slow one."""
        if self._running:
            for host in self._hosts:
                host.set_step(1)
            self._rng.choice(self._hosts).set_step(self._faults.slow_factor)
            self._loop.at(self._loop.now + SLOW_INTERVAL_US, self._slow_down)

    def _jump(self, _: None) -> None:
        """Set one daemon's wall clock to a wrong time."""
        if self._running:
            self.counts["clock"] += 1
            self._rng.choice(self._hosts).clock.jump()
            self._loop.at(self._loop.now + JUMP_INTERVAL_US, self._jump)

    def _mislead(self, _: None) -> None:
        """Have one daemon start with a clock that is ahead."""
        self.counts["ahead"] += 1
        self.outages.mislead(None)

    def _disrupt(self, _: None) -> None:
        if self._running:
            wait = self._rng.expovariate(1.0) * self._calm_us
            self._loop.at(self._loop.now + 1 + int(wait), self._disrupt)
            self._act(None)

    def _act(self, _: None) -> None:
        """Cause a fault, and perhaps soon another one."""
        rng = self._rng
        if self._running:
            act = rng.choice(self._acts)
            self.counts[self._names[act]] += 1
            act()
            if rng.random() < FOLLOW_SHARE:
                soon = rng.uniform(0.0, 0.3)
                if rng.random() < 0.6:
                    soon += 0.9 * TOKEN_TIMEOUT_S  # until daemons notice the fault
                self._loop.at(self._loop.now + microseconds(soon), self._act)


def sites_of(hosts: Sequence[SimulatedHost]) -> list[int]:
    """Return the site of each host."""
    return [host.site for host in hosts]
