"""Faults of daemons and of their disks.

Daemons are killed, stand still, lose their disks, leave and start again. Disks of running daemons
get slow, hang, fill up, fail, and recover.
"""

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any, Final

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.sim.cluster.disk import Ailment, Damage
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.cluster.process import ProcessEnd
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.virtual_time import SECOND, Loop, microseconds
from groupcomm.trace.recorders import FUSE_KINDS, Fuse

SHORTEST_S: Final = 0.05
"""The least time of a disk's fault, except a slow disk, which lasts for some writes."""

MOST_WRITES: Final = 5

FOR_EVER_SHARE: Final = 0.3
"""The share of disks that do not recover before all faults end."""

STARTED_SHARE: Final = 0.3
"""The share of cases in which the daemon is killed as well, and has to start on that disk."""


@attrs.define(eq=False, repr=False)
class DiskFaults:
    """Faults of disks, one after the other; several may last at a time.

    Args:
        loop: virtual time.
        rng: the random source of times and victims.
        faults: the strength of the faults.
        hosts: the hosts with the disks.
    """

    _loop: Loop
    _rng: Random
    _faults: Faults
    _hosts: Sequence[SimulatedHost]
    _running: bool = True

    def end(self) -> None:
        """Cause no more faults; present ones last."""
        self._running = False

    # ---- faults ----

    def slow_down(self) -> None:
        """Slow each write of a disk down."""
        write_s = self._faults.slow_disk_s
        self._spoil(Ailment.SLOW, self._rng.uniform(write_s, MOST_WRITES * write_s), write_s)

    def hang(self) -> None:
        """Make the writes of a disk hang."""
        self._spoil(Ailment.HUNG, self._rng.uniform(SHORTEST_S, self._faults.hung_disk_s))

    def fill_up(self) -> None:
        """Make the writes of a disk fail without lasting effect."""
        self._spoil(Ailment.FULL, self._rng.uniform(SHORTEST_S, self._faults.full_disk_s))

    def fail(self) -> None:
        """Make the writes of a disk fail, though some may last."""
        self._spoil(Ailment.BROKEN, self._rng.uniform(SHORTEST_S, self._faults.failing_disk_s))

    def _spoil(self, ailment: Ailment, lasts_s: float, write_s: float = 0.0) -> None:
        host = self._rng.choice(self._hosts)
        host.disk.ail(ailment, microseconds(write_s))
        if self._rng.random() < STARTED_SHARE:
            host.kill()
        if self._rng.random() >= FOR_EVER_SHARE:
            self._loop.at(self._loop.now + microseconds(lasts_s), self._recover, host)

    def _recover(self, host: SimulatedHost) -> None:
        if self._running:
            host.disk.recover()


FUSE_US: Final = SECOND
"""The time after which a daemon dies even if its chosen moment does not come."""

LAST_ONE_SHARE: Final = 0.2
"""The share of cases in which even the only running daemon is brought down."""

ALL_SHARE: Final = 0.04
"""The share of crashes that hit all hosts, like a power failure."""

AGAIN_SHARE: Final = 0.2
"""The share of killed daemons that are killed again soon after their start."""

CLONE_SHARE: Final = 0.2
"""The share of damages to disks that are clones."""

MOVED_SHARE: Final = 0.3
"""The share of clones that replace their original in the end."""

UPGRADE_SHARE: Final = 0.5
"""The share of damages to disks while whose daemon is away some others are restarted in turn: these
know nothing of its earlier starts when it is back, and those that were not restarted do."""

UPGRADE_STEPS_S: Final = (0.2, 1.2)
"""The bounds of the time from one of these restarts to the next: views form in between, or not."""

LONGEST_CLONE_S: Final = 2.0

MISLED_US: Final = SECOND
"""The time for which a wall clock is ahead."""


