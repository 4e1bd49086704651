"""Suite 2: datagrams open with a secret of the sender, which it gives to daemons that it trusts.

Keys come from the ring's key and the secret of the sender (exchange.py) together, so neither one is
enough. An epoch names the secret: its upper 20 bits are the secret's number, from 1.

Hellos are sealed with the ring's key alone, and have epochs of their own: else each view would
bring one, and a sender of random epochs could keep a receiver busy with their keys. A holder of the
key file can seal a hello in any name, so nothing moves before its signature was checked.

Control messages are sealed twice, with the ring's key around it: so daemons that do not know each
other's secrets yet learn from each other that they exist. Receivers believe nothing else of them.
"""

from typing import ClassVar, Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from groupcomm.config.core import Rekeying
from groupcomm.config.view import Incarnation
from groupcomm.errors import BadDatagram
from groupcomm.security.exchange import Exchange
from groupcomm.security.identity import StartId
from groupcomm.security.keys import KeyRing, derive_key
from groupcomm.security.layout import HEAD_BYTES, SEAL_BYTES, SUITE_IDENTITIES, Channel, Opened
from groupcomm.security.opening import Decrypt, Opener, ReceiveChannel, TrustedStart, split_sealed
from groupcomm.security.sealing import Encrypt, Sealer
from groupcomm.wire.hello import INTRODUCTION_BYTES
from groupcomm.wire.packet import PacketKind

EPOCH_BITS: Final = 12
"""The bits of an epoch's number that count the epochs of one secret."""

TAG_BYTES: Final = 16
_CONTROL: Final = bytes((PacketKind.CONTROL,))

LEAST_CONTROL_BYTES: Final = INTRODUCTION_BYTES - TAG_BYTES
"""The least size of a padded control message, so that its answer is no longer (the heads are
alike).
"""

DATAGRAM_BYTES: Final = HEAD_BYTES + INTRODUCTION_BYTES + SEAL_BYTES
"""The size of a sealed introduction."""


class _UnknownSecret(Exception):
    """The outer seal is valid, and the secret of the inner one is missing here."""


def fill(packet: bytes) -> bytes:
    """Pad a control message to the length of its answer, at least.

    The size of the padding replaces its first byte, which the channel makes redundant.
    """
    filling = max(0, min(255, LEAST_CONTROL_BYTES - len(packet)))
    return b"%c%b%b" % (filling, packet[1:], bytes(filling))


def unfill(filled: bytes) -> bytes:
    """Return a control message without its padding."""
    return _CONTROL + filled[1 : len(filled) - filled[0]] if filled else b""


def _twice(outer: Encrypt, inner: Encrypt) -> Encrypt:
    def encrypt(nonce: bytes, packet: bytes, context: bytes) -> bytes:
        return outer(nonce, inner(nonce, fill(packet), context), context)

    return encrypt


def _opened_twice(outer: Decrypt, inner: Decrypt | None) -> Decrypt:
    def decrypt(nonce: bytes, sealed: memoryview, context: bytes) -> bytes:
        kept = outer(nonce, sealed, context)
        if inner is None:
            raise _UnknownSecret
        return unfill(inner(nonce, memoryview(kept), context))

    return decrypt


class SecretSealer(Sealer):
    """Seals with a secret of the sender."""

    __slots__ = ("_hello_epoch", "_secret")
    SUITE: ClassVar[int] = SUITE_IDENTITIES

    def __init__(
        self,
        keys: KeyRing | None,
        cluster: int,
        sender: int,
        incarnation: Incarnation,
        exchange: Exchange,
        *,
        counter: int = 0,
        rekeying: Rekeying | None = None,
        now: float = 0.0,
    ) -> None:
        """Make a Sealer with the secret of the exchange that seals now."""
        self._secret = exchange.secret
        self._hello_epoch = -1
        super().__init__(
            keys, cluster, sender, incarnation, counter=counter, rekeying=rekeying, now=now
        )
        self.change(exchange)

    def use(self, keys: KeyRing) -> None:
        """Seal with the active one of these keys from now on, and the present secret."""
        if keys.active != self.key_id:
            self._hello_epoch += 1
        super().use(keys)

    def _begin_epoch(self) -> None:
        hello = self._lanes[Channel.HELLO]
        if hello.counter >= hello.limit:
            self._hello_epoch += 1
        super()._begin_epoch()

    def _epoch_of(self, channel: Channel) -> int:
        return self._hello_epoch if channel is Channel.HELLO else self.epoch

    def change(self, exchange: Exchange) -> None:
        """Seal with another secret of the exchange from now on."""
        self._secret = exchange.secret
        self.epoch = (exchange.sealing << EPOCH_BITS) - 1
        self._begin_epoch()

    def _encrypt(self, secret: bytes, channel: Channel, epoch: int) -> Encrypt:
        if channel is Channel.HELLO:
            return super()._encrypt(secret, channel, epoch)
        inner = super()._encrypt(secret + self._secret, channel, epoch)
        if channel is Channel.CONTROL:
            return _twice(super()._encrypt(secret, channel, epoch), inner)
        return inner


