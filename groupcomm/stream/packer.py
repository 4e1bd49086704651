"""Packing: the bundles that wait at a daemon become numbered packets.

Pure. Only the holder of the token calls `fill`, as only the holder may give numbers and stamps of a
stream. All packets of one call carry the same causes (V, A), because nothing is delivered between
them; the first packet has them in full, later ones refer to it.
"""

from typing import Protocol

from groupcomm.clocks.ring_clock import RingClock
from groupcomm.clocks.stamp import Stamp
from groupcomm.config.view import View
from groupcomm.level import ServiceLevel
from groupcomm.stream.packet_size import PacketSize
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket, UnreliablePacket, data_overhead

_CAUSAL = ServiceLevel.CAUSAL
_AGREED = ServiceLevel.AGREED
_SAFE = ServiceLevel.SAFE

ROOM_RINGS = 8

Causes = tuple[tuple[int, ...], Stamp]
"""V and A: per stream the highest number delivered from, and the last agreed stamp delivered."""


class Source(Protocol):
    """The bundles that wait for a number.

    Attributes:
        size: the number of waiting bundles.
    """

    size: int

    def wants(self, *, far: bool) -> bool:
        """Return whether a bundle may be numbered; one that leaves the ring only if `far`."""

    def head(self, *, far: bool) -> Bundle | None:
        """Return the next bundle, without `far` a local-only one; `pop` removes it."""

    def pop(self, *, far: bool) -> None:
        """Remove the bundle that `head` has returned."""

    def is_local_only(self, bundle: Bundle) -> bool:
        """Return whether a bundle has no recipients in other rings."""


class Packer:
    """The numbering of one daemon's packets.

    Attributes:
        source: the bundles that wait for a number, in the order of their submission.
    """

    __slots__ = (
        "_causes",
        "_clock",
        "_full",
        "_key",
        "_me",
        "_previous",
        "_ring",
        "_size",
        "_unreliable",
        "_unreliable_room",
        "source",
    )

    def __init__(
        self,
        view: View,
        me: int,
        clock: RingClock,
        *,
        source: Source,
        size: PacketSize,
        base: int,
        unreliable_base: int,
    ) -> None:
        self.source = source
        self._key = view.key
        self._me = me
        self._ring = view.ring_of[me]
        self._clock = clock
        self._size = size
        self._unreliable_room = bundle_room(view.packet_limit)
        self._previous = base
        self._unreliable = unreliable_base
        self._causes: Causes | None = None
        self._full = 0

    @property
    def last(self) -> int:
        """Number of this daemon's last packet; the stream's base if it has none yet."""
        return self._previous

    def fill(self, last: int, budget: int, causes: Causes, *, far: bool = True) -> list[DataPacket]:
        """Number waiting bundles from ``last + 1`` on, up to about `budget` bytes of them.

        Args:
            last: number of the stream's last packet.
            budget: bytes.
            causes: V and A.
            far: number also bundles that other rings get.
        """
        packets: list[DataPacket] = []
        first = self.source.head(far=far)
        while first is not None and budget > 0:
            local_only = self.source.is_local_only(first)
            bundles = self._pop_bundles(first, far, local_only)
            for bundle in bundles:
                budget -= bundle.size
            last += 1
            packets.append(self._number(last, bundles, causes, local_only))
            first = self.source.head(far=far)
        self._size.numbered += len(packets)
        return packets

    def _pop_bundles(self, first: Bundle, far: bool, local_only: bool) -> list[Bundle]:
        """Return the bundles of the next packet.

        AGREED and SAFE bundles do not share a packet: it is delivered as a whole, so the AGREED
        ones would wait until the SAFE ones are stable. Nor do local-only bundles share one with
        others.
        """
        source = self.source
        source.pop(far=far)
        bundles = [first]
        room = bundle_room(self._size.bytes) - first.size
        ordered = first.level if first.level >= _AGREED else None
        while (head := source.head(far=far)) is not None and head.size <= room:
            level = head.level
            if source.is_local_only(head) != local_only:
                break
            if level >= _AGREED:
                if ordered is not None and (level == _SAFE) != (ordered == _SAFE):
                    break
                ordered = level
            room -= head.size
            source.pop(far=far)
            bundles.append(head)
        return bundles

    def _number(
        self, number: int, bundles: list[Bundle], causes: Causes, local_only: bool
    ) -> DataPacket:
        packet = DataPacket(
            ring=self._ring,
            number=number,
            time=self._clock.tick(),
            daemon=self._me,
            previous=self._previous,
            bundles=bundles,
            local_only=local_only,
        )
        self._previous = number
        top = 0
        for bundle in bundles:
            if bundle.level > top:
                top = bundle.level
        if top >= _CAUSAL:
            if causes == self._causes:
                packet.reference = self._full
            else:
                packet.vector, packet.agreed = causes
                self._causes = causes
                self._full = number
        packet.raw = packet.encode(self._key)
        for place, bundle in enumerate(bundles):
            bundle.packet = packet
            bundle.place = place
        return packet

    def unreliable(self, bundles: list[Bundle]) -> list[UnreliablePacket]:
        """Pack bundles that need no number; each datagram takes the next count of this daemon."""
        packets: list[UnreliablePacket] = []
        room, stayed = 0, False
        for bundle in bundles:
            local_only = self.source.is_local_only(bundle)
            if bundle.size > room or local_only != stayed:
                stayed = local_only
                self._unreliable += 1
                packet = UnreliablePacket(daemon=self._me, counter=self._unreliable, bundles=[])
                packets.append(packet)
                room = self._unreliable_room
            packet.bundles.append(bundle)
            room -= bundle.size
        return packets


def bundle_room(packet_limit: int) -> int:
    """Return the bytes of a packet that its bundles may fill, with up to ROOM_RINGS rings.

    Programs learn this number once, and views change. With more rings, packets are 8 bytes longer
    for each.
    """
    return packet_limit - data_overhead(ROOM_RINGS)
