"""The sender: it makes sealed datagrams of packets, for the output of the present step. Pure."""

from groupcomm.engine.output import Transmission
from groupcomm.engine.protection import DatagramProtection
from groupcomm.engine.segmentation import Segments
from groupcomm.stream.packet_size import SEALED_BYTES
from groupcomm.wire.data import DataPacket


class Sender:
    """The datagrams of one start of a daemon.

    Args:
        protection: seals them.
        segments: knows which large ones are sent again as they were.

    Attributes:
        datagrams: the datagrams of the present step.
    """

    def __init__(self, protection: DatagramProtection, segments: Segments) -> None:
        self._protection = protection
        self._segments, self._size = segments, segments.size
        self.datagrams: list[Transmission] = []

    def send(self, destination: str | None, packet: bytes) -> None:
        """Send a packet to a daemon, by its name, or with None to all others of the site."""
        self.datagrams.append((destination, self._protection.seal(destination, packet)))

    def send_data(self, packet: DataPacket) -> None:
        """Send a packet of a stream to the ring."""
        raw = packet.raw
        if len(raw) + SEALED_BYTES <= self._size.datagram_bytes:
            self.datagrams.append((None, self._protection.seal(None, raw)))
        else:
            self.datagrams.append((None, self._segments.seal(packet, self._protection.seal)))
