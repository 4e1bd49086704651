"""Rough programs: they go at every moment of a session, and send more than a link can take at
once."""

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from groupcomm.level import LEVELS
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.virtual_time import SECOND, Loop

INTERVAL_US: Final = SECOND // 4
"""The mean time from one program to the next."""

MOST_WAIT_US: Final = SECOND // 100
CHUNK_BYTES: Final = 20_000
MOST_CHUNKS: Final = 40
GROUP: Final = "rough"


class Connect(Protocol):
    """Starts a program."""

    def __call__(self, user: str, daemon: int) -> SimulatedClient:
        """Connect to a daemon."""


class RoughPrograms:
    """Starts one rough program after the other.

    Args:
        loop: virtual time.
        rng: the random source of times and acts.
        connect: starts a program at a daemon.
        up: returns the daemons that run.
    """

    def __init__(
        self, loop: Loop, rng: Random, connect: Connect, up: Callable[[], list[int]]
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._connect = connect
        self._up = up
        self._running = True
        self._count = 0
        loop.at(loop.now + 1 + rng.randrange(INTERVAL_US), self._next)

    def stop(self) -> None:
        """Start no more programs."""
        self._running = False

    def _next(self, _: None) -> None:
        if not self._running:
            return
        loop, rng = self._loop, self._rng
        loop.at(loop.now + 1 + int(rng.expovariate(1.0 / INTERVAL_US)), self._next)
        up = self._up()
        if not up:
            return
        self._count += 1
        client = self._connect(f"rough{self._count}", rng.choice(up))
        acts = (self._crash, self._disconnect, self._flood, self._disconnect_and_crash)
        wait = 0 if rng.random() < 0.3 else int(MOST_WAIT_US * rng.random() ** 3)
        loop.at(loop.now + 1 + wait, rng.choice(acts), client)

    def _crash(self, client: SimulatedClient) -> None:
        if client.alive:
            client.crash()

    def _disconnect(self, client: SimulatedClient) -> None:
        """Leave in order, also if the daemon has not answered yet."""
        if client.alive and not client.closed:
            client.disconnect()

    def _disconnect_and_crash(self, client: SimulatedClient) -> None:
        self._disconnect(client)
        self._loop.at(self._loop.now + 1 + self._rng.randrange(2_000), self._crash, client)

    def _flood(self, client: SimulatedClient) -> None:
        """Send as much as fits, then go while the daemon still has it."""
        if not client.connected:
            self._disconnect_and_crash(client)
            return
        level = self._rng.choice(LEVELS)
        for _ in range(self._rng.randint(1, MOST_CHUNKS)):
            if client.writable:
                client.multicast((GROUP,), self._rng.randbytes(CHUNK_BYTES), level=level)
        act = self._rng.choice((self._crash, self._disconnect, self._disconnect_and_crash))
        self._loop.at(self._loop.now + 1 + self._rng.randrange(5_000), act, client)
