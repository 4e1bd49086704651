"""The six levels, packet by packet: what waits for what, and for nothing else."""

import pytest

from groupcomm.clocks.stamp import Stamp
from groupcomm.level import ServiceLevel
from groupcomm.wire.data import DataPacket
from tests.groupcomm.order.receiver import AGREED, CAUSAL, FIFO, RELIABLE, SAFE, Receiver, bundle


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
    with pytest.raises(AssertionError, match="at or below the horizon 50"):
        receiver.packet(2, bundle(RELIABLE, 2, "b"), previous=1, time=50)
    receiver = Receiver()
    receiver.packet(3, bundle(RELIABLE, 3, "c"), previous=2, time=70)
    with pytest.raises(AssertionError, match="stamp falls after packet 2"):
        receiver.packet(2, bundle(RELIABLE, 2, "b"), previous=1, time=70)
    receiver = Receiver()
    receiver.packet(2, bundle(RELIABLE, 2, "b"), previous=1, time=70)
    with pytest.raises(AssertionError, match="stamp falls after packet 1"):
        receiver.packet(1, bundle(RELIABLE, 1, "a"), time=70)
    receiver = Receiver()
    receiver.packet(2, bundle(RELIABLE, 2, "b"), previous=1, time=70)
    with pytest.raises(AssertionError, match="stamp falls at packet 3"):
        receiver.packet(3, bundle(RELIABLE, 3, "c"), previous=2, time=70)


def test_a_packet_says_whether_it_is_in_the_agreed_order_and_whether_it_is_safe() -> None:
    receiver = Receiver()
    none = ((0,), Stamp(0, 0))
    for number, level in enumerate((FIFO, CAUSAL, AGREED, SAFE), 1):
        receiver.packet(number, bundle(level, number, "x"), previous=number - 1, causes=none)
        packet = receiver.streams[0].packets[number]
        assert packet.in_agreed_order == (level >= AGREED)
        assert packet.safe == (level == SAFE)


@pytest.mark.parametrize("level", [RELIABLE, FIFO, CAUSAL, AGREED, SAFE])
def test_a_packet_that_came_after_the_end_is_classified_by_its_highest_level(
    level: ServiceLevel,
) -> None:
    receiver = Receiver()
    packet = receiver.make(1, bundle(RELIABLE, 1, "r"), bundle(level, 2, "x"))
    receiver.order.classify(packet)
    assert packet.in_agreed_order == (level >= AGREED)
    assert packet.safe == (level == SAFE)


def test_causes_of_a_packet_after_the_end_are_those_of_the_packet_it_names() -> None:
    receiver = Receiver()
    causes = ((0,), Stamp(7, 0))
    receiver.packet(1, bundle(FIFO, 1, "a"), causes=causes)
    late = receiver.make(2, bundle(CAUSAL, 1, "b"), previous=1)
    late.reference = 1
    receiver.order.resolve(late)
    assert (late.vector, late.agreed) == causes
    del receiver.streams[0].packets[1]  # forgotten: the chain still knows its causes
    again = receiver.make(2, bundle(CAUSAL, 1, "b"), previous=1)
    again.reference = 1
    receiver.order.resolve(again)
    assert (again.vector, again.agreed) == causes


def test_causes_that_a_packet_names_itself_are_kept_after_the_end() -> None:
    receiver = Receiver()
    receiver.packet(1, bundle(FIFO, 1, "a"), causes=((0,), Stamp(7, 0)))
    late = receiver.make(2, bundle(CAUSAL, 1, "b"), previous=1, causes=((1,), Stamp(8, 0)))
    late.reference = 1
    receiver.order.resolve(late)
    assert (late.vector, late.agreed) == ((1,), Stamp(8, 0))


def test_causes_that_nobody_has_are_forgone_at_the_next_agreed_packet() -> None:
    """Only a daemon that lies names an agreed message that does not exist."""
    receiver = Receiver()
    none = ((0,), Stamp(0, 0))
    receiver.packet(1, bundle(CAUSAL, 1, "c"), causes=((0,), Stamp(9, 0)))
    receiver.packet(2, bundle(CAUSAL, 2, "d"), daemon=1, causes=((0,), Stamp(8, 0)))
    assert receiver.out == []
    receiver.packet(3, bundle(AGREED, 1, "a"), daemon=2, causes=none)
    assert sorted(receiver.out[:2]) == ["c", "d"]
    assert receiver.out[2:] == ["a"]


