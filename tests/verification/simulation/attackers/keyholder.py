"""An attacker with the ring's key file, and without an identity: suite 2 holds against it.

The attacker opens whatever the file's key opens, so it can read introductions, and it seals any
packet in any name. It tries to read everything that it hears, with the key and what the key
reveals.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, ClassVar, Final

import attrs

from groupcomm.config.core import Rekeying
from groupcomm.config.view import Incarnation
from groupcomm.errors import BadDatagram
from groupcomm.names import daemon_number
from groupcomm.security.identity import Roll, Signer, public_of
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import SUITE_IDENTITIES, Channel
from groupcomm.security.opening import Opener
from groupcomm.security.sealing import Sealer
from groupcomm.security.secret_sealing import SecretOpener
from groupcomm.sim.virtual_time import SECOND
from groupcomm.wire.eviction import EVICTION_BYTES
from groupcomm.wire.hello import (
    SIGNATURE_BYTES,
    SIGNED_BYTES,
    WRAP_BYTES,
    Hello,
    Introduction,
    decode_introduction_untrusted,
)
from groupcomm.wire.packet import KEY_BYTES, PacketKind
from tests.verification.simulation.attackers.attack import (
    Attack,
    AttackContext,
    SeenDatagram,
    seen_in,
)
from tests.verification.simulation.host import VerificationHost

REMEMBERED: Final = 300
MOST_AT_ONCE: Final = 12
"""Datagrams in one go: with two goes in a fifteenth of a second fewer signatures than a daemon
looks at in a second. Who forges more delays what is genuine; docs/security.md says so."""

READ_SHARE: Final = 0.05
"""The share of datagrams that it tries to read."""

FAR: Final = (2**31, 2**32, 2**63, 2**64 - 2)
"""The least of the counters that no daemon reaches."""

_RING_PACKETS: Final = (
    PacketKind.TOKEN,
    PacketKind.DATA,
    PacketKind.REST,
    PacketKind.REQUEST,
    PacketKind.HELD,
)
_ZERO: Final = bytes(32)


class RingKeySealer(Sealer):
    """A sealer of suite 2 that has only the ring's key."""

    SUITE: ClassVar[int] = SUITE_IDENTITIES


class RingKeyOpener(Opener):
    """An opener of what the ring's key alone has sealed: introductions."""

    SUITE: ClassVar[int] = SUITE_IDENTITIES


