"""An attack: an attacker that does harmful things again and again, and what it has achieved."""

from collections.abc import Sequence
from random import Random
from typing import Final

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, incarnation_of
from groupcomm.names import cluster_number, daemon_number
from groupcomm.security.layout import FIXED_BYTES, FOR_ALL, HEAD_BYTES
from groupcomm.security.opening import split_sealed
from groupcomm.sim.faults.paths import Forged
from groupcomm.sim.network.network import Network
from groupcomm.sim.virtual_time import SECOND, Loop
from groupcomm.trace.recorders import RecordEvent
from tests.verification.simulation.host import VerificationHost
from tests.verification.simulation.settings import VerificationSettings

INTERVAL_US: Final = SECOND // 15
"""The average time between two acts of an attacker."""

MOST_BREACHES: Final = 3
"""The number of breaches after which an attacker stops."""

SEALED_BYTES: Final = HEAD_BYTES + 5
SCOPE_AT: Final = 2


@attrs.frozen
class AttackContext:
    """The surroundings of an attack: the cluster, its hosts and the network."""

    loop: Loop
    settings: VerificationSettings
    config: CoreConfig
    network: Network
    hosts: Sequence[VerificationHost]
    record: RecordEvent

    @property
    def cluster(self) -> int:
        """Return the number of the cluster, which every head shows."""
        return cluster_number(self.config.cluster)


@attrs.frozen
class SeenDatagram:
    """The head of a datagram, as everybody who hears it can read it."""

    sender: int
    start: Incarnation
    counter: int
    channel: int
    for_all: bool
    target: int
    datagram: bytes


def seen_in(datagram: bytes, target: int) -> SeenDatagram | None:
    """Return the head of a sealed datagram; None if it is too short to be one."""
    if len(datagram) <= SEALED_BYTES:
        return None
    sender, start, counter, channel, _ = split_sealed(datagram)
    return SeenDatagram(
        sender, start, counter, channel, datagram[SCOPE_AT] == FOR_ALL, target, datagram
    )


class Attack:
    """An attacker that does harmful things now and then, from its start to its stop.

    Args:
        stage: the surroundings.
        rng: the random source of this attacker.

    Attributes:
        breaches: what it obtained that its role must not obtain.
        acts: the number of its acts.
    """

    def __init__(self, stage: AttackContext, rng: Random) -> None:
        self._stage = stage
        self._rng = rng
        self._running = False
        self.breaches: list[str] = []
        self.acts = 0

    @property
    def is_prepared(self) -> bool:
        """Return whether its acts from now on must change nothing."""
        return True

    def start(self) -> None:
        """Begin the attack."""
        self._running = True
        self._again()

    def on_settle(self) -> None:
        """Note that load has ended: the core has to agree whatever an attacker does."""

    def stop(self) -> None:
        """Stop the attack."""
        self._running = False

    def act(self) -> None:
        """Do one harmful thing."""
        raise NotImplementedError

    def _again(self) -> None:
        loop = self._stage.loop
        loop.at(loop.now + 1 + self._rng.randrange(2 * INTERVAL_US), self._act)

    def _act(self, _: object) -> None:
        if self._running and len(self.breaches) < MOST_BREACHES:
            self.acts += 1
            self.act()
            self._again()

    def _breach(self, text: str) -> None:
        if len(self.breaches) < MOST_BREACHES:
            self.breaches.append(text)

    def _inject(self, target: VerificationHost, datagram: bytes) -> None:
        """Send a daemon a datagram that no daemon of the cluster has sealed."""
        if not target.is_taken:
            target.put(self._stage.loop.now, Forged(datagram))

    def _numbers(self) -> dict[int, VerificationHost]:
        """Return the hosts by the numbers of their daemons, which follow from the names."""
        return {daemon_number(host.name): host for host in self._stage.hosts}

    def _drawn_start(self) -> Incarnation:
        """Draw a start of a daemon that never existed."""
        return incarnation_of(self._rng.randrange(12), self._rng.getrandbits(64))


def under_a_head(fixed: bytes, counter: int, rest: bytes) -> bytes:
    """Return bytes behind a head as a datagram has it."""
    return fixed[:FIXED_BYTES] + counter.to_bytes(8, "big") + rest