def test_a_session_may_go_on_after_causes_were_forgone() -> None:
    receiver = Receiver()
    none = ((0,), Stamp(0, 0))
    receiver.packet(1, bundle(CAUSAL, 1, "c"), bundle(FIFO, 1, "f"), causes=((0,), Stamp(9, 0)))
    receiver.packet(2, bundle(AGREED, 1, "a"), previous=1, causes=none)
    receiver.packet(3, bundle(FIFO, 1, "g"), previous=2)
    assert receiver.out == ["c", "f", "a", "g"]


def test_an_agreed_packet_whose_causes_do_not_exist_is_delivered_without_them() -> None:
    receiver = Receiver()
    receiver.packet(1, bundle(AGREED, 1, "a"), causes=((0,), Stamp(0, 0)))
    receiver.packet(2, bundle(AGREED, 2, "b"), daemon=1, causes=((9,), Stamp(0, 0)))
    assert receiver.out == ["a", "b"]
    assert receiver.streams[0].packets[1].vector == (0,), "its causes are here"
    assert receiver.streams[0].packets[2].vector is None


def test_hurried_stamps_wait_for_the_frontier_and_no_longer() -> None:
    receiver = Receiver()
    for time in (50, 30, 70):
        receiver.order.hurry(time)
    assert receiver.order.hurried == [30, 50, 70]
    receiver.frontier(0, 49)
    assert receiver.order.hurried == [50, 70]
    receiver.frontier(0, 50)
    assert receiver.order.hurried == [70]
    assert receiver.order.safe_waits(69, 70)
    assert not receiver.order.safe_waits(70, 99)
    assert not receiver.order.safe_waits(0, 69)


def test_causes_name_the_last_agreed_packet_with_its_ring() -> None:
    receiver = Receiver(rings=2)
    none = ((0, 0), Stamp(0, 0))
    receiver.packet(1, bundle(AGREED, 1, "a"), ring=1, daemon=2, time=40, causes=none)
    receiver.horizon(0, 60, 0)
    assert receiver.order.causes == ((0, 1), Stamp(40, 1))
    assert receiver.order.blocks.least == 40
    assert receiver.order.progress == 40


def test_v_does_not_fall_when_an_older_packet_comes() -> None:
    receiver = Receiver()
    receiver.packet(3, bundle(RELIABLE, 1, "c"), previous=2)
    receiver.packet(1, bundle(RELIABLE, 1, "a"))
    assert receiver.order.causes == ((3,), Stamp(0, 0))


def test_chains_end_where_the_first_packet_of_a_daemon_is_missing() -> None:
    receiver = Receiver(daemons=2)
    receiver.packet(1, bundle(FIFO, 1, "a"))
    receiver.packet(4, bundle(FIFO, 1, "d"), previous=2)
    receiver.packet(3, bundle(FIFO, 1, "x"), daemon=1)
    assert receiver.order.chain_ends == [1, 3]
    receiver.packet(2, bundle(FIFO, 1, "b"), previous=1)
    assert receiver.order.chain_ends == [4, 3]


def test_causes_by_reference_to_a_packet_that_does_not_wait_are_waited_for() -> None:
    receiver = Receiver(rings=2)
    receiver.packet(1, bundle(FIFO, 1, "f"), causes=((0, 1), Stamp(0, 0)))
    receiver.packet(2, bundle(CAUSAL, 2, "c"), previous=1, reference=1)
    assert receiver.out == ["f"]
    receiver.packet(1, bundle(FIFO, 1, "x"), ring=1, daemon=2)
    assert receiver.out == ["f", "x", "c"]


def test_the_agreed_cause_of_a_reference_is_waited_for() -> None:
    receiver = Receiver(rings=2)
    receiver.packet(1, bundle(AGREED, 1, "a"), time=50, causes=((0, 0), Stamp(0, 0)))
    receiver.packet(2, bundle(FIFO, 2, "f"), daemon=1, causes=((0, 0), Stamp(50, 0)), time=60)
    receiver.packet(3, bundle(CAUSAL, 2, "c"), daemon=1, previous=2, reference=2, time=70)
    assert receiver.out == ["f"]
    receiver.horizon(1, 50, 0)
    assert receiver.out == ["f", "a", "c"]


def test_a_causal_message_whose_causes_are_here_is_released_when_it_is_accepted() -> None:
    receiver = Receiver()
    packet = receiver.make(1, bundle(CAUSAL, 1, "c"), causes=((0,), Stamp(0, 0)))
    receiver.streams[0].accept(packet)
    receiver.order.accept(packet, 0)
    assert receiver.out == ["c"]