class SecretOpener(Opener):
    """Opens the datagrams of senders that have given it their secrets."""

    __slots__ = ("_exchange", "_turns")
    SUITE: ClassVar[int] = SUITE_IDENTITIES
    SIGNED: ClassVar[int] = Channel.HELLO

    def __init__(
        self,
        keys: KeyRing | None,
        cluster: int,
        own: StartId,
        exchange: Exchange,
        rekeying: Rekeying,
    ) -> None:
        """Open datagrams of a cluster with the secrets of the exchange."""
        super().__init__(keys, cluster, own, rekeying=rekeying)
        self._exchange = exchange
        # The secrets that a start has sealed with, each since when; the first is the oldest in use.
        self._turns: dict[StartId, list[tuple[int, float]]] = {}

    def open_untrusted(self, datagram: bytes) -> Opened:
        """Open one datagram; without its secret open the outer seal only, and return it as
        unproven.

        Raises:
            BadDatagram: as Opener, or unproven. No other exception, whatever the bytes.
        """
        try:
            return super().open_untrusted(datagram)
        except _UnknownSecret:
            sender, incarnation, counter, channel, key_id = split_sealed(datagram)
            return Opened(sender, incarnation, counter, _CONTROL, channel, key_id, proven=False)

    def _another_key(
        self, peer: TrustedStart, lane: ReceiveChannel, key_id: int, channel: int, epoch: int
    ) -> Decrypt:
        """See Opener; derive the key of the first epoch of each known secret once."""
        number, later = epoch >> EPOCH_BITS, epoch & (2**EPOCH_BITS - 1)
        if channel == Channel.HELLO or epoch <= lane.epoch or later:
            return super()._another_key(peer, lane, key_id, channel, epoch)
        start = peer.sender, peer.incarnation
        if self._exchange.secret_of(start, number) is None:
            return super()._another_key(peer, lane, key_id, channel, epoch)
        name = number << 16 | key_id
        decrypt = lane.coming.get(name)
        if decrypt is None:
            decrypt = lane.coming[name] = self._key(key_id, *start, channel, epoch)
        return decrypt

    def _key(
        self, key_id: int, sender: int, incarnation: Incarnation, channel: int, epoch: int
    ) -> Decrypt:
        if channel == Channel.HELLO:
            return super()._key(key_id, sender, incarnation, channel, epoch)
        secret = self._exchange.secret_of((sender, incarnation), epoch >> EPOCH_BITS)
        inner = None
        if secret is not None:
            place = self._cluster, sender, incarnation, channel, epoch
            inner = AESGCM(derive_key(self._keys[key_id] + secret, *place)).decrypt
        if channel == Channel.CONTROL:
            return _opened_twice(super()._key(key_id, sender, incarnation, channel, epoch), inner)
        if inner is None:
            raise BadDatagram("unproven", "its sender has not given this daemon its secret")
        return inner

    def tick(self) -> None:
        """Erase keys and secrets whose datagrams cannot be in flight any more."""
        super().tick()
        before, self._turns = self._turns, {}
        for peer in self._peers.values():
            start = peer.sender, peer.incarnation
            lanes = [lane for place, lane in peer.lanes.items() if place != Channel.HELLO]
            latest = max(lane.epoch for lane in lanes) >> EPOCH_BITS
            turns = self._turns[start] = before.get(start, [])
            if not turns or latest > turns[-1][0]:
                turns.append((latest, self.now))
            self._erase_before(self._oldest_in_use(turns), start, lanes)

    def _oldest_in_use(self, turns: list[tuple[int, float]]) -> int:
        """Drop the turns that a later one has made old, however fast they follow each other."""
        turned_by = self.now - 2 * self._rekeying.lifetime_s
        while len(turns) > 1 and turns[1][1] <= turned_by:
            del turns[0]
        return turns[0][0] if turns[0][1] <= turned_by else -1

    def _erase_before(self, number: int, start: StartId, lanes: list[ReceiveChannel]) -> None:
        self._exchange.erase_before(start, number)
        for lane in lanes:
            if lane.epoch >> EPOCH_BITS < number:
                lane.decrypt = None

    def forget_daemon(self, number: int) -> None:
        """Open no datagram of any start of a daemon from now on."""
        for identity in [key for key, peer in self._peers.items() if peer.sender == number]:
            del self._peers[identity]
