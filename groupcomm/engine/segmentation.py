"""Segmentation: which datagrams the shell cuts into segments, and how large bundles may be.

Pure. Only daemons of the own ring get any, in views whose members all join them: links between
sites have fragments of their own (link/path_mtu.py). See wire/segments.py.
"""

from typing import Final

import attrs

from groupcomm.config.versions import SEGMENTS
from groupcomm.config.view import View
from groupcomm.stream.packer import bundle_room
from groupcomm.stream.packet_size import PacketSize

BUNDLE_PACKET_BYTES: Final = 8600
"""A bundle fills at most a packet of this size, as it is never cut again: a loss costs no more."""


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

    __slots__ = ("_me", "_names", "_packet_limit", "_told", "size")

    def __init__(self, packet_limit: int, name: str) -> None:
        self._packet_limit = packet_limit
        self._me = name
        self._names = frozenset[str]()
        self.size = PacketSize(packet_limit)
        self._told = Segmentation(self._names, self.size.datagram_bytes)

    def begin_view(self, view: View) -> int:
        """Begin a view; return the bytes of a packet that one bundle of a new session may fill."""
        joins = view.versions.features & SEGMENTS
        me = next(daemon for daemon in view.daemons if daemon.name == self._me)
        self._names = frozenset(view.ring_names(me) if joins else ()) - {self._me}
        return bundle_room(min(view.data_limit, max(self._packet_limit, BUNDLE_PACKET_BYTES)))

    def pop_news(self) -> Segmentation | None:
        """Return what the shell has to do from now on; None while that stays."""
        told = self._told
        if self.size.datagram_bytes == told.datagram_bytes and self._names is told.names:
            return None
        self._told = Segmentation(self._names, self.size.datagram_bytes)
        return self._told
