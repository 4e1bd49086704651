"""One daemon's order, fed by hand."""

from collections.abc import Sequence

from groupcomm.clocks.stamp import Stamp
from groupcomm.level import ServiceLevel
from groupcomm.order.order import Order
from groupcomm.stream.stream import Stream
from groupcomm.wire.bundle import Bundle, BundleKind, decode_body_untrusted, encode_body
from groupcomm.wire.data import DataPacket
from tests.groupcomm.wire.payloads import encode_messages

RELIABLE, FIFO, CAUSAL, AGREED, SAFE = list(ServiceLevel)[1:]


def bundle(level: ServiceLevel, session: int, name: str) -> Bundle:
    """One message whose text is `name`, so that a test can tell what went out."""
    payload = encode_messages([(0, name.encode())])
    body = encode_body(BundleKind.MESSAGES, level, 0, 1, ("g",), payload)
    made = decode_body_untrusted(body)
    made.address(session, "u", ())
    return made


class Receiver:
    """One daemon's order, fed by hand; `out` has its deliveries."""

    def __init__(self, rings: int = 1, daemons: int = 3) -> None:
        self.out: list[str] = []
        self.streams = [Stream(ring, 0) for ring in range(rings)]
        self.order = Order(
            self.streams, daemons, clock=0, on_release=self._release, counted=lambda *_: None
        )

    def _release(self, released: Bundle) -> None:
        self.out.append(bytes(released.body[-1:]).decode())

    def packet(
        self,
        number: int,
        *bundles: Bundle,
        ring: int = 0,
        daemon: int = 0,
        previous: int = 0,
        time: int = 0,
        causes: tuple[Sequence[int], Stamp] | None = None,
        reference: int = 0,
    ) -> None:
        """Receive one packet and deliver what can be."""
        packet = self.make(
            number,
            *bundles,
            ring=ring,
            daemon=daemon,
            previous=previous,
            time=time,
            causes=causes,
            reference=reference,
        )
        stream = self.streams[packet.ring]
        held = stream.held
        assert stream.accept(packet)
        self.order.accept(packet, held)
        self.order.drain()

    def make(
        self,
        number: int,
        *bundles: Bundle,
        ring: int = 0,
        daemon: int = 0,
        previous: int = 0,
        time: int = 0,
        causes: tuple[Sequence[int], Stamp] | None = None,
        reference: int = 0,
    ) -> DataPacket:
        """Return a packet that has not been received."""
        packet = DataPacket(
            ring=ring,
            number=number,
            time=time or 10 * number + ring,
            daemon=daemon,
            previous=previous,
            bundles=list(bundles),
        )
        if causes is not None:
            packet.vector, packet.agreed = tuple(causes[0]), causes[1]
        packet.reference = reference
        for place, one in enumerate(bundles):
            one.packet, one.place = packet, place
        return packet

    def horizon(self, ring: int, value: int, upto: int) -> None:
        """Receive a horizon notice."""
        self.order.blocks.announce(ring, value, upto, self.streams[ring].held)
        self.order.drain()

    def frontier(self, ring: int, value: int) -> None:
        """Learn a ring's frontier."""
        self.order.frontiers.raise_to(ring, value)
        self.order.drain()
