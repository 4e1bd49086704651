"""Deferred headers: those of local-only packets, until they may go to other rings.

Pure. A header is sent once every daemon of the ring holds the packet and all before it, so that
whoever acts on the header may rely on the packet (docs/pruning.md).
"""

from heapq import heappop, heappush

from groupcomm.stream.stream import Stream
from groupcomm.wire.data import HEADER_EXTRA_BYTES, HEADERS_FRAME_BYTES, DataPacket, encode_headers


class DeferredHeaders:
    """The packets of the own stream whose headers are still to be sent.

    Attributes:
        released_upto: all daemons of the ring hold the stream up to this number.
    """

    __slots__ = ("_key", "_numbers", "_room", "_stream", "released_upto")

    def __init__(self, key: bytes, stream: Stream, packet_limit: int) -> None:
        """Begin; a packet of headers is not longer than `packet_limit`, if one of them fits."""
        self._key = key
        self._stream = stream
        self._room = packet_limit - HEADERS_FRAME_BYTES
        self._numbers: list[int] = []  # a heap
        self.released_upto = stream.held

    def defer(self, packet: DataPacket) -> None:
        """Note a packet of the own ring that stays."""
        heappush(self._numbers, packet.number)

    def pop_ready(self, everywhere: int) -> list[tuple[int, bytes]]:
        """Return what may be sent now that the ring holds the stream up to `everywhere`.

        Returns:
            Packets of headers, each with the number of the first.
        """
        self.released_upto = everywhere
        numbers, packets = self._numbers, self._stream.packets
        out: list[tuple[int, bytes]] = []
        headers: list[bytes] = []
        first = size = 0
        while numbers and numbers[0] <= everywhere:
            number = heappop(numbers)
            packet = packets.get(number)
            if packet is None:
                continue  # forgotten: another daemon of the ring has sent its header
            header = packet.header()
            if headers and size + len(header) + HEADER_EXTRA_BYTES > self._room:
                out.append((first, encode_headers(self._key, headers)))
                headers = []
            if not headers:
                first, size = number, 0
            headers.append(header)
            size += len(header) + HEADER_EXTRA_BYTES
        if headers:
            out.append((first, encode_headers(self._key, headers)))
        return out

    def form_for_other_ring(self, packet: DataPacket) -> bytes | None:
        """Return what another ring gets of a packet that it asks for; None if it is too early."""
        if not packet.local_only:
            return packet.raw
        return packet.header() if packet.number <= self.released_upto else None
