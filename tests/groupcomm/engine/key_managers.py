"""The key managers of some daemons, whose reports come to all of them in one order."""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine.backlog import Backlog, Submitter
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
    """

    def __init__(
        self,
        keys: KeyRing | None,
        members: str = "ab",
        *,
        configured: str = "ab",
        rolls: Mapping[str, Roll] | None = None,
    ) -> None:
        self.counters = Counters()
        self.protections: dict[str, SealedProtection] = {}
        self.managers: dict[str, KeyManager] = {}
        self.backlogs: dict[str, Backlog] = {}
        self.submitters: dict[str, Submitter] = {}
        self.config = config = CoreConfig(sites=(tuple(configured),))
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
            self.backlogs[name] = Backlog()
            self.submitters[name] = Submitter(self.backlogs[name])
            here = self.submitters[name], self.counters
            self.managers[name] = KeyManager(name, self.protections[name], keys, *here)
        self.begin_view(members)

    def begin_view(self, members: str) -> None:
        """Begin a view of these daemons, and have their reports come."""
        self.members = members
        for name in members:
            self.managers[name].begin_view(list(members))
        self.order()

    def order(self) -> None:
        """Have all reports come to all daemons of the view."""
        while any(self.backlogs[name] for name in self.members):
            for sender, name in enumerate(self.members):
                for bundle in self.backlogs[name].clear():
                    for receiver in self.members:
                        self.managers[receiver].on_report(sender, bundle)

    def begin_step(self, now: float) -> None:
        for protection in self.protections.values():
            protection.begin_step(now)

    def active(self) -> list[int]:
        return [self.describe(name)["active"] for name in self.managers]

    def known(self) -> list[list[str]]:
        return [list(self.describe(name)["keys"]) for name in self.managers]

    def is_woken(self) -> bool:
        """Return whether a daemon was told that something waits."""
        return any(each.is_woken for each in self.submitters.values())

    def describe(self, name: str) -> dict[str, Any]:
        return self.managers[name].describe(self.config.daemons)
