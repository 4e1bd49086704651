"""The memory and the acknowledgements of a link's receiver."""

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.link.acknowledgements import (
    ACK_EVERY,
    ACK_INTERVAL_S,
    REORDERED,
    InFlight,
    ReceivedNumbers,
)
from groupcomm.link.congestion import MAX_ACK_DELAY_S, RoundTrip
from groupcomm.link.queue import Queued
from groupcomm.stream.ranges import ranges_of
from groupcomm.wire.link import MAX_ACK_RANGES


@given(st.lists(st.integers(1, 200), max_size=400))
def test_each_number_counts_once_and_an_acknowledgement_names_the_latest_ranges(
    numbers: list[int],
) -> None:
    received, taken = ReceivedNumbers(), set[int]()
    for number in numbers:
        if received.accept(number, 0.0):
            assert number not in taken
            taken.add(number)
        else:
            forgotten = len(ranges_of(taken)) >= MAX_ACK_RANGES
            assert number in taken or forgotten
    if taken:
        said = received.acknowledge(0, 0.0).ranges
        assert len(said) <= MAX_ACK_RANGES
        known = ranges_of(taken)
        assert said == known[-len(said) :]
        assert len(said) == min(len(known), MAX_ACK_RANGES)


def test_few_packets_wait_for_company_and_many_do_not() -> None:
    received = ReceivedNumbers()
    assert received.due == float("inf")
    for number in range(1, ACK_EVERY):
        received.accept(number, 1.0 + number * 2**-10)
        assert received.due == 1.0 + 2**-10 + MAX_ACK_DELAY_S
    received.accept(ACK_EVERY, 1.0 + 2**-6)
    assert received.due <= 1.0 + 2**-6
    ack = received.acknowledge(3, 1.0 + 2**-6 + 0.25)
    assert (ack.sender, ack.delay_us, ack.ranges) == (3, 250_000, [(1, ACK_EVERY)])
    assert received.due == float("inf")


def test_a_gap_and_a_copy_are_reported_soon() -> None:
    received = ReceivedNumbers()
    received.accept(1, 0.5)
    received.acknowledge(0, 1.0)
    received.accept(3, 1.0 + ACK_INTERVAL_S / 2)
    assert received.due == 1.0 + ACK_INTERVAL_S
    assert received.acknowledge(0, 1.75).ranges == [(1, 1), (3, 3)]
    assert received.accept(2, 2.0)
    assert not received.accept(2, 2.0)
    assert received.due == 2.0, "whoever sends something twice has not heard that it came"
    assert received.duplicates == 1


def test_an_overtaken_packet_is_lost_after_a_while_and_at_once_if_enough_have_overtaken_it() -> (
    None
):
    trip = RoundTrip(0.1)
    in_flight = InFlight(trip)
    for number in range(1, REORDERED + 2):
        in_flight.add(Queued(0, number, b""), 100, 1.0)
    in_flight.acknowledged([(2, REORDERED)], 0.0, 1.1)
    assert in_flight.deadline == 1.0 + trip.loss_delay_s
    assert in_flight.pop_lost(1.1) == []
    in_flight.acknowledged([(2, REORDERED + 1)], 0.0, 1.1)
    assert in_flight.deadline <= 1.1
    assert [queued.number for queued in in_flight.pop_lost(1.1)] == [1]
