"""The files of keys and identities of a simulated host: what daemons find there as they start."""

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

import attrs

from groupcomm.engine import Input, KeysStored, RollStored, StoreKeys, StoreRoll
from groupcomm.security.identity import DaemonCredentials
from groupcomm.security.keys import KeyRing
from groupcomm.sim.loop import SECOND, Loop

WRITE_US: Final = SECOND // 200
"""How long it takes to change one of the files."""


class Machine(Protocol):
    """The host that has the files.

    Attributes:
        name: of its daemons.
        keys: in the key file; None in suite 0.
        credentials: the identity of its daemon, and the others'; None but in suite 2.
    """

    name: str
    keys: KeyRing | None
    credentials: DaemonCredentials | None


class KeyFiles:
    """Changes the files of a host for one start of its daemon.

    Args:
        loop: virtual time.
        host: whose files they are.
        rng: decides what a crash leaves of a change.
    """

    def __init__(self, loop: Loop, host: Machine, rng: Random) -> None:
        self._loop = loop
        self._host = host
        self._rng = rng
        self._under_way: list[tuple[StoreKeys | StoreRoll, Callable[[Input], None]]] = []

    def store(self, wanted: StoreKeys | StoreRoll, done: Callable[[Input], None]) -> None:
        """Change one of the files, then call `done` with the answer."""
        write = (wanted, done)
        self._under_way.append(write)
        self._loop.at(self._loop.now + WRITE_US, self._end, write)

    def crash(self) -> None:
        """End each change under way: it is lost, or lasts although nobody was told."""
        under_way, self._under_way = self._under_way, []
        for wanted, _ in under_way:
            if self._rng.random() < 0.5:
                self._change(wanted)

    def _end(self, write: tuple[StoreKeys | StoreRoll, Callable[[Input], None]]) -> None:
        if write not in self._under_way:
            return  # the daemon crashed meanwhile
        self._under_way.remove(write)
        wanted, done = write
        self._change(wanted)
        done(KeysStored(wanted.keys) if isinstance(wanted, StoreKeys) else RollStored(wanted.roll))

    def _change(self, wanted: StoreKeys | StoreRoll) -> None:
        host = self._host
        if isinstance(wanted, StoreKeys):
            host.keys = wanted.keys
        elif host.credentials is not None and wanted.roll.is_trusted(
            host.name
        ):  # else none can start
            host.credentials = attrs.evolve(host.credentials, roll=wanted.roll)
