"""An attacker on the network, which hears and sends everything, and has no key.

A replayed datagram may be of an earlier view, and may meet a later start of its receiver, which has
never seen it.
"""

import struct
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from groupcomm.config.view import Incarnation
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import (
    HEAD_BYTES,
    SUITE_IDENTITIES,
    VERSION,
    Channel,
    fixed_heads,
)
from groupcomm.security.sealing import Sealer
from groupcomm.sim.attackers.attack import AttackContext, under_a_head
from groupcomm.sim.attackers.keyholder import RingKeySealer
from groupcomm.sim.attackers.programs import RogueProgramsAttack
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.faults.paths import Forged, corrupt
from groupcomm.sim.network.network import Receiver
from groupcomm.sim.virtual_time import SECOND, Loop
from groupcomm.wire.hello import Hello

INTERVAL_US = SECOND // 10
REMEMBERED = 500
RECENT = 30
"""The latest datagrams that are remembered: replaying a token makes sense only while it is new."""

MOMENT_INTERVAL_US = SECOND
SCENES = 20
MOMENT_SHARE = 0.02
"""The share of replays that repeat all of the last datagrams of some moment, in order."""

_U64 = struct.Struct("!Q")
_SCOPE_AT = 2
_SENDER_AT = HEAD_BYTES - 32  # sender, restarts, random id and counter end the header
_COUNTER_AT = HEAD_BYTES - 8
_EDGES = (0, 1, 2**31, 2**32, 2**63, 2**64 - 1)


class KeylessAttacker:
    """An attacker that captures datagrams and sends daemons replays, forgeries and nonsense.

    Args:
        loop: virtual time.
        rng: the random source of this attacker.
        targets: the hosts.
    """

    def __init__(self, loop: Loop, rng: Random, targets: Sequence[Receiver]) -> None:
        self._loop = loop
        self._rng = rng
        self._targets = targets
        self._captured: list[tuple[bytes, int]] = []  # datagrams and their receivers
        self._recent: deque[tuple[bytes, int]] = deque(maxlen=RECENT)
        self._moments: list[list[tuple[bytes, int]]] = []
        self._seen = 0
        self._running = True
        loop.at(loop.now + INTERVAL_US, self._next)
        loop.at(loop.now + MOMENT_INTERVAL_US, self._remember_moment)

    def stop(self) -> None:
        """Stop sending."""
        self._running = False

    def observe(self, source: int, target: int, datagram: bytes, goes_on: bool) -> None:
        """Capture a datagram; a sample of all so far is remembered, old and new alike."""
        self._seen += 1
        self._recent.append((datagram, target))
        if len(self._captured) < REMEMBERED:
            self._captured.append((datagram, target))
        elif (place := int(self._rng.random() * self._seen)) < REMEMBERED:
            self._captured[place] = (datagram, target)

    def _next(self, _: None) -> None:
        if not self._running:
            return
        self._loop.at(self._loop.now + 1 + self._rng.randrange(2 * INTERVAL_US), self._next)
        if self._moments and self._rng.random() < MOMENT_SHARE:
            for datagram, meant_for in self._rng.choice(self._moments):
                self._targets[meant_for].put(self._loop.now, datagram)
        elif self._captured:
            datagram, meant_for = self._rng.choice(self._rng.choice((self._captured, self._recent)))
            victim = self._rng.randrange(len(self._targets))
            act = self._rng.choice((None, self._spoof, self._craft, self._count_forward))
            if act is not None:
                datagram = act(datagram)
            elif datagram[0] == VERSION and datagram[_SCOPE_AT] and victim != meant_for:
                datagram = Forged(datagram)  # one sealed for a daemon is useless for others
            self._targets[victim].put(self._loop.now, datagram)

    def _remember_moment(self, _: None) -> None:
        """Keep the latest datagrams; once there are many moments, replace a random one."""
        if self._running:
            self._loop.at(self._loop.now + MOMENT_INTERVAL_US, self._remember_moment)
            if len(self._moments) == SCENES:
                del self._moments[self._rng.randrange(SCENES)]
            self._moments.append(list(self._recent))

    def _spoof(self, datagram: bytes) -> bytes:
        """Return the datagram under the name of another sender."""
        other = self._rng.choice(self._captured)[0][_SENDER_AT : _SENDER_AT + 8]
        forged = datagram[:_SENDER_AT] + other + datagram[_SENDER_AT + 8 :]
        return Forged(forged) if forged != datagram else corrupt(self._rng, datagram)

    def _count_forward(self, datagram: bytes) -> bytes:
        """Return the datagram with a higher counter, which would move the receiver's window."""
        counter = _U64.unpack_from(datagram, _COUNTER_AT)[0] + self._rng.randint(1, 2**40)
        number = _U64.pack(counter % 2**64)
        return Forged(datagram[:_COUNTER_AT] + number + datagram[_COUNTER_AT + 8 :])

    def _craft(self, datagram: bytes) -> bytes:
        """Return a true header, and in front of the body a field at the edge of its range."""
        edge = _U64.pack(self._rng.choice(_EDGES))
        at = self._rng.randrange(HEAD_BYTES, max(HEAD_BYTES + 1, len(datagram) - 8))
        forged = datagram[:at] + edge + datagram[at + 8 :]
        return Forged(forged) if forged != datagram else corrupt(self._rng, datagram)


AT_ONCE: Final = 60
SHORT: Final = (0, 1, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 5, HEAD_BYTES + 21)


class LocalUser(RogueProgramsAttack):
    """A local user that connects without rights, and sends invented datagrams."""

    PRINCIPAL = ""
    NAMES: Sequence[str] = ()

    def __init__(self, stage: AttackContext, rng: Random) -> None:
        super().__init__(stage, rng)
        self._keys = KeyRing({1: rng.randbytes(32)}, 1)

    def act(self) -> None:
        """Connect, talk, and send a burst of datagrams."""
        super().act()
        make: Callable[[SimulatedHost], bytes] = self._rng.choice(
            (self._junk, self._headed, self._headed, self._sealed)
        )
        target = self._rng.choice(self._stage.hosts)
        for _ in range(self._rng.randint(1, AT_ONCE)):
            self._inject(target, make(target))

    def _somebody(self) -> tuple[int, Incarnation]:
        return self._rng.choice(list(self._numbers())), self._drawn_start()

    def _junk(self, _: SimulatedHost) -> bytes:
        return self._rng.randbytes(self._rng.choice((*SHORT, self._rng.randrange(2000))))

    def _headed(self, _: SimulatedHost) -> bytes:
        """Return a head that is right as far as outsiders can know it, and no seal."""
        rng = self._rng
        suite = rng.choice((0, 1, 2, self._stage.settings.suite))
        number, start = self._somebody()
        heads = fixed_heads(suite, rng.choice((0, 1, 1, 2)), self._stage.cluster, number, start)
        counter = rng.choice((0, 1, rng.getrandbits(20), 2**63, 2**64 - 1))
        return under_a_head(rng.choice(heads), counter, rng.randbytes(rng.randrange(400)))

    def _sealed(self, target: SimulatedHost) -> bytes:
        """Return a datagram with a seal by a key of the attacker."""
        kind = RingKeySealer if self._stage.settings.suite == SUITE_IDENTITIES else Sealer
        sealer = kind(self._keys, self._stage.cluster, *self._somebody())
        said = Hello(start=self._drawn_start(), asks=1).encode()
        return sealer.seal(said, self._rng.choice(list(Channel)))
