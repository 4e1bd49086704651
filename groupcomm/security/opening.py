"""Opening datagrams of suite 1: keys by sender, start, channel and epoch, and replay windows.

Datagrams of a start count only after it has proved that it is sending now: until then there is no
window for it, and any of them might be an old copy. hello.py has the proof; `trust` then begins the
windows.

A receiver moves its replay window only for authentic datagrams, as one forged high counter would
lock the true sender out. Where the seal proves nothing, as others can make it, too, the caller
checks a signature first and then calls `accept_signed`.
"""

import struct
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from groupcomm.config.core import Rekeying
from groupcomm.config.view import Incarnation, incarnation_of
from groupcomm.errors import BadDatagram
from groupcomm.security.keys import KeyRing, derive_key
from groupcomm.security.layout import (
    COUNTER,
    FIXED_BYTES,
    FOR_ALL,
    HEAD_BYTES,
    MAX_DATAGRAM_BYTES,
    PURPOSE,
    SUITE_AES_GCM,
    VERSION,
    Channel,
    Opened,
    ReplayWindow,
    wrong_size,
)
from groupcomm.security.sealing import NONCE_START, PLACE

MAX_PEERS: Final = 2048
"""The starts that a receiver keeps: more than there are daemons, so some of them are over."""

DERIVED_PER_S: Final = 1000
"""Keys derived a second, and at once, for datagrams that may be forged. Deriving costs five times
as much as opening, and anybody can make up starts and epochs; a true daemon repeats its datagrams.
"""

_PLACED: Final = HEAD_BYTES + PLACE.size
_LEAST: Final = _PLACED + 16
_SPLIT = struct.Struct("!BBBH32sQBI")  # head and place; as one: cluster, sender, start
_IDENTITY = struct.Struct("!QQQQ")
_CHANNELS: Final = frozenset(int(channel) for channel in Channel)

Decrypt = Callable[[bytes, memoryview, bytes], bytes]


def split_sealed(datagram: bytes) -> tuple[int, Incarnation, int, int, int]:
    """Return sender, start, counter, channel and key id of a datagram that is long enough."""
    _, _, _, key_id, identity, counter, channel, _ = _SPLIT.unpack_from(datagram)
    _, sender, restarts, random_id = _IDENTITY.unpack(identity)
    return sender, incarnation_of(restarts, random_id), counter, channel, key_id


class ReceiveChannel:
    """One channel of one start: its replay window, and the keys that open it.

    Attributes:
        epoch, key_id, decrypt: the latest key that has opened a datagram; -1 before the first.
        coming: the keys of the next epoch by key id, once a datagram has named it.
        old: the same three values of the previous key, while its packets may be in flight.
        old_until: the time until which `old` is kept.
        failed: the number of seals that did not fit the latest key.
    """

    __slots__ = ("coming", "decrypt", "epoch", "failed", "key_id", "old", "old_until", "window")

    def __init__(self, floor: int) -> None:
        self.window = ReplayWindow(floor)
        self.epoch = self.key_id = -1
        self.decrypt: Decrypt | None = None
        self.coming: dict[int, Decrypt] = {}
        self.old: tuple[int, int, Decrypt] | None = None
        self.old_until = 0.0
        self.failed = 0


class TrustedStart:
    """One start of one daemon that has proved that it sends now."""

    __slots__ = ("incarnation", "lanes", "over", "sender")

    def __init__(self, sender: int, incarnation: Incarnation, floors: Mapping[Channel, int]):
        self.sender = sender
        self.incarnation = incarnation
        self.lanes: dict[int, ReceiveChannel] = {
            ch: ReceiveChannel(floor) for ch, floor in floors.items()
        }
        self.over = False


