"""Suite 0: a checksum (CRC32C) and counters, against accidents only: any sender can join."""

import struct
from typing import Final

import google_crc32c

from groupcomm.config.view import Incarnation, incarnation_of
from groupcomm.errors import BadDatagram
from groupcomm.security.layout import (
    COUNTER,
    FOR_ALL,
    HEAD,
    HEAD_BYTES,
    MAX_DATAGRAM_BYTES,
    PURPOSE,
    SUITE_NONE,
    VERSION,
    Opened,
    ReplayWindow,
    fixed_heads,
    wrong_size,
)

MAX_PEERS: Final = 1024
"""The starts of daemons that a receiver keeps; each costs a window."""

_SPLIT = struct.Struct("!BBB34sQ")  # the head; as one key: key id, cluster, sender, start
_CRC = struct.Struct("!I")


class PlainSealer:
    """Adds heads and checksums to the packets of one start of one daemon."""

    __slots__ = ("_counter", "_for_all", "_for_one")

    def __init__(
        self, cluster: int, sender: int, incarnation: Incarnation, counter: int = 0
    ) -> None:
        """Start after `counter`, which no datagram of this start has used."""
        self._for_all, self._for_one = fixed_heads(SUITE_NONE, 0, cluster, sender, incarnation)
        self._counter = counter

    def seal(self, packet: bytes, receiver: int | None = None) -> bytes:
        """Return a datagram with a packet and the next counter, for one daemon or for all."""
        self._counter += 1
        counter = COUNTER.pack(self._counter)
        if receiver is None:
            head = self._for_all + counter
            context = head + PURPOSE
        else:
            head = self._for_one + counter
            context = head + PURPOSE + COUNTER.pack(receiver)
        return b"%b%b%b" % (head, packet, _CRC.pack(google_crc32c.value(context + packet)))


class _KnownStart:
    """One start of one daemon, as its datagrams show it."""

    __slots__ = ("incarnation", "sender", "window")

    def __init__(self, sender: int, incarnation: Incarnation) -> None:
        self.sender = sender
        self.incarnation = incarnation
        self.window = ReplayWindow()


class PlainOpener:
    """Removes heads and checksums from the datagrams that one daemon receives."""

    __slots__ = ("_cluster", "_for_me", "_own", "_peers")

    def __init__(self, cluster: int, own: tuple[int, Incarnation]) -> None:
        """Open datagrams of a cluster, except those of the daemon itself."""
        self._cluster = cluster
        self._own = own
        self._for_me = PURPOSE + COUNTER.pack(own[0])
        self._peers: dict[bytes, _KnownStart] = {}

    def open_untrusted(self, datagram: bytes) -> Opened:
        """Open one datagram.

        Raises:
            BadDatagram: with the reason short, long, version, suite, cluster, own, replay, full
                or tag. No other exception, whatever the bytes.
        """
        size = len(datagram)
        if not HEAD_BYTES <= size <= MAX_DATAGRAM_BYTES:
            raise wrong_size(size)
        version, suite, scope, peer_key, counter = _SPLIT.unpack_from(datagram)
        if version != VERSION:
            raise BadDatagram(
                "version", f"a datagram of version {version}, where {VERSION} is spoken"
            )
        if suite != SUITE_NONE:
            raise BadDatagram("suite", f"a datagram of suite {suite}, where {SUITE_NONE} is used")
        known = self._peers.get(peer_key)
        peer = known or self._new_start(datagram)
        if counter <= peer.window.highest and not peer.window.check(counter):
            raise BadDatagram("replay", f"counter {counter} came before, or is too old")
        head, packet = datagram[:HEAD_BYTES], datagram[HEAD_BYTES : -_CRC.size]
        context = head + (PURPOSE if scope == FOR_ALL else self._for_me)
        checksum = _CRC.pack(google_crc32c.value(context + packet))
        if size < HEAD_BYTES + _CRC.size or datagram[-_CRC.size :] != checksum:
            raise BadDatagram("tag", "the checksum does not fit the datagram")
        peer.window.accept(counter)
        if known is None:  # not before: forgeries would displace the ones in use
            peer.incarnation = incarnation_of(peer.incarnation.restarts, peer.incarnation.random_id)
            self._peers[peer_key] = peer
        return Opened(peer.sender, peer.incarnation, counter, packet)

    def forget(self, sender: int, incarnation: Incarnation) -> None:
        """Drop a start of a daemon that will send no more."""
        for key, peer in list(self._peers.items()):
            if peer.sender == sender and peer.incarnation == incarnation:
                del self._peers[key]

    def _new_start(self, datagram: bytes) -> _KnownStart:
        """Return the state of a new start; it is kept only if the datagram's checksum fits."""
        _, _, _, _, cluster, sender, restarts, random_id, _ = HEAD.unpack_from(datagram)
        if cluster != self._cluster:
            raise BadDatagram("cluster", f"a datagram of the cluster with the number {cluster:x}")
        incarnation = Incarnation(restarts, random_id)
        if (sender, incarnation) == self._own:
            raise BadDatagram("own", "a datagram of this daemon itself")
        if len(self._peers) >= MAX_PEERS:
            raise BadDatagram("full", f"{MAX_PEERS} starts of daemons are known already")
        return _KnownStart(sender, incarnation)
