"""Sealing: every datagram proves who sent it, in which start, and that nobody changed it.

A datagram is a head in the clear and a sealed packet. The head is authenticated with it::

    version u8, suite u8, scope u8, key id u16, cluster u64, sender u64,
    restarts u64, random id u64, counter u64                       45 bytes

Scope 0 is for whoever hears it, scope 1 for one daemon, whose number is authenticated but not
sent: else a captured token could be given to a daemon that it was not meant for, whose replay
window has never seen it.

Suite 1 is AES-256-GCM (NIST SP 800-38D) with the counter as nonce; suite 0 adds a CRC32C and
protects against accidents only. Counters rise by one and belong to one key, so no nonce repeats.
A receiver moves its replay window only for datagrams that have proved authentic: one forged high
counter would lock the true sender out.
"""

import struct
from collections.abc import Callable
from typing import Final

import google_crc32c
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from groupcomm.config.view import Incarnation, incarnation_of
from groupcomm.errors import BadDatagram, ConfigError
from groupcomm.security.keys import KeyRing, derive_key
from groupcomm.security.replay import ReplayWindow

VERSION: Final = 1
SUITE_NONE: Final = 0
SUITE_AES_GCM: Final = 1
MAX_DATAGRAM_BYTES: Final = 65_507
MAX_PEERS: Final = 1024
"""Starts of daemons that a receiver remembers; each costs a key and a window."""

HEAD_BYTES: Final = 45
SEAL_BYTES: Final = 16
"""What a seal adds to head and packet, at most."""

_HEAD = struct.Struct("!BBBHQQQQQ")
_SPLIT = struct.Struct("!BBB34sQ")  # the same; as one key: key id, cluster, sender, start
_FIXED: Final = 37
_SCOPE: Final = 2
_FOR_ALL: Final = 0
_FOR_ONE: Final = 1
_COUNTER = struct.Struct("!Q")
_NONCE_START: Final = bytes(4)
_CRC = struct.Struct("!I")
_PURPOSE: Final = b"groupcomm datagram v1"


class Sealer:
    """Seals what one start of one daemon sends."""

    __slots__ = ("_counter", "_encrypt", "_for_all", "_for_one")

    def __init__(
        self,
        suite: int,
        keys: KeyRing | None,
        cluster: int,
        sender: int,
        incarnation: Incarnation,
        counter: int = 0,
    ) -> None:
        """Start after `counter`, which no datagram of this start has used.

        Raises:
            ConfigError: an unknown suite, or AES-GCM without keys.
        """
        key_id = 0
        self._encrypt: Callable[[bytes, bytes, bytes], bytes] | None = None
        if suite == SUITE_AES_GCM:
            if keys is None:
                raise ConfigError("suite 1 (AES-256-GCM) needs a key ring; give one, or suite 0")
            key_id = keys.active
            key = derive_key(keys.keys[key_id], cluster, sender, incarnation)
            self._encrypt = AESGCM(key).encrypt
        elif suite != SUITE_NONE:
            raise ConfigError(f"suite is {suite}; it must be 0 (CRC32C) or 1 (AES-256-GCM)")
        head = _HEAD.pack(
            VERSION,
            suite,
            _FOR_ALL,
            key_id,
            cluster,
            sender,
            incarnation.restarts,
            incarnation.random_id,
            0,
        )
        self._for_all = head[:_FIXED]
        self._for_one = b"%b%c%b" % (head[:_SCOPE], _FOR_ONE, head[_SCOPE + 1 : _FIXED])
        self._counter = counter

    def seal(self, packet: bytes, receiver: int | None = None) -> bytes:
        """A datagram with this packet; each has the next counter.

        Args:
            packet: the content.
            receiver: the number of the one daemon that may open it; None for all that hear it.
        """
        self._counter += 1
        counter = _COUNTER.pack(self._counter)
        if receiver is None:
            head = self._for_all + counter
            context = head + _PURPOSE
        else:
            head = self._for_one + counter
            context = head + _PURPOSE + _COUNTER.pack(receiver)
        if self._encrypt is None:
            return b"%b%b%b" % (head, packet, _CRC.pack(google_crc32c.value(context + packet)))
        return head + self._encrypt(_NONCE_START + counter, packet, context)


class Opened:
    """What a datagram held.

    Attributes:
        sender: the 64 bits of its daemon's name.
        incarnation: which start of that daemon.
        counter: of the datagram.
        packet: its content, authentic.
    """

    __slots__ = ("counter", "incarnation", "packet", "sender")

    def __init__(self, peer: "_Peer", counter: int, packet: bytes) -> None:
        self.sender = peer.sender
        self.incarnation = peer.incarnation
        self.counter = counter
        self.packet = packet


