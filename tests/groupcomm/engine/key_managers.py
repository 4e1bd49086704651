"""The key managers of some daemons, whose reports come to all of them in one order."""

from collections.abc import Mapping
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine.counters import Counters
from groupcomm.engine.keys import KeyManager
from groupcomm.engine.protection import IdentityProtection, SealedProtection
from groupcomm.security.identity import DaemonCredentials, Roll, public_of
from groupcomm.security.keys import KeyRing

SECRETS: Final = {number: bytes((number,)) * 32 for number in (1, 2, 3)}


def ring(*numbers: int, active: int) -> KeyRing:
    return KeyRing({number: SECRETS[number] for number in numbers}, active)


def private(name: str) -> bytes:
    return Random(name).randbytes(32)


def roll_of(names: str) -> Roll:
    return Roll({name: public_of(private(name)) for name in names})


class Daemons:
    """The key managers of the daemons of a view.

    Args:
        keys: the keys of each at its start; None without a key file.
        members: the daemons of the view, one letter each.
        configured: all daemons.
        rolls: the identities that each trusts at its start; {} without identities.

    Attributes:
        woken: how often a daemon was told that something waits.
    """

    def __init__(
        self,
        keys: KeyRing | None,
        members: str = "ab",
        *,
        configured: str = "ab",
        rolls: Mapping[str, Roll] | None = None,
    ) -> None:
        self.woken = 0
        self.counters = Counters()
        self.protections: dict[str, SealedProtection] = {}
        self.managers: dict[str, KeyManager] = {}
        self._backlogs: dict[str, list[Any]] = {}
        config = CoreConfig(sites=(tuple(configured),))
        for name in rolls or members:
            start = Start(name=name, incarnation=Incarnation(1, ord(name)))
            some = keys or ring(1, active=1)
            if rolls:
                credentials = DaemonCredentials(
                    private(name), rolls[name], Random(name + "entropy").randbytes
                )
                self.protections[name] = IdentityProtection(config, start, some, 0.0, credentials)
            else:
                self.protections[name] = SealedProtection(config, start, some, 0.0)
            self._backlogs[name] = []
            core = SimpleNamespace(
                config=config,
                start=start,
                counters=self.counters,
                sessions=SimpleNamespace(backlog=self._backlogs[name]),
                wake=self._wake,
            )
            self.managers[name] = KeyManager(cast(Any, core), self.protections[name], keys)
        self.begin_view(members)

    def _wake(self) -> None:
        self.woken += 1

    def begin_view(self, members: str) -> None:
        """Begin a view of these daemons, and have their reports come."""
        self.members = members
        for name in members:
            self.managers[name].begin_view(list(members))
        self.order()

    def order(self) -> None:
        """Have all reports come to all daemons of the view."""
        while any(self._backlogs[name] for name in self.members):
            for sender, name in enumerate(self.members):
                taken, self._backlogs[name][:] = list(self._backlogs[name]), []
                for bundle in taken:
                    for receiver in self.members:
                        self.managers[receiver].on_report(sender, bundle)

    def begin_step(self, now: float) -> None:
        for protection in self.protections.values():
            protection.begin_step(now)

    def active(self) -> list[int]:
        return [manager.describe()["active"] for manager in self.managers.values()]

    def known(self) -> list[list[str]]:
        return [list(manager.describe()["keys"]) for manager in self.managers.values()]
