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

BUNDLE_PACKET_BYTES: Final = 60_000
"""A bundle fills at most a packet of this size: it is not cut again where segments are lost."""

MOST_KEPT: Final = 64
"""The large datagrams that are kept to be sent again, the latest ones."""

MOST_REPEATED: Final = 1024
"""The packets of which it is known how often they were sent again, the latest ones."""

IN_VAIN: Final = 6
"""A packet that was sent again so often does not arrive: nearly all do that lose three segments of
ten. It is sealed anew then, as a receiver may think the datagram old."""


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

    __slots__ = (
        "_kept",
        "_latest",
        "_me",
        "_names",
        "_packet_limit",
        "_repeated",
        "size",
    )

    def __init__(self, packet_limit: int, name: str) -> None:
        self._packet_limit = packet_limit
        self._me = name
        self._kept: dict[tuple[int, int], bytes] = {}  # datagrams by ring and number
        self._repeated: dict[tuple[int, int], int] = {}  # how often packets were sent again
        self._names = frozenset[str]()
        self.size = PacketSize(packet_limit)
        self._latest = Segmentation(self._names, self.size.datagram_bytes)

    def begin_view(self, view: View) -> int:
        """Begin a view; return the bytes of a packet that one bundle of a new session may fill."""
        self._kept.clear()
        self._repeated.clear()
        joins = view.versions.features & SEGMENTS
        me = next(daemon for daemon in view.daemons if daemon.name == self._me)
        self._names = frozenset(view.ring_names(me) if joins else ()) - {self._me}
        self.size.is_new = True
        return bundle_room(min(view.data_limit, max(self._packet_limit, BUNDLE_PACKET_BYTES)))

    def seal(self, packet: DataPacket, seal: Callable[[None, bytes], bytes]) -> bytes:
        """Return a datagram with a large packet for the ring; it may be the same again.

        Then a receiver that has got some of its segments only needs the others.
        """
        if not self._names:
            return seal(None, packet.raw)
        key = packet.ring, packet.number
        datagram = self._kept.get(key)
        if datagram is None:
            datagram = self._kept[key] = seal(None, packet.raw)
            if len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return datagram

    def note_repeated(self, packet: DataPacket, now: float) -> None:
        """Note that a packet is sent again; if that is in vain, large datagrams may be lost."""
        if len(packet.raw) + SEALED_BYTES <= self.size.safe_bytes or not self._names:
            return
        key = packet.ring, packet.number
        times = self._repeated.pop(key, 0) + 1
        if times < IN_VAIN:
            self._repeated[key] = times
            if len(self._repeated) > MOST_REPEATED:
                del self._repeated[next(iter(self._repeated))]
        else:
            self._kept.pop(key, None)
            self.size.sent_in_vain(now)

    def pop_news(self) -> Segmentation | None:
        """Return what the shell has to do from now on; None while that stays."""
        latest, self.size.is_new = self._latest, False
        if self.size.datagram_bytes == latest.datagram_bytes and self._names is latest.names:
            return None
        self._latest = Segmentation(self._names, self.size.datagram_bytes)
        return self._latest