class _Peer:
    """One start of one daemon, as its datagrams have proved."""

    __slots__ = ("decrypt", "incarnation", "sender", "window")

    def __init__(
        self,
        sender: int,
        incarnation: Incarnation,
        decrypt: Callable[[bytes, memoryview, bytes], bytes] | None,
    ) -> None:
        self.sender = sender
        self.incarnation = incarnation
        self.decrypt = decrypt
        self.window = ReplayWindow()


class Opener:
    """Opens what one daemon receives.

    Attributes:
        failed_opens: datagrams with a wrong seal.
    """

    __slots__ = ("_cluster", "_for_me", "_keys", "_own", "_peers", "_suite", "failed_opens")

    def __init__(
        self, suite: int, keys: KeyRing | None, cluster: int, own: tuple[int, Incarnation]
    ) -> None:
        """Open datagrams of this suite and cluster, but not those of the daemon itself."""
        self._suite = suite
        self._keys = keys
        self._cluster = cluster
        self._own = own
        self._for_me = _PURPOSE + _COUNTER.pack(own[0])
        self._peers: dict[bytes, _Peer] = {}
        self.failed_opens = 0

    def open_untrusted(self, datagram: bytes) -> Opened:
        """Open one datagram.

        Raises:
            BadDatagram: with the reason short, long, version, suite, cluster, key, own, replay
                or tag. No other exception, whatever the bytes.
        """
        size = len(datagram)
        if not HEAD_BYTES <= size <= MAX_DATAGRAM_BYTES:
            raise BadDatagram("short" if size < HEAD_BYTES else "long", f"{size} bytes")
        version, suite, scope, peer_key, counter = _SPLIT.unpack_from(datagram)
        if version != VERSION:
            raise BadDatagram("version", str(version))
        if suite != self._suite:
            raise BadDatagram("suite", str(suite))
        known = self._peers.get(peer_key)
        peer = known or self._meet(datagram)
        if not peer.window.check(counter):
            raise BadDatagram("replay", f"counter {counter}")
        packet = self._open(peer, datagram, scope)
        peer.window.accept(counter)
        if known is None:
            self._peers[peer_key] = peer
        return Opened(peer, counter, packet)

    def forget(self, sender: int, incarnation: Incarnation) -> None:
        """Drop a start of a daemon that will send no more."""
        for key, peer in list(self._peers.items()):
            if peer.sender == sender and peer.incarnation == incarnation:
                del self._peers[key]

    def _meet(self, datagram: bytes) -> _Peer:
        """A peer not heard before; it is kept only if this datagram proves authentic."""
        _, _, _, key_id, cluster, sender, restarts, random_id, _ = _HEAD.unpack_from(datagram)
        if cluster != self._cluster:
            raise BadDatagram("cluster", f"{cluster:x}")
        incarnation = incarnation_of(restarts, random_id)
        if (sender, incarnation) == self._own:
            raise BadDatagram("own", "a datagram of this daemon")
        if self._suite == SUITE_NONE:
            key = None
        else:
            key = self._keys.keys.get(key_id) if self._keys is not None else None
            if key is None:
                raise BadDatagram("key", f"key id {key_id} is not in the key ring")
        if len(self._peers) >= MAX_PEERS:
            raise BadDatagram("key", f"{MAX_PEERS} starts of daemons are known already")
        if key is None:
            return _Peer(sender, incarnation, None)
        derived = derive_key(key, cluster, sender, incarnation)
        return _Peer(sender, incarnation, AESGCM(derived).decrypt)

    def _open(self, peer: _Peer, datagram: bytes, scope: int) -> bytes:
        head = datagram[:HEAD_BYTES]
        context = head + (_PURPOSE if scope == _FOR_ALL else self._for_me)
        if peer.decrypt is None:
            packet, end = datagram[HEAD_BYTES : -_CRC.size], datagram[-_CRC.size :]
            long_enough = len(datagram) >= HEAD_BYTES + _CRC.size
            if long_enough and end == _CRC.pack(google_crc32c.value(context + packet)):
                return packet
        else:
            try:
                sealed = memoryview(datagram)[HEAD_BYTES:]
                return peer.decrypt(_NONCE_START + head[_FIXED:], sealed, context)
            except InvalidTag:
                pass  # counted below, with datagrams too short for a tag or a sum
        self.failed_opens += 1
        raise BadDatagram("tag", "the seal does not fit")