class Opener:
    """Opens the datagrams that one daemon receives.

    Attributes:
        lacked: the id of a missing key that a datagram has named; anybody can name one.
        now: seconds; the owner sets it.
    """

    __slots__ = (
        "_cluster",
        "_derived",
        "_derived_at",
        "_for_me",
        "_keys",
        "_own",
        "_peers",
        "_rekeying",
        "_unsigned",
        "lacked",
        "now",
    )
    SUITE: ClassVar[int] = SUITE_AES_GCM
    SIGNED: ClassVar[int] = -1
    """The channel whose datagrams count only once their signatures were checked; -1: none."""

    def __init__(
        self,
        keys: KeyRing | None,
        cluster: int,
        own: tuple[int, Incarnation],
        *,
        rekeying: Rekeying | None = None,
    ) -> None:
        """Open datagrams of a cluster, except those of the daemon itself."""
        self._keys: Mapping[int, bytes] = keys.keys if keys is not None else {}
        self._cluster = cluster
        self._own = _IDENTITY.pack(cluster, own[0], own[1].restarts, own[1].random_id)
        self._for_me = PURPOSE + COUNTER.pack(own[0])
        self._rekeying = rekeying or Rekeying()
        self._peers: dict[bytes, TrustedStart] = {}
        self._derived = 0.0  # the number of derived keys, less DERIVED_PER_S for each second
        self._derived_at = 0.0
        self._unsigned: tuple[ReceiveChannel, int, int, int, Decrypt] | None = None
        self.lacked: int | None = None
        self.now = 0.0

    def open_untrusted(self, datagram: bytes) -> Opened:
        """Open one datagram.

        Raises:
            BadDatagram: with the reason short, long, version, suite, cluster, own, key, channel,
                replay, epoch, busy, worn or tag. No other exception, whatever the bytes.
        """
        size = len(datagram)
        if not HEAD_BYTES <= size <= MAX_DATAGRAM_BYTES:
            raise wrong_size(size)
        if datagram[0] != VERSION:
            raise BadDatagram(
                "version", f"a datagram of version {datagram[0]}, where {VERSION} is spoken"
            )
        if datagram[1] != self.SUITE:
            raise BadDatagram(
                "suite", f"a datagram of suite {datagram[1]}, where {self.SUITE} is used"
            )
        if size < _LEAST:
            raise BadDatagram("short", f"a datagram of {size} bytes")
        _, _, scope, key_id, identity, counter, place, epoch = _SPLIT.unpack_from(datagram)
        peer = self._peers.get(identity)
        if peer is None:
            return self._open_unproven(datagram, scope, key_id, identity, counter, place, epoch)
        lane = peer.lanes.get(place)
        if lane is None:
            raise BadDatagram("channel", f"there is no channel {place}")
        self._check_key(key_id)
        if counter <= lane.window.highest and not lane.window.check(counter):
            raise BadDatagram("replay", f"counter {counter} came before, or is too old")
        if place == self.SIGNED:
            packet = self._open_unsigned(peer, lane, datagram, scope, key_id, counter, epoch)
        elif epoch == lane.epoch and key_id == lane.key_id and lane.decrypt is not None:
            packet = self._open(lane, lane.decrypt, datagram, scope)
            lane.window.accept(counter)
        else:
            decrypt = self._another_key(peer, lane, key_id, place, epoch)
            packet = self._open(None, decrypt, datagram, scope)
            lane.window.accept(counter)
            self._advance(lane, key_id, epoch, decrypt)
        return Opened(peer.sender, peer.incarnation, counter, packet, place, key_id)

    def _open_unsigned(
        self,
        peer: TrustedStart,
        lane: ReceiveChannel,
        datagram: bytes,
        scope: int,
        key_id: int,
        counter: int,
        epoch: int,
    ) -> bytes:
        """Open a datagram whose seal proves nothing; move neither window nor epoch."""
        present = epoch == lane.epoch and key_id == lane.key_id and lane.decrypt is not None
        if present and lane.decrypt is not None:
            decrypt = lane.decrypt
        else:
            decrypt = self._another_key(peer, lane, key_id, self.SIGNED, epoch)
        packet = self._open(lane if present else None, decrypt, datagram, scope)
        self._unsigned = lane, counter, key_id, epoch, decrypt
        return packet

    def accept_signed(self) -> None:
        """Move window and epoch for the last datagram, as its sender has signed it."""
        if self._unsigned is not None:
            lane, counter, key_id, epoch, decrypt = self._unsigned
            self._unsigned = None
            lane.window.accept(counter)
            self._advance(lane, key_id, epoch, decrypt)

    def _check_key(self, key_id: int) -> None:
        if key_id not in self._keys:
            self.lacked = key_id
            raise BadDatagram("key", f"key id {key_id} is not in the key ring")

    def _another_key(
        self, peer: TrustedStart, lane: ReceiveChannel, key_id: int, channel: int, epoch: int
    ) -> Decrypt:
        """Return the key of the epoch before, or of a later epoch; never an erased one."""
        if epoch == lane.epoch + 1:
            return self._next_key(peer, lane, key_id, channel)
        if epoch > lane.epoch:
            self._count_derived()
            return self._key(key_id, peer.sender, peer.incarnation, channel, epoch)
        if lane.old is not None and self.now >= lane.old_until:
            lane.old = None
        if lane.old is None or lane.old[:2] != (epoch, key_id):
            raise BadDatagram("epoch", f"the key of epoch {epoch} is erased")
        return lane.old[2]

    def _next_key(
        self, peer: TrustedStart, lane: ReceiveChannel, key_id: int, channel: int
    ) -> Decrypt:
        """Return the key of the next epoch; keep it, as many forgeries must not delay an epoch."""
        decrypt = lane.coming.get(key_id)
        if decrypt is None:
            decrypt = self._key(key_id, peer.sender, peer.incarnation, channel, lane.epoch + 1)
            lane.coming[key_id] = decrypt
        return decrypt

    def _advance(self, lane: ReceiveChannel, key_id: int, epoch: int, decrypt: Decrypt) -> None:
        if epoch <= lane.epoch:
            return  # a late datagram of the previous epoch
        if lane.decrypt is not None:
            lane.old = lane.epoch, lane.key_id, lane.decrypt
            lane.old_until = self.now + 2 * self._rekeying.lifetime_s
        lane.epoch, lane.key_id, lane.decrypt, lane.failed = epoch, key_id, decrypt, 0
        lane.coming.clear()

    def _open_unproven(
        self,
        datagram: bytes,
        scope: int,
        key_id: int,
        identity: bytes,
        counter: int,
        channel: int,
        epoch: int,
    ) -> Opened:
        """Open a datagram of a start that has not proved that it is sending now; keep no state of
        it."""
        self._unsigned = None
        cluster, sender, restarts, random_id = _IDENTITY.unpack(identity)
        if cluster != self._cluster:
            raise BadDatagram("cluster", f"a datagram of the cluster with the number {cluster:x}")
        if identity == self._own:
            raise BadDatagram("own", "a datagram of this daemon itself")
        self._check_key(key_id)
        if channel not in _CHANNELS:
            raise BadDatagram("channel", f"there is no channel {channel}")
        self._count_derived()
        claimed = Incarnation(restarts, random_id)
        packet = self._open(
            None, self._key(key_id, sender, claimed, channel, epoch), datagram, scope
        )
        # Not before: incarnation_of keeps the ones in use, and forgeries would displace them.
        incarnation = incarnation_of(restarts, random_id)
        return Opened(sender, incarnation, counter, packet, channel, key_id, proven=False)

    def _count_derived(self) -> None:
        """Count a derived key; raise BadDatagram if there were too many."""
        gone = (self.now - self._derived_at) * DERIVED_PER_S
        self._derived, self._derived_at = max(0.0, self._derived - gone), self.now
        if self._derived >= DERIVED_PER_S:
            raise BadDatagram(
                "busy", "too many datagrams of unknown starts and epochs come at once"
            )
        self._derived += 1

    def _key(
        self, key_id: int, sender: int, incarnation: Incarnation, channel: int, epoch: int
    ) -> Decrypt:
        secret = self._keys[key_id]
        return AESGCM(
            derive_key(secret, self._cluster, sender, incarnation, channel, epoch)
        ).decrypt

    def _open(
        self, lane: ReceiveChannel | None, decrypt: Decrypt, datagram: bytes, scope: int
    ) -> bytes:
        """Return the packet; a failure counts against the channel's present key, if it is used."""
        if lane is not None and lane.failed >= self._rekeying.failures:
            raise BadDatagram("worn", "too many seals did not fit this key; the next epoch has one")
        head = datagram[:_PLACED]
        context = head + (PURPOSE if scope == FOR_ALL else self._for_me)
        try:
            sealed = memoryview(datagram)[_PLACED:]
            return decrypt(NONCE_START + head[FIXED_BYTES:HEAD_BYTES], sealed, context)
        except InvalidTag:
            if lane is not None:
                lane.failed += 1
        raise BadDatagram("tag", "the seal does not fit the datagram")

    # ---- known starts ----

    def trust(self, sender: int, incarnation: Incarnation, floors: Mapping[Channel, int]) -> bool:
        """Trust a start that has proved that it sends now: accept counters above these.

        Returns:
            Whether another start had to be dropped for it.
        """
        peers = self._peers
        full = len(peers) >= MAX_PEERS
        if full:
            del peers[next((key for key, peer in peers.items() if peer.over), next(iter(peers)))]
        start = incarnation.restarts, incarnation.random_id
        identity = _IDENTITY.pack(self._cluster, sender, *start)
        peers[identity] = TrustedStart(sender, incarnation, floors)
        return full

    def forget(self, sender: int, incarnation: Incarnation) -> None:
        """Note that a start will send no more, so that it is the first to make room for others.

        Its windows stay until then, so that copies of its datagrams are recognized.
        """
        for peer in self._peers.values():
            if peer.sender == sender and peer.incarnation == incarnation:
                peer.over = True

    def tick(self) -> None:
        """Erase keys whose packets cannot be in flight any more."""
        for peer in self._peers.values():
            for lane in peer.lanes.values():
                if lane.old is not None and self.now >= lane.old_until:
                    lane.old = None

    def has(self, key_id: int) -> bool:
        """Return whether it has a key of the ring."""
        return key_id in self._keys

    def use(self, keys: KeyRing) -> None:
        """Open with these keys of the ring alone from now on."""
        self._keys = keys.keys
        if self.lacked in self._keys:
            self.lacked = None
        for peer in self._peers.values():
            for lane in peer.lanes.values():
                lane.coming.clear()
                if lane.key_id not in self._keys:
                    lane.decrypt = None
                if lane.old is not None and lane.old[1] not in self._keys:
                    lane.old = None
