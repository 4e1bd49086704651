"""The files of keys and identities of a simulated host: what daemons find there as they start."""

from collections.abc import Callable
from typing import Final, Protocol

import attrs

from groupcomm.core import Input, KeysStored, RollStored, StoreKeys, StoreRoll
from groupcomm.security.identity import Credentials
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
    credentials: Credentials | None


class KeyFiles:
    """Changes the files of a host for its daemon, as an operator would."""

    def __init__(self, loop: Loop, host: Machine) -> None:
        self._loop = loop
        self._host = host

    def store(self, wanted: StoreKeys | StoreRoll, done: Callable[[Input], None]) -> None:
        """Change one of the files, then call `done` with the answer."""
        self._loop.at(self._loop.now + WRITE_US, self._end, (wanted, done))

    def _end(self, write: tuple[StoreKeys | StoreRoll, Callable[[Input], None]]) -> None:
        wanted, done = write
        host = self._host
        if isinstance(wanted, StoreKeys):
            host.keys = wanted.keys
            done(KeysStored(wanted.keys))
            return
        if host.credentials is not None and wanted.roll.counts(host.name):  # else none can start
            host.credentials = attrs.evolve(host.credentials, roll=wanted.roll)
        done(RollStored(wanted.roll))
