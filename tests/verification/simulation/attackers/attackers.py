"""All attackers of a run, and their effects on the cluster.

Without other faults the check is exact: from the moment at which an attacker has what it needs
until the core has to agree, all daemons stay in their view, as they would without it, and drop no
daemon's datagram as a replay. With faults, views come and go anyway, and the checkers alone decide
about them.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import CoreConfig
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.network.network import Network
from groupcomm.sim.virtual_time import SECOND, Loop, random_for
from groupcomm.trace.recorders import RecordEvent
from tests.verification.simulation.attackers.attack import Attack, AttackContext
from tests.verification.simulation.attackers.entitled import Crowd, FreeSender, Joiner
from tests.verification.simulation.attackers.evicted import Evicted
from tests.verification.simulation.attackers.keyholder import KeyHolder
from tests.verification.simulation.attackers.outsiders import LocalUser
from tests.verification.simulation.attackers.programs import RogueProgramsAttack
from tests.verification.simulation.attackers.roles import (
    CROWD,
    EVICTED,
    FREE_SENDER,
    JOINER,
    NOTHING,
    PROGRAM,
    RING_KEY,
    USER,
)
from tests.verification.simulation.host import VerificationHost
from tests.verification.simulation.process import VerificationProcess
from tests.verification.simulation.settings import VerificationSettings

PLAYERS: Final = {
    RING_KEY: KeyHolder,
    EVICTED: Evicted,
    PROGRAM: RogueProgramsAttack,
    USER: LocalUser,
    JOINER: Joiner,
    CROWD: Crowd,
    FREE_SENDER: FreeSender,
}
LOOK_US: Final = SECOND // 50


class Attackers:
    """All attackers on the daemons of a cluster, besides the fault ``attacker``.

    Attributes:
        playing: the attackers.
        is_watched: whether all daemons have to stay in the views that they have.
    """

    def __init__(
        self,
        loop: Loop,
        settings: VerificationSettings,
        config: CoreConfig,
        network: Network,
        hosts: Sequence[VerificationHost],
        record: RecordEvent,
    ) -> None:
        self._stage = AttackContext(loop, settings, config, network, hosts, record)
        self._settings = settings
        self._breaches: list[str] = []
        self._views: dict[str, ViewId] = {}
        self._running = False
        self.is_watched = False
        self.playing: list[Attack] = [
            PLAYERS[role](self._stage, random_for(settings.seed, f"attacker {role}"))
            for role in settings.attackers
            if role in PLAYERS
        ]

    @property
    def breaches(self) -> list[str]:
        """Return the breaches of the attackers, and the views that they caused."""
        return self._breaches + [text for attack in self.playing for text in attack.breaches]

    def start(self) -> None:
        """Start the attackers, each at a time of its own."""
        for attack in self.playing:
            attack.start()
        if self._settings.attackers and self._is_calm():
            self._running = True
            self._watch(None)

    def on_heal(self) -> None:
        """Check the views for the last time, before the core changes."""
        self._look()
        self._running = self.is_watched = False

    def on_settle(self) -> None:
        """Note that load has ended."""
        for attack in self.playing:
            attack.on_settle()

    def stop(self) -> None:
        """Stop all attackers."""
        for attack in self.playing:
            attack.stop()

    # ---- views ----

    def _is_calm(self) -> bool:
        """Return whether only attackers disturb the daemons."""
        return attrs.evolve(self._settings.faults, attacker=False) == Faults()

    def _watch(self, _: object) -> None:
        """Wait until attackers have what they need, then note the views."""
        if not self._running:
            return
        if all(attack.is_prepared for attack in self.playing):
            self.is_watched = True
            self._views = self._present()
        else:
            self._stage.loop.at(self._stage.loop.now + LOOK_US, self._watch)

    def _present(self) -> dict[str, ViewId]:
        return {
            host.process.name: view.id
            for host in self._stage.hosts
            if host.process is not None and (view := host.core.view) is not None
        }

    def _look(self) -> None:
        if not self.is_watched:
            return
        if (now := self._present()) != self._views:
            changed = sorted(name for name, view in self._views.items() if now.get(name) != view)
            self._breaches.append(
                f"an attacker made {', '.join(changed)} leave their view, though nothing "
                "else went wrong"
            )
        if NOTHING in self._settings.attackers:
            return  # an attacker replays datagrams of daemons
        for host in self._stage.hosts:
            process = host.process
            if isinstance(process, VerificationProcess) and (replays := process.replays):
                self._breaches.append(
                    f"{host.name} dropped {replays} datagrams of daemons as replays: a "
                    "forged datagram moved its windows"
                )
