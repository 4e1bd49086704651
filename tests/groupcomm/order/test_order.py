"""The six levels, packet by packet: what waits for what, and for nothing else."""

from collections.abc import Sequence

import pytest

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
    ) -> None:
        """Receive one packet and deliver what can be."""
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
        for place, one in enumerate(bundles):
            one.packet, one.place = packet, place
        stream = self.streams[ring]
        held = stream.held
        assert stream.accept(packet)
        self.order.accept(packet, held)
        self.order.drain()

    def horizon(self, ring: int, value: int, upto: int) -> None:
        """Receive a horizon notice."""
        self.order.blocks.announce(ring, value, upto, self.streams[ring].held)
        self.order.drain()

    def frontier(self, ring: int, value: int) -> None:
        """Learn a ring's frontier."""
        self.order.frontiers.raise_to(ring, value)
        self.order.drain()


def test_reliable_does_not_wait_behind_a_gap() -> None:
    receiver = Receiver()
    receiver.packet(3, bundle(RELIABLE, 1, "c"), previous=2)
    assert receiver.out == ["c"]
    receiver.packet(1, bundle(RELIABLE, 1, "a"))
    assert receiver.out == ["c", "a"]


def test_fifo_waits_for_its_daemons_chain_and_for_no_other_gap() -> None:
    receiver = Receiver()
    receiver.packet(4, bundle(FIFO, 1, "x"), daemon=1)  # numbers 1 to 3 are daemon 0's
    assert receiver.out == ["x"]
    receiver.packet(3, bundle(FIFO, 1, "c"), previous=2)
    receiver.packet(2, bundle(FIFO, 1, "b"), previous=1)
    assert receiver.out == ["x"]
    receiver.packet(1, bundle(FIFO, 1, "a"))
    assert receiver.out == ["x", "a", "b", "c"]


def test_fifo_waits_for_its_own_sessions_agreed_message_only() -> None:
    receiver = Receiver(rings=2)
    receiver.packet(1, bundle(AGREED, 1, "a"), causes=((0, 0), Stamp(0, 0)))
    receiver.packet(2, bundle(FIFO, 1, "b"), bundle(FIFO, 2, "c"), previous=1)
    assert receiver.out == ["c"], "session 2 is not held up by session 1"
    receiver.horizon(1, 100, 0)
    assert receiver.out == ["c", "a", "b"]


def test_agreed_waits_for_the_block_of_every_ring() -> None:
    receiver = Receiver(rings=3)
    receiver.packet(1, bundle(AGREED, 1, "a"), time=50, causes=((0, 0, 0), Stamp(0, 0)))
    receiver.horizon(1, 50, 0)
    receiver.horizon(2, 49, 0)
    assert receiver.out == []
    receiver.horizon(2, 50, 0)
    assert receiver.out == ["a"]


def test_a_horizon_counts_only_once_its_packets_are_held() -> None:
    receiver = Receiver(rings=2)
    causes = ((0, 0), Stamp(0, 0))
    receiver.packet(1, bundle(AGREED, 1, "b"), time=50, causes=causes)
    receiver.horizon(1, 60, 1)  # a packet of ring 1 is missing: its stamp may be lower
    assert receiver.out == []
    receiver.packet(1, bundle(AGREED, 2, "a"), ring=1, daemon=2, time=40, causes=causes)
    assert receiver.out == ["a", "b"]


def test_equal_times_go_by_the_ring() -> None:
    receiver = Receiver(rings=2)
    causes = ((0, 0), Stamp(0, 0))
    receiver.packet(1, bundle(AGREED, 1, "b"), ring=1, daemon=2, time=40, causes=causes)
    receiver.packet(1, bundle(AGREED, 1, "a"), ring=0, time=40, causes=causes)
    assert receiver.out == ["a", "b"]


def test_safe_waits_for_every_rings_frontier_and_delays_later_agreed() -> None:
    receiver = Receiver(rings=2)
    causes = ((0, 0), Stamp(0, 0))
    receiver.packet(1, bundle(SAFE, 1, "s"), time=50, causes=causes)
    receiver.packet(2, bundle(AGREED, 2, "a"), time=51, previous=1, causes=causes)
    receiver.horizon(1, 99, 0)
    receiver.frontier(0, 99)
    assert receiver.out == []
    receiver.frontier(1, 49)
    assert receiver.out == []
    receiver.frontier(1, 50)
    assert receiver.out == ["s", "a"]


