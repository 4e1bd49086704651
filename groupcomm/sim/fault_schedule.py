"""Faults that act on whole daemons: jams, slow steps, clocks that jump; and who ends them all."""

from collections.abc import Sequence
from random import Random

from groupcomm.sim.faults import Faults
from groupcomm.sim.loop import SECOND, Loop, microseconds
from groupcomm.sim.network import Network
from groupcomm.sim.process import STEP_US, Daemon

JAM_INTERVAL_US = SECOND
SLOW_INTERVAL_US = 2 * SECOND
JUMP_INTERVAL_US = 2 * SECOND


class FaultSchedule:
    """Starts a run's faults at once, and ends them all when told to.

    Args:
        loop: virtual time.
        rng: this run's source for when and whom.
        faults: what goes wrong.
        network: whose datagrams suffer.
        daemons: who suffers.
    """

    def __init__(
        self,
        loop: Loop,
        rng: Random,
        faults: Faults,
        network: Network,
        daemons: Sequence[Daemon],
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._faults = faults
        self._network = network
        self._daemons = daemons
        self._running = True
        network.start_faults(faults)
        for strength, act in (
            (faults.jam_s, self._jam),
            (faults.slow_factor, self._slow_down),
            (faults.clock_rate, self._jump),
        ):
            if strength:
                act(None)

    def end(self) -> None:
        """From now on nothing goes wrong; clocks stay as fast as they are."""
        self._running = False
        self._network.end_faults()
        for daemon in self._daemons:
            daemon.step_us = STEP_US

    def _jam(self, _: None) -> None:
        """Hold what is sent to one daemon for less than a token timeout."""
        if self._running:
            until = self._loop.now + int(self._rng.random() * microseconds(self._faults.jam_s))
            self._network.jam(self._rng.randrange(len(self._daemons)), until)
            self._loop.at(self._loop.now + 1 + self._rng.randrange(2 * JAM_INTERVAL_US), self._jam)

    def _slow_down(self, _: None) -> None:
        """Another daemon becomes the slow one."""
        if self._running:
            for daemon in self._daemons:
                daemon.step_us = STEP_US
            self._rng.choice(self._daemons).step_us = STEP_US * self._faults.slow_factor
            self._loop.at(self._loop.now + SLOW_INTERVAL_US, self._slow_down)

    def _jump(self, _: None) -> None:
        """One daemon's wall clock is set, wrongly."""
        if self._running:
            self._rng.choice(self._daemons).clock.jump()
            self._loop.at(self._loop.now + JUMP_INTERVAL_US, self._jump)