def test_a_packet_that_comes_out_of_its_gate_lets_those_of_other_daemons_out() -> None:
    receiver = Receiver(rings=2, daemons=4)
    receiver.packet(3, bundle(CAUSAL, 1, "b"), causes=((2, 0), Stamp(0, 0)))
    receiver.packet(1, bundle(FIFO, 1, "x"), daemon=3)
    receiver.packet(2, bundle(CAUSAL, 1, "a"), daemon=1, causes=((0, 1), Stamp(0, 0)))
    assert receiver.out == ["x"]
    receiver.packet(1, bundle(FIFO, 1, "y"), ring=1, daemon=2)
    assert receiver.out == ["x", "y", "a", "b"]


def test_safe_messages_that_are_delivered_do_not_wait() -> None:
    receiver = Receiver()
    receiver.packet(1, bundle(SAFE, 1, "s"), causes=((0,), Stamp(0, 0)))
    assert receiver.order.safe_waits(0, 99)
    receiver.frontier(0, 10)
    assert receiver.out == ["s"]
    assert not receiver.order.safe_waits(0, 99)


def test_causes_that_are_all_held_are_not_forgone() -> None:
    receiver = Receiver(rings=2)
    receiver.packet(1, bundle(FIFO, 1, "x"), ring=1, daemon=2, time=5)
    receiver.packet(1, bundle(AGREED, 1, "a"), time=10, causes=((0, 1), Stamp(0, 0)))
    receiver.horizon(1, 10, 1)
    assert receiver.out == ["x", "a"]
    assert receiver.streams[0].packets[1].vector == (0, 1)


def test_a_packet_waits_for_an_agreed_cause_that_does_not_exist_no_longer_than_for_itself() -> None:
    """A daemon that lies once ended all others in this way: the session's order was broken."""
    receiver = Receiver()
    lie = ((0,), Stamp(9, 0))
    receiver.packet(1, bundle(CAUSAL, 1, "c"), bundle(AGREED, 1, "a"), time=10, causes=lie)
    assert receiver.out == ["c", "a"]


def test_causes_that_were_forgone_are_not_looked_up_again() -> None:
    receiver = Receiver()
    receiver.packet(1, bundle(FIFO, 1, "f"), causes=((0,), Stamp(9, 0)))
    receiver.packet(2, bundle(CAUSAL, 1, "c"), previous=1, reference=1)
    receiver.packet(3, bundle(AGREED, 2, "a"), daemon=1, causes=((0,), Stamp(0, 0)))
    assert receiver.out == ["f", "c", "a"]
    packet = receiver.streams[0].packets[2]
    receiver.order.resolve(packet)
    assert (packet.vector, packet.agreed, packet.reference) == (None, None, 0)


def test_bundles_say_that_they_are_released() -> None:
    receiver = Receiver(rings=2)
    agreed, fifo = bundle(AGREED, 1, "a"), bundle(FIFO, 2, "f")
    receiver.packet(1, agreed, fifo, causes=((0, 0), Stamp(0, 0)))
    assert (agreed.released, fifo.released) == (False, True)
    receiver.horizon(1, 10, 0)
    assert agreed.released


def test_the_invariants_stop_a_message_that_overtakes_its_cause() -> None:
    receiver = Receiver(rings=2)
    receiver.packet(1, bundle(AGREED, 1, "a"), bundle(FIFO, 1, "f"), causes=((0, 0), Stamp(0, 0)))
    receiver.packet(2, bundle(AGREED, 2, "b"), daemon=1, causes=((0, 0), Stamp(0, 0)))
    receiver.streams[0].packets[1].pending += 1  # as if another message waited
    with pytest.raises(AssertionError, match="undelivered below stamp 20"):
        receiver.horizon(1, 20, 0)


def test_what_daemons_say_to_each_other_waits_for_no_agreed_bundle_of_theirs() -> None:
    """Who reports a frontier above a SUBSCRIBE says that it acts on it."""
    receiver = Receiver(rings=2)
    receiver.packet(1, bundle(AGREED, 0, "k"))
    receiver.packet(2, bundle(FIFO, 0, "s"), bundle(FIFO, 1, "f"), previous=1)
    receiver.packet(3, bundle(AGREED, 1, "a"), bundle(FIFO, 1, "g"), previous=2)
    assert receiver.out == ["s", "f"]
    receiver.horizon(1, 15, 0)
    assert receiver.out == ["s", "f", "k"]
