"""The context of a ring: what it needs from the daemon around it."""

from typing import Protocol

from groupcomm.ring.counts import RingCounts
from groupcomm.stream.packer import Causes
from groupcomm.stream.packet_size import PacketSize
from groupcomm.wire.data import DataPacket
from groupcomm.wire.horizon import HorizonNotice


class FrontierSource(Protocol):
    """The frontier of the order of this daemon.

    Attributes:
        least: the frontier that this daemon reports: everything at or below this time is held here,
            and nothing at or below it can still arrive.
    """

    @property
    def least(self) -> int:
        """Return the time."""


class Deliverable(Protocol):
    """What the ring can deliver of its stream, whoever goes on with whom.

    Attributes:
        ring: all daemons of the ring can deliver its stream up to this number.
        is_reported: whether the daemons of this view report it; if not, nothing waits for it.
    """

    ring: int
    is_reported: bool

    @property
    def own(self) -> int:
        """Return the number up to which this daemon can deliver the stream."""

    def report(self) -> int:
        """Return `own`, which goes into the token now."""

    @property
    def is_due(self) -> bool:
        """Return whether a packet waits for the ring, and this daemon can report more for it."""

    @property
    def waits(self) -> bool:
        """Return whether a packet waits for the ring."""

    def raise_to(self, number: int) -> None:
        """Note that all daemons of the ring can deliver its stream up to a number."""


class RingContext(Protocol):
    """The daemon, as its ring sees it.

    Attributes:
        blocks: one object for the whole view, as its frontier is read many times a step.
        ring_counts: counts over all views.
        packet_size: the size of packets, over all views.
    """

    ring_counts: RingCounts
    packet_size: PacketSize

    @property
    def deliverable(self) -> Deliverable:
        """Return what the ring can deliver."""

    @property
    def blocks(self) -> FrontierSource:
        """Return the frontier of the order."""

    @property
    def causes(self) -> Causes:
        """Return V and A of a packet numbered now."""

    def safe_waits(self, above: int, upto: int) -> bool:
        """Return whether a SAFE packet waits here that is stamped after `above`, up to `upto`."""

    @property
    def holds_packets(self) -> bool:
        """Return whether any packet of any stream is not yet forgotten here."""

    def originate(self, packet: DataPacket) -> None:
        """Process a packet that was numbered just now as received."""

    def publish(self, packet: DataPacket) -> None:
        """Send an originated packet to the ring and towards every other ring."""

    def send_again(self, packet: DataPacket) -> None:
        """Send a packet of a stream to the ring once more."""

    def promise(self, value: int, upto: int) -> None:
        """Count a horizon that this daemon has just announced for its ring."""

    def ring_frontier(self, value: int) -> None:
        """Note the least frontier of the ring's daemons."""

    def send(self, destination: int, packet: bytes) -> None:
        """Seal and send a packet to a daemon of the ring, or to RING."""

    def announce(self, notice: HorizonNotice) -> None:
        """Send a notice to the ring, and towards every other ring."""
