"""Told causes: the CAUSES frames of deliveries, for the sessions that asked to be told."""

from groupcomm.events import CausalContext
from groupcomm.level import ServiceLevel
from groupcomm.session.daemon_frames import encode_causes
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket
from groupcomm.wire.raw import Raw

_CAUSAL = ServiceLevel.CAUSAL


class CausesFrames:
    """Who asked, and the last frame: several bundles of one packet follow each other.

    Attributes:
        wanted: connections that asked.
    """

    __slots__ = ("_frame", "_full", "_packet", "wanted")

    def __init__(self) -> None:
        self.wanted: set[int] = set()
        self._packet: DataPacket | None = None
        self._full = False
        self._frame = b""

    def split(self, connections: list[int]) -> tuple[list[int], list[int]]:
        """Those that did not ask, and those that did."""
        wanted = self.wanted
        asked = [connection for connection in connections if connection in wanted]
        if not asked:
            return connections, asked
        return [connection for connection in connections if connection not in wanted], asked

    def prepend(self, delivery: tuple[Raw, ...], bundle: Bundle) -> tuple[Raw, ...]:
        """The frame with the causes of a bundle, and its DELIVER frame, which is to follow it."""
        first, *rest = delivery
        return (b"".join((self._frame_of(bundle), first)), *rest)

    def _frame_of(self, bundle: Bundle) -> bytes:
        """V and A stand in it from CAUSAL up."""
        packet: DataPacket = bundle.packet
        full = bundle.level >= _CAUSAL
        if packet is not self._packet or full != self._full:
            self._packet, self._full = packet, full
            agreed = packet.agreed if full else None
            heard = packet.vector if full else None
            self._frame = encode_causes(CausalContext(packet.number, agreed, heard or ()))
        return self._frame
