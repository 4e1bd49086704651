"""Segmentation: which datagrams the shell cuts into segments, and how large bundles may be.

Pure. Only daemons of the own ring get any, in views whose members all join them: links between
sites have fragments of their own (link/path_mtu.py). See wire/segments.py.
"""

from collections.abc import Callable
from typing import Final

import attrs

from groupcomm.config.versions import SEGMENTS
from groupcomm.config.view import View
from groupcomm.stream.packer import bundle_room
from groupcomm.stream.packet_size import SEALED_BYTES, PacketSize
from groupcomm.wire.data import DataPacket

BUNDLE_PACKET_BYTES: Final = 30_000
"""A bundle fills at most a packet of this size: it is not cut again where segments are lost."""

MOST_KEPT: Final = 64
"""The large datagrams that are kept to be sent again, the latest ones."""

MOST_SENDS: Final = 6
"""A packet is sealed anew after its datagram was sent so often, as a receiver may think it old."""


@attrs.frozen
class Segmentation:
    """The datagrams that go in segments.

    Attributes:
        names: the daemons that join segments.
        datagram_bytes: larger datagrams for these daemons are cut into segments of this size.
    """

    names: frozenset[str]
    datagram_bytes: int


class Segments:
    """The segments that one daemon sends.

    Args:
        packet_limit: the bytes of one datagram's packet, before sealing.
        name: the name of the daemon.

    Attributes:
        size: the sizes of packets and datagrams.
    """

    __slots__ = ("_kept", "_kept_bytes", "_me", "_names", "_packet_limit", "_told", "size")

    def __init__(self, packet_limit: int, name: str) -> None:
        self._packet_limit = packet_limit
        self._me = name
        self._kept_bytes = 0
        self._kept: dict[tuple[int, int], tuple[bytes, int]] = {}  # datagram, times it was sent
        self._names = frozenset[str]()
        self.size = PacketSize(packet_limit)
        self._told = Segmentation(self._names, self.size.datagram_bytes)

    def begin_view(self, view: View) -> int:
        """Begin a view; return the bytes of a packet that one bundle of a new session may fill."""
        self._kept.clear()
        joins = view.versions.features & SEGMENTS
        me = next(daemon for daemon in view.daemons if daemon.name == self._me)
        self._names = frozenset(view.ring_names(me) if joins else ()) - {self._me}
        return bundle_room(min(view.data_limit, max(self._packet_limit, BUNDLE_PACKET_BYTES)))

    def seal(self, packet: DataPacket, seal: Callable[[None, bytes], bytes]) -> bytes:
        """Return a datagram with a packet for the ring; a large one may be the same again.

        Then a receiver that has got some of its segments only needs the others.
        """
        raw = packet.raw
        if len(raw) + SEALED_BYTES <= self.size.datagram_bytes or not self._names:
            return seal(None, raw)
        if self._kept_bytes != self.size.datagram_bytes:  # its segments would be others
            self._kept_bytes = self.size.datagram_bytes
            self._kept.clear()
        key = packet.ring, packet.number
        datagram, sends = self._kept.pop(key, (b"", MOST_SENDS))
        if sends >= MOST_SENDS:
            datagram, sends = seal(None, raw), 0
            if len(self._kept) >= MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = datagram, sends + 1
        return datagram

    def pop_news(self) -> Segmentation | None:
        """Return what the shell has to do from now on; None while that stays."""
        told = self._told
        if self.size.datagram_bytes == told.datagram_bytes and self._names is told.names:
            return None
        self._told = Segmentation(self._names, self.size.datagram_bytes)
        return self._told
