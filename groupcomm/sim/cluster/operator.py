"""An operator who changes the roster of a simulated cluster, whatever else goes wrong."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from groupcomm.config.roster import (
    AddDaemon,
    MoveDaemon,
    RemoveDaemon,
    Roster,
    RosterChange,
    RosterRecord,
)
from groupcomm.engine import ChangeRoster
from groupcomm.errors import LocalProtocolError
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.virtual_time import SECOND, Loop

CHANGE_US: Final = 2 * SECOND // 3
"""The mean time between two changes, microseconds."""

LOOK_US: Final = SECOND // 20
"""The time after which an operator looks whether a daemon was added, and starts it."""

MOVE_SHARE: Final = 0.15

DISTURBED_SHARE: Final = 0.6
"""The share of changes that a fault follows before they can be over, in runs with such faults."""

DISTURBED_US: Final = SECOND // 5
"""The time within which it follows, microseconds: about as long as the slowest write."""

LEAST: Final = 2
"""The operator removes no daemon of a roster that has no more than this number."""


class Operator:
    """One operator.

    Args:
        loop: virtual time.
        rng: the random source of times and changes.
        hosts: all hosts, spare ones included.
        faults: each causes a fault that breaks views; a change is a good moment for one.

    Attributes:
        asked: the number of changes that a daemon has accepted.
        refused: the number of those that it has not.
    """

    def __init__(
        self,
        loop: Loop,
        rng: Random,
        hosts: Sequence[SimulatedHost],
        faults: Sequence[Callable[[], None]],
    ) -> None:
        self._loop = loop
        self._faults = faults
        self._rng = rng
        self._hosts = hosts
        self._by_name = {host.name: host for host in hosts}
        self._running = False
        self.asked = self.refused = 0

    def start(self) -> None:
        """Change the roster again and again from now on."""
        self._running = True
        self._loop.at(self._loop.now + self._rng.randrange(2 * CHANGE_US), self._change)
        self._look(None)

    def stop(self) -> None:
        """Change nothing any more; daemons that are added late are still started."""
        self._running = False

    @property
    def latest(self) -> Roster | None:
        """Return the latest roster that counts at a running daemon; None if none runs."""
        rosters = [host.core.config.roster for host in self._hosts if host.process is not None]
        return max(rosters, key=lambda roster: roster.number, default=None)

    def _change(self, _: object) -> None:
        if not self._running:
            return
        self._loop.at(self._loop.now + 1 + self._rng.randrange(2 * CHANGE_US), self._change)
        up = [host for host in self._hosts if host.is_up]
        host = self._rng.choice(up) if up else None
        if host is None or host.process is None:
            return
        wanted = self._draw(host.core.config.roster)
        if wanted is None:
            return
        try:
            host.core.command(ChangeRoster(change=wanted))
        except LocalProtocolError:
            self.refused += 1
        else:
            self.asked += 1
            host.process.wake()
            if self._faults and self._rng.random() < DISTURBED_SHARE:
                soon = self._loop.now + 1 + self._rng.randrange(DISTURBED_US)
                self._loop.at(soon, self._disturb)

    def _disturb(self, _: object) -> None:
        if self._running:
            self._rng.choice(self._faults)()

    def _draw(self, roster: Roster) -> RosterChange | None:
        rng = self._rng
        absent = [host for host in self._hosts if roster.entry(host.name) is None]
        alone = {names[0] for names in roster.sites.values() if len(names) == 1}
        removable = [name for name in roster.names if name not in alone]
        if rng.random() < MOVE_SHARE:
            name = rng.choice(roster.names)
            return MoveDaemon(name, (f"{name}.example:{rng.randrange(1, 65536)}",))
        if absent and (rng.random() < 0.5 or not removable):
            host = rng.choice(absent)
            return AddDaemon(name=host.name, site=str(host.site + 1))
        if removable and len(roster.names) > LEAST:
            return RemoveDaemon(rng.choice(removable))
        return None

    def _look(self, _: object) -> None:
        """Start the daemons that were added, each with a roster that has it."""
        self._loop.at(self._loop.now + LOOK_US, self._look)
        roster = self.latest
        for name in roster.names if roster is not None else ():
            added = self._by_name[name]
            if added.is_spare:
                added.is_spare, added.rosters = False, RosterRecord(agreed=roster)
                added.boot()
