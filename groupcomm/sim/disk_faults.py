"""What happens to disks while daemons run: they get slow, hang, fill up, fail, and recover.

What befalls a disk while no daemon runs (it is lost, rolled back, copied) is in outages.py.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from groupcomm.sim.disk import Ailment
from groupcomm.sim.faults import Faults
from groupcomm.sim.host import Host
from groupcomm.sim.loop import Loop, microseconds

SHORTEST_S: Final = 0.05
"""A disk is unwell at least so long, but if it is slow: then for some writes."""

MOST_WRITES: Final = 5

FOR_EVER_SHARE: Final = 0.3
"""So often a disk does not recover before all faults end."""

STARTED_SHARE: Final = 0.3
"""So often the daemon is killed as well, so that it has to count a start on that disk."""


class DiskFaults:
    """Spoils disks, one after the other; several may be unwell at a time.

    Args:
        loop: virtual time.
        rng: this run's source for when and whom.
        faults: how strong.
        hosts: whose disks.
    """

    def __init__(self, loop: Loop, rng: Random, faults: Faults, hosts: Sequence[Host]) -> None:
        self._loop = loop
        self._rng = rng
        self._faults = faults
        self._hosts = hosts
        self._running = True

    def end(self) -> None:
        """Spoil nothing any more; disks that are unwell stay so."""
        self._running = False

    # ---- what can happen ----

    def slow_down(self) -> None:
        """Each write of a disk takes long."""
        write_s = self._faults.slow_disk_s
        self._spoil(Ailment.SLOW, self._rng.uniform(write_s, MOST_WRITES * write_s), write_s)

    def hang(self) -> None:
        """Writes of a disk begin and do not end."""
        self._spoil(Ailment.HUNG, self._rng.uniform(SHORTEST_S, self._faults.hung_disk_s))

    def fill_up(self) -> None:
        """Writes of a disk fail, and nothing of them lasts."""
        self._spoil(Ailment.FULL, self._rng.uniform(SHORTEST_S, self._faults.full_disk_s))

    def fail(self) -> None:
        """Writes of a disk fail, and may have lasted all the same."""
        self._spoil(Ailment.BROKEN, self._rng.uniform(SHORTEST_S, self._faults.failing_disk_s))

    def _spoil(self, ailment: Ailment, lasts_s: float, write_s: float = 0.0) -> None:
        host = self._rng.choice(self._hosts)
        host.disk.ail(ailment, microseconds(write_s))
        if self._rng.random() < STARTED_SHARE:
            host.kill()
        if self._rng.random() >= FOR_EVER_SHARE:
            self._loop.at(self._loop.now + microseconds(lasts_s), self._recover, host)

    def _recover(self, host: Host) -> None:
        if self._running:
            host.disk.recover()