def test_causal_waits_for_the_packets_its_sender_was_given() -> None:
    receiver = Receiver(rings=2)
    none = ((0, 0), Stamp(0, 0))
    receiver.packet(1, bundle(AGREED, 1, "a"), time=50, causes=none)
    # ring 1: its sender had been given packet 2 of ring 0
    receiver.packet(
        1, bundle(CAUSAL, 1, "e"), ring=1, daemon=2, time=70, causes=((2, 0), Stamp(0, 0))
    )
    assert receiver.out == ["a"]
    receiver.packet(2, bundle(RELIABLE, 2, "r"), time=60, previous=1)
    assert receiver.out == ["a", "r", "e"]


def test_causal_without_missing_causes_waits_for_nothing() -> None:
    receiver = Receiver(rings=2)
    none = ((0, 0), Stamp(0, 0))
    receiver.packet(1, bundle(CAUSAL, 1, "c"), bundle(AGREED, 2, "a"), time=50, causes=none)
    assert receiver.out == ["c"], "AGREED needs ring 1's horizon, CAUSAL does not"


def test_causal_waits_for_the_last_agreed_its_sender_was_given() -> None:
    receiver = Receiver(rings=2)
    none = ((0, 0), Stamp(0, 0))
    receiver.packet(1, bundle(AGREED, 1, "a"), time=50, causes=none)
    receiver.packet(2, bundle(CAUSAL, 2, "c"), daemon=1, time=60, causes=((1, 0), Stamp(50, 0)))
    assert receiver.out == []
    receiver.horizon(1, 50, 0)
    assert receiver.out == ["a", "c"]


def test_causal_waits_for_pending_fifo_below_its_vector() -> None:
    """A FIFO message behind its session's AGREED one is still a cause."""
    receiver = Receiver(rings=2)
    none = ((0, 0), Stamp(0, 0))
    receiver.packet(1, bundle(AGREED, 1, "a"), bundle(FIFO, 1, "f"), time=50, causes=none)
    receiver.packet(2, bundle(CAUSAL, 2, "c"), daemon=1, time=60, causes=((1, 0), Stamp(0, 0)))
    assert receiver.out == []
    receiver.horizon(1, 55, 0)
    assert receiver.out == ["a", "f", "c"]


def test_causes_by_reference_are_those_of_the_packet_named() -> None:
    receiver = Receiver(rings=2)
    receiver.packet(1, bundle(CAUSAL, 1, "a"), time=50, causes=((0, 1), Stamp(0, 0)))
    second = DataPacket(
        ring=0, number=2, time=60, daemon=0, previous=1, bundles=[bundle(CAUSAL, 2, "b")]
    )
    second.reference = 1
    second.bundles[0].packet = second
    receiver.streams[0].accept(second)
    receiver.order.accept(second, 1)
    receiver.order.drain()
    assert receiver.out == [], "both wait for packet 1 of ring 1"
    receiver.packet(1, bundle(FIFO, 1, "x"), ring=1, daemon=2, time=45)
    assert receiver.out == ["x", "a", "b"]


def test_one_session_keeps_its_order_over_all_levels_in_one_packet() -> None:
    receiver = Receiver()
    levels = [FIFO, AGREED, CAUSAL, FIFO, AGREED, CAUSAL]
    bundles = [bundle(level, 1, str(index)) for index, level in enumerate(levels)]
    receiver.packet(1, *bundles, causes=((0,), Stamp(0, 0)))
    assert receiver.out == list("012345")


def test_v_names_the_highest_number_delivered_not_the_held_prefix() -> None:
    receiver = Receiver()
    receiver.packet(3, bundle(RELIABLE, 1, "r"), previous=2)
    assert receiver.order.causes == ((3,), Stamp(0, 0))


def test_progress_stops_below_what_waits() -> None:
    receiver = Receiver(rings=2)
    none = ((0, 0), Stamp(0, 0))
    receiver.packet(1, bundle(SAFE, 1, "s"), time=50, causes=none)
    receiver.horizon(1, 90, 0)
    assert receiver.order.blocks.least == 50
    assert receiver.order.progress == 49
    assert receiver.order.safe_waits(49, 50)
    assert not receiver.order.safe_waits(50, 99)


def test_the_invariants_stop_a_broken_promise() -> None:
    receiver = Receiver()
    receiver.horizon(0, 100, 0)
    with pytest.raises(AssertionError, match="at or below the horizon"):
        receiver.packet(1, bundle(AGREED, 1, "a"), time=90, causes=((0,), Stamp(0, 0)))


def test_the_invariants_stop_a_falling_stamp() -> None:
    receiver = Receiver()
    receiver.packet(1, bundle(RELIABLE, 1, "a"), time=50)
    with pytest.raises(AssertionError, match="stamp falls"):
        receiver.packet(2, bundle(RELIABLE, 1, "b"), previous=1, time=50)
