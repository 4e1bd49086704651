"""The fault ``attacker``: somebody on the network who hears and sends everything, without a key.

A replayed datagram may be of an earlier view, and may meet a later start of its receiver, which has
never seen it.
"""

import struct
from collections import deque
from collections.abc import Sequence
from random import Random

from groupcomm.security.layout import HEAD_BYTES, VERSION
from groupcomm.sim.faults.paths import Forged, corrupt
from groupcomm.sim.network.network import Receiver
from groupcomm.sim.virtual_time import SECOND, Loop

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