@attrs.define(eq=False, repr=False)
class Outages:
    """Faults that bring daemons down and up again.

    Args:
        loop: virtual time.
        rng: the random source of times and victims.
        faults: the strength of the faults.
        hosts: the hosts of the daemons.
        configs: wrong configurations that hosts may get.
    """

    _loop: Loop
    _rng: Random
    _faults: Faults
    _hosts: Sequence[SimulatedHost]
    _configs: Sequence[CoreConfig] = ()
    _running: bool = True
    _damage: dict[int, Damage] = attrs.field(factory=dict)  # to disks once their daemons are dead
    _back_at: dict[int, int] = attrs.field(factory=dict)  # when a host's next daemon is to start
    _again: set[int] = attrs.field(factory=set)  # hosts whose next daemon dies soon
    _misled: SimulatedHost | None = None  # a host with a wall clock that is ahead
    _trusts_clocks: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._trusts_clocks = not (self._faults.clock_rate or self._faults.frozen_s)
        for host in self._hosts:
            host.on_end = self._on_end

    def end(self) -> None:
        """Cause no more deaths; paused daemons continue, dead ones stay dead."""
        self._running = False
        self._set_right()
        for host in self._hosts:
            host.clock.thaw()
            host.kill_clone()
            if host.process is not None:
                host.process.resume()
                host.process.probe.fuse = None
                host.process.sends_left = None

    def _victim(self) -> SimulatedHost | None:
        up = [host for host in self._hosts if host.is_up]
        if len(up) > 1 or (up and self._rng.random() < LAST_ONE_SHARE):
            return self._rng.choice(up)
        return None

    # ---- faults ----

    def crash(self) -> None:
        """Kill a daemon, now or at a critical moment soon; or all of them."""
        if self._rng.random() < ALL_SHARE:
            for host in self._hosts:
                host.kill()
            return
        victim = self._victim()
        if victim is not None:
            if self._rng.random() < AGAIN_SHARE:
                self._again.add(victim.index)
            self._doom(victim)

    def crash_gateway(self) -> None:
        """Kill a daemon over which others reach another ring, if there is one."""
        gateways = [host for host in self._hosts if host.is_up and host.is_gateway]
        if gateways:
            self._doom(self._rng.choice(gateways))

    def damage_disk(self) -> None:
        """Kill a daemon, and damage the disk for the next one; or start a clone of it.

        Others may be upgraded while the daemon is away, or the clone is there.
        """
        victim, rng = self._victim(), self._rng
        if victim is None:
            return
        lasts_us = self._upgrade_others(victim) if rng.random() < UPGRADE_SHARE else 0
        if rng.random() < CLONE_SHARE and self._trusts_clocks:
            victim.start_clone(hears=rng.random() < 0.5)
            lasts_us = lasts_us or microseconds(rng.uniform(0.1, LONGEST_CLONE_S))
            ends = victim.replace_by_clone if rng.random() < MOVED_SHARE else victim.kill_clone
            self._loop.at(self._loop.now + lasts_us, lambda _: ends())
            return
        damage = rng.choice(tuple(Damage))
        if self._trusts_clocks:  # if a clock is also set back, view ids may fall
            self._damage[victim.index] = damage
        if lasts_us:
            self._back_at[victim.index] = self._loop.now + lasts_us
            victim.kill()
        else:
            self._doom(victim)

    def _upgrade_others(self, away: SimulatedHost) -> int:
        """Restart some of the other daemons, one after the other; return the time that this takes,
        in microseconds."""
        others = [host for host in self._hosts if host is not away and host.is_up]
        at, step_s = 0, self._rng.uniform(*UPGRADE_STEPS_S)
        for host in self._rng.sample(others, self._rng.randint(min(1, len(others)), len(others))):
            at += microseconds(step_s)
            self._loop.at(self._loop.now + at, self._upgrade, host)
        return at + microseconds(step_s)

    def _upgrade(self, host: SimulatedHost) -> None:
        if self._running and host.process is not None and host.is_up:
            self._back_at[host.index] = self._loop.now + 1
            if self._rng.random() < 0.5:
                host.process.leave()
            else:
                host.kill()

    def mislead(self, _: None) -> None:
        """Make a daemon start with a clock that is ahead, once in a run."""
        if not self._running:
            return
        victim = self._victim()
        if victim is None:
            self._loop.at(self._loop.now + MISLED_US, self.mislead)
            return
        self._misled = victim
        victim.clock.set_ahead(self._faults.ahead_s)
        victim.kill()
        victim.boot()
        self._loop.at(self._loop.now + MISLED_US, self._set_right)

    def _set_right(self, _: None = None) -> None:
        if self._misled is not None:
            self._misled.clock.set_ahead(-self._faults.ahead_s)
            self._misled = None

    def freeze_clock(self) -> None:
        """Have the wall clock of a host stand still; half of the time its daemon starts anew."""
        host, rng = self._rng.choice(self._hosts), self._rng
        host.clock.freeze(self._loop.now)
        if rng.random() < 0.5:
            host.kill()
        lasts = microseconds(rng.uniform(SHORTEST_S, self._faults.frozen_s))
        self._loop.at(self._loop.now + lasts, lambda _: host.clock.thaw())

    def pause(self) -> None:
        """Pause a daemon."""
        victim = self._victim()
        if victim is not None and victim.process is not None:
            shortest, longest = 0.06, self._faults.pause_s
            lasts = shortest + self._rng.random() ** 2 * max(0.0, longest - shortest)
            victim.process.pause(self._loop.now + microseconds(lasts))

    def leave(self) -> None:
        """Let a daemon leave in order; another start of it follows."""
        victim = self._victim()
        if victim is not None and victim.process is not None:
            victim.process.leave()

    def change_file(self) -> None:
        """Give a host another configuration, or the right one; its daemon starts again with it."""
        victim = self._victim()
        if victim is not None and victim.process is not None:
            wrong = [config for config in self._configs if victim.name in config.daemons]
            victim.other_config = self._rng.choice((None, *wrong))
            if self._rng.random() < 0.5:
                victim.process.leave()
            else:
                self._doom(victim)

    # ---- death ----

    def _doom(self, host: SimulatedHost) -> None:
        """Kill a daemon now, between two of its next datagrams, or at a moment inside."""
        process, rng = host.process, self._rng
        assert process is not None
        lot = rng.random()
        if lot < 0.3:
            host.kill()
            return
        if lot < 0.6:
            process.sends_left = rng.randint(0, 3)
        else:
            process.probe.fuse = Fuse(rng.choice(FUSE_KINDS), rng.choice((0, 0, 1, 5)))
        name = process.name
        self._loop.at(self._loop.now + FUSE_US, lambda _: self._kill_start(host, name))

    def _kill_start(self, host: SimulatedHost, name: str) -> None:
        if self._running and host.process is not None and host.process.name == name:
            host.kill()

    def _on_end(self, host: SimulatedHost, how: ProcessEnd) -> None:
        """Damage the disk of an ended daemon if that was planned, and start the next daemon."""
        if not self._running:
            return
        damage = self._damage.pop(host.index, None)
        if damage is not None and host.is_idle:
            host.damage_disk(damage)
        back_at = self._back_at.pop(host.index, None)
        down = self._down_us(how) if back_at is None else max(1, back_at - self._loop.now)
        self._loop.at(self._loop.now + down, partial(self._boot, host))

    def _down_us(self, how: ProcessEnd) -> int:
        """Return the time for which a host stays without a daemon: none, a moment, or long."""
        rng = self._rng
        longest = self._faults.crash_s or 2.0
        if how in (ProcessEnd.LEFT, ProcessEnd.CUT_SHORT):
            longest = 2.0
        down_s = rng.choice((0.0, rng.uniform(0.0, 0.05), rng.uniform(0.0, longest)))
        return 1 + microseconds(down_s)

    def _boot(self, host: SimulatedHost, _: Any) -> None:
        if self._running:
            host.boot()
            if host.index in self._again:
                self._again.discard(host.index)
                self._loop.at(
                    self._loop.now + self._rng.randrange(SECOND // 100), self._doom_again, host
                )

    def _doom_again(self, host: SimulatedHost) -> None:
        """Kill a daemon while it starts, or before it is in its first view."""
        if self._running:
            if host.process is not None:
                self._doom(host)
            else:
                host.kill()
