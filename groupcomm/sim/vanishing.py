"""Programs whose connections go silent in both directions, as if a cable was pulled.

No end of the stream comes through, whatever either side does. Some programs crash meanwhile; the
others go on, and may have left their daemons when the cable is put in again, or their daemons them.
"""

from random import Random
from typing import Final

import attrs

from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.virtual_time import SECOND, Loop, microseconds
from groupcomm.sim.workload import Workload

DAEMON_TIMEOUT_S: Final = 1.0
"""The silence of a daemon after which programs leave it, in runs with this fault."""

INTERVAL_US: Final = SECOND
"""The time between two such faults, on average."""


@attrs.define(eq=False, repr=False)
class Vanishing:
    """Cuts the connections of a workload's programs, one at a time, and mends them.

    Args:
        loop: virtual time.
        rng: the random source.
        workload: the programs.
        longest_s: the longest time of a cut.
    """

    _loop: Loop
    _rng: Random
    _workload: Workload
    _longest_s: float
    _cut: list[SimulatedClient] = attrs.field(factory=list)
    _running: bool = True

    def __attrs_post_init__(self) -> None:
        self._loop.at(self._loop.now + INTERVAL_US, self._next)

    def stop(self) -> None:
        """Mend all connections, and cut no more."""
        self._running = False
        for client in self._cut:
            client.set_cut(False)
        self._cut.clear()

    def _next(self, _: None) -> None:
        if not self._running:
            return
        later = 1 + int(self._rng.expovariate(1.0 / INTERVAL_US))
        self._loop.at(self._loop.now + later, self._next)
        clients = [each for each in self._workload.connected() if each not in self._cut]
        if clients:
            client = self._rng.choice(clients)
            self._cut.append(client)
            client.set_cut(True)
            if self._rng.random() < 0.3:
                client.crash()
            lasts = microseconds(self._rng.uniform(0.0, self._longest_s))
            self._loop.at(self._loop.now + lasts, self._mend, client)

    def _mend(self, client: SimulatedClient) -> None:
        if client in self._cut:
            self._cut.remove(client)
            client.set_cut(False)