class Guess:
    """An exchange for guesses: it tries one secret for everything."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret

    def secret_of(self, start: object, number: int) -> bytes:
        """Return the secret to try."""
        return self.secret


class KeyHolder(Attack):
    """An attacker that has the ring's key, and hears and sends everything.

    Attributes:
        read: the number of datagrams that it opened: introductions, which the key reveals.
    """

    def __init__(self, stage: AttackContext, rng: Random) -> None:
        super().__init__(stage, rng)
        keys = stage.hosts[0].keys
        assert keys is not None, "there is no ring key"
        self._keys: KeyRing = keys
        self._nobody = 0, Incarnation(0, 0)
        self._private = rng.randbytes(32)
        self._heard: deque[SeenDatagram] = deque(maxlen=REMEMBERED)
        self._introductions: deque[tuple[SeenDatagram, Introduction, bytes]] = deque(
            maxlen=REMEMBERED
        )
        self._starts: dict[int, list[Incarnation]] = {}
        self._guesses: deque[bytes] = deque((b"", _ZERO), maxlen=8)
        self.read = 0

    def start(self) -> None:
        """Begin to listen and to send."""
        self._stage.network.observers.append(self._observe)
        super().start()

    # ---- what the attacker hears ----

    def _observe(self, source: int, target: int, datagram: bytes, goes_on: bool) -> None:
        seen = seen_in(datagram, target) if self._running else None
        if seen is None:
            return
        starts = self._starts.setdefault(seen.sender, [])
        if seen.start not in starts:
            starts.append(seen.start)
        self.listen(source, seen)

    def listen(self, source: int, seen: SeenDatagram) -> None:
        """Remember some datagrams, and try to read them."""
        if self._rng.random() < READ_SHARE or seen.channel == Channel.HELLO:
            self._heard.append(seen)
            self._open(seen)

    def _open(self, seen: SeenDatagram) -> None:
        host = self._stage.hosts[seen.target]
        own = daemon_number(host.name), Incarnation(0, 0)
        now = self._stage.loop.now / SECOND
        if seen.channel == Channel.HELLO:
            opener = RingKeyOpener(self._keys, self._stage.cluster, own)
            opener.now = now
            opened = opener.open_untrusted(seen.datagram)
            if len(opened.packet) == EVICTION_BYTES:
                self.read += 1  # a notice says what the attacker knows, and only to the evicted one
                return
            told, signature = decode_introduction_untrusted(opened.packet)
            self._introductions.append((seen, told, signature))
            self._guesses.append(self._rng.choice((told.public, told.wrap[:32], told.wrap[4:36])))
            self.read += 1
            return
        for secret in self._guesses:
            guess: Any = Guess(secret)
            thief = SecretOpener(self._keys, self._stage.cluster, own, guess, Rekeying())
            thief.now = now
            try:
                thief.open_untrusted(seen.datagram)
            except BadDatagram:
                continue
            self._breach(
                f"an attacker with the ring's key has opened a datagram of {host.name}'s ring"
            )

    # ---- what the attacker sends ----

    def act(self) -> None:
        """Send some forgeries to one daemon or to all."""
        if not self._starts:
            return
        act = self._rng.choice(self.ways())
        for _ in range(self._rng.randint(1, MOST_AT_ONCE)):
            target = self._rng.choice(self._stage.hosts)
            datagram = act(target)
            if datagram is not None:
                self._inject(target, datagram)

    def ways(self) -> Sequence[Callable[[VerificationHost], bytes | None]]:
        """Return the ways of attack."""
        return (
            self._introduce,
            self._introduce,
            self._alter,
            self._alter,
            self._say_control,
            self._rewrap,
            self._say_on_the_ring,
        )

    def _sealer(self, claimed: tuple[int, Incarnation], epoch: int, counter: int) -> Sealer:
        """Return a sealer for the next datagram of a start, with this counter, in an epoch."""
        sealer = RingKeySealer(
            self._keys, self._stage.cluster, *claimed, counter=counter - 1, rekeying=Rekeying()
        )
        secret = self._keys.keys[self._keys.active]
        for channel, lane in sealer._lanes.items():
            lane.epoch = epoch
            lane.place = lane.place[:1] + epoch.to_bytes(4, "big")
            lane.encrypt = type(sealer)._encrypt(sealer, secret, channel, epoch)
        return sealer

    def _claimed(self, target: VerificationHost) -> tuple[int, Incarnation]:
        """Return a daemon whose name the target may believe: mostly a running start."""
        number = self._rng.choice(list(self._starts))
        if self._rng.random() < 0.1:
            number = daemon_number(self._rng.choice(self._stage.hosts).name)
        starts = self._starts.get(number, [])
        if not starts or self._rng.random() < 0.15:
            return number, self._drawn_start()
        return number, self._rng.choice((starts[-1], self._rng.choice(starts)))

    def _start_of(self, target: VerificationHost) -> Incarnation:
        starts = self._starts.get(daemon_number(target.name), [])
        return starts[-1] if starts else self._drawn_start()

    def _counter(self, claimed: tuple[int, Incarnation], channel: int) -> int:
        """Return a counter near those that were heard, or far beyond them."""
        heard = [s.counter for s in self._heard if (s.sender, s.start) == claimed]
        near = max(heard, default=0) + self._rng.randint(1, 5000)
        return self._rng.choice((near, near, max(heard, default=0) + 1, *FAR))

    def _epoch(self) -> int:
        return self._rng.choice((0, 0, 0, 1, 7, 1 << 12, 3 << 12, 2**31, 2**32 - 1))

    def _introduce(self, target: VerificationHost) -> bytes:
        """Return an introduction of any daemon to the target, with a wrong signature."""
        rng, claimed = self._rng, self._claimed(target)
        told = Introduction(
            hello=Hello(
                start=self._start_of(target),
                asks=rng.choice((0, 1, rng.getrandbits(16))),
                answers=rng.choice((0, 1, 2, 3, rng.getrandbits(4))),
                counters=(rng.choice(FAR), rng.randint(0, 9), rng.choice(FAR)),
                seals=rng.choice((0, 1, 1, 2, 65_535)),
            ),
            view=self._view(),
            pair=rng.choice((1, 2, 2**32 - 1)),
            public=rng.choice((rng.randbytes(32), _ZERO, *self._publics())),
            wrapped_for=rng.randbytes(8),
            wrap=rng.randbytes(WRAP_BYTES),
            has=rng.choice((0, 1, 5, 2**32 - 1)),
            known=rng.choice((0, 1, 2**32 - 1)),
        )
        counter = self._counter(claimed, Channel.HELLO)
        said = told.encode() + self._signature(told, claimed, target, counter)
        return self._sealer(claimed, self._epoch(), counter).seal(
            said, Channel.HELLO, daemon_number(target.name)
        )

    def _signature(
        self,
        told: Introduction,
        claimed: tuple[int, Incarnation],
        target: VerificationHost,
        counter: int,
    ) -> bytes:
        """Return a signature of nobody, of the attacker, or of a daemon for something else."""
        rng, lot = self._rng, self._rng.random()
        if lot < 0.3 or not self._introductions:
            return rng.choice((bytes(SIGNATURE_BYTES), rng.randbytes(SIGNATURE_BYTES)))
        if lot < 0.6:
            return rng.choice(self._introductions)[2]
        roll = Roll({"himself": public_of(self._private)})
        signer = Signer(self._private, roll, self._stage.cluster, claimed)
        return signer.sign(told.encode(), daemon_number(target.name), counter)

    def _view(self) -> bytes:
        views = [told.view for _, told, _ in self._introductions]
        return self._rng.choice((*views[-3:], bytes(KEY_BYTES)))

    def _publics(self) -> list[bytes]:
        return [told.public for _, told, _ in list(self._introductions)[-3:]]

    def _alter(self, target: VerificationHost) -> bytes | None:
        """Return a true statement of a daemon, under another counter, for another daemon, or
        changed."""
        if not self._introductions:
            return None
        rng = self._rng
        seen, told, signature = rng.choice(self._introductions)
        changes: tuple[dict[str, Any], ...] = (
            {},
            {},
            {"pair": told.pair + 1, "public": public_of(self._private)},
            {"has": told.has + 1},
            {"known": 0},
            {"view": bytes(KEY_BYTES)},
            {"hello": attrs.evolve(told.hello, start=self._start_of(target))},
            {"hello": attrs.evolve(told.hello, answers=told.hello.answers + 1)},
        )
        change = rng.choice(changes)
        said = attrs.evolve(told, **change).encode() + signature
        claimed = rng.choice(((seen.sender, seen.start), self._claimed(target)))
        counter = rng.choice((seen.counter + 1, self._counter(claimed, Channel.HELLO)))
        if counter == seen.counter:
            counter += 1  # otherwise it might be a copy, which is genuine
        return self._sealer(claimed, self._epoch(), counter).seal(
            said, Channel.HELLO, daemon_number(target.name)
        )

    def _say_control(self, target: VerificationHost) -> bytes:
        """Return a control message under a valid outer seal, with no inner one, or the file
        key's."""
        claimed = self._claimed(target)
        counter, epoch = self._counter(claimed, Channel.CONTROL), self._epoch()
        said = bytes((PacketKind.CONTROL,)) + self._view() + self._rng.randbytes(300)
        if self._rng.random() < 0.5:
            said = bytes((0,)) + said[1:] + bytes(SIGNED_BYTES)
        receiver = self._rng.choice((None, daemon_number(target.name)))
        return self._sealer(claimed, epoch, counter).seal(said, Channel.CONTROL, receiver)

    def _rewrap(self, target: VerificationHost) -> bytes | None:
        """Return a packet of a daemon for its trusted daemons, under another outer seal."""
        heard = [seen for seen in self._heard if seen.channel == Channel.CONTROL and seen.for_all]
        if not heard:
            return None
        seen = self._rng.choice(heard)
        epoch = int.from_bytes(seen.datagram[46:50], "big")
        opener = RingKeyOpener(self._keys, self._stage.cluster, self._nobody)
        try:
            inner = opener.open_untrusted(seen.datagram).packet
        except BadDatagram:
            return None
        claimed = self._rng.choice(((seen.sender, seen.start), self._claimed(target)))
        counter = self._counter(claimed, Channel.CONTROL)
        receiver = self._rng.choice((None, daemon_number(target.name)))
        return self._sealer(claimed, epoch, counter).seal(inner, Channel.CONTROL, receiver)

    def _say_on_the_ring(self, target: VerificationHost) -> bytes:
        """Return a token, or data, sealed with the file's key alone."""
        claimed = self._claimed(target)
        channel = self._rng.choice((Channel.RING, Channel.RING, Channel.LINK))
        said = bytes((self._rng.choice(_RING_PACKETS),)) + self._view() + self._rng.randbytes(80)
        epoch, counter = self._epoch(), self._counter(claimed, channel)
        receiver = self._rng.choice((None, daemon_number(target.name)))
        return self._sealer(claimed, epoch, counter).seal(said, channel, receiver)
