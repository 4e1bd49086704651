"""What does not fit the packets that are here is refused, at each side of each boundary."""

import pytest

from groupcomm.clocks.stamp import Stamp
from groupcomm.errors import Contradiction, ProtocolViolation
from groupcomm.stream.stream import MAX_AHEAD
from groupcomm.wire.data import DataPacket
from tests.groupcomm.order.receiver import FIFO, Receiver, bundle

NONE = ((0,), Stamp(0, 0))


class Gate(Receiver):
    """A receiver that admits packets before it receives them."""

    def admit(self, packet: DataPacket) -> None:
        """Check a packet."""
        self.order.admission.check(packet)

    def refuses(self, packet: DataPacket, reason: str) -> bool:
        """Return whether a packet is refused for this reason with nobody to blame."""
        with pytest.raises(ProtocolViolation) as raised:
            self.admit(packet)
        assert raised.value.reason == reason
        return isinstance(raised.value, Contradiction)

    def x(self, number: int, daemon: int = 0, previous: int = 0, time: int = 0) -> DataPacket:
        """Return a packet with one message."""
        return self.make(number, bundle(FIFO, 1, "x"), daemon=daemon, previous=previous, time=time)

    def receive(self, number: int, daemon: int = 0, previous: int = 0, time: int = 0) -> None:
        """Admit and receive a packet with one message."""
        self.admit(self.x(number, daemon, previous, time))
        self.packet(number, bundle(FIFO, 1, "x"), daemon=daemon, previous=previous, time=time)


# ---- numbers ----


def test_a_number_may_be_a_window_ahead() -> None:
    gate = Gate()
    gate.receive(1)
    gate.admit(gate.x(MAX_AHEAD + 1, previous=MAX_AHEAD))
    assert gate.refuses(gate.x(MAX_AHEAD + 2, previous=2), "number")


def test_a_number_that_is_two_windows_ahead_is_its_senders_fault() -> None:
    gate = Gate()
    gate.receive(1)
    assert gate.refuses(gate.x(2 * MAX_AHEAD + 1, previous=2), "number")
    assert not gate.refuses(gate.x(2 * MAX_AHEAD + 2, previous=2), "number")


# ---- stamps ----


def test_a_stamp_is_above_the_horizon_of_its_ring() -> None:
    gate = Gate()
    gate.horizon(0, 50, 0)
    assert gate.refuses(gate.x(1, time=50), "stamp")
    gate.admit(gate.x(1, time=51))


def test_a_stamp_is_above_the_last_one_that_is_held() -> None:
    gate = Gate()
    gate.receive(1, time=50)
    gate.order.blocks.values[0] = 0  # a frozen view does not count horizons
    assert gate.refuses(gate.x(2, previous=1, time=50), "stamp")
    gate.admit(gate.x(2, previous=1, time=51))


def test_a_stamp_is_between_those_of_its_neighbours() -> None:
    gate = Gate()
    gate.receive(4, previous=2, time=40)
    gate.receive(8, previous=7, time=80)
    assert gate.refuses(gate.x(2, time=40), "stamp")
    gate.admit(gate.x(2, time=39))
    gate.admit(gate.x(2, time=1))
    assert gate.refuses(gate.x(6, daemon=1, previous=5, time=40), "stamp")
    gate.admit(gate.x(6, daemon=1, previous=5, time=41))
    gate.admit(gate.x(6, daemon=1, previous=5, time=79))
    assert gate.refuses(gate.x(6, daemon=1, previous=5, time=80), "stamp")
    assert gate.refuses(gate.x(9, daemon=1, previous=3, time=80), "stamp")
    gate.admit(gate.x(9, daemon=1, previous=3, time=81))


def test_a_stamp_is_above_a_horizon_that_waits_for_packets_before_it() -> None:
    gate = Gate()
    gate.horizon(0, 50, 2)
    gate.admit(gate.x(2, previous=1, time=50))  # it is among those before the horizon
    assert gate.refuses(gate.x(3, previous=1, time=50), "stamp")
    gate.admit(gate.x(3, previous=1, time=51))


# ---- causes ----


def test_nothing_is_its_own_cause() -> None:
    gate = Gate()
    for vector, agreed in (((0,), Stamp(10, 0)), ((1,), Stamp(9, 0))):
        own = gate.make(1, bundle(FIFO, 1, "x"), time=10, causes=(vector, agreed))
        assert not gate.refuses(own, "causes")
    gate.admit(gate.make(1, bundle(FIFO, 1, "x"), time=10, causes=((0,), Stamp(9, 0))))
    gate.admit(gate.make(2, bundle(FIFO, 1, "x"), time=10, causes=((1,), Stamp(9, 0))))


def test_causes_are_within_the_window_of_their_ring() -> None:
    gate = Gate(rings=2)
    gate.admit(gate.make(1, bundle(FIFO, 1, "x"), causes=((0, MAX_AHEAD), Stamp(0, 0))))
    far = gate.make(1, bundle(FIFO, 1, "x"), causes=((0, MAX_AHEAD + 1), Stamp(0, 0)))
    assert gate.refuses(far, "causes")


def test_a_packet_refers_to_the_last_one_with_its_causes_in_full() -> None:
    gate = Gate()
    gate.packet(1, bundle(FIFO, 1, "x"), causes=NONE)
    gate.packet(2, bundle(FIFO, 1, "x"), previous=1, causes=NONE)
    right, wrong = gate.x(3, previous=2), gate.x(3, previous=2)
    right.reference, wrong.reference = 2, 1
    gate.admit(right)
    assert gate.refuses(wrong, "causes")


def test_nothing_refers_to_a_packet_without_causes() -> None:
    gate = Gate()
    first = gate.x(2)
    first.reference = 1
    assert gate.refuses(first, "causes")


def test_packets_that_wait_refer_to_the_one_that_comes_with_full_causes() -> None:
    gate = Gate()
    gate.packet(1, bundle(FIFO, 1, "x"), causes=NONE)
    waits = gate.x(3, previous=2)
    waits.reference = 2
    assert gate.streams[0].accept(waits)
    gate.order.accept(waits, 1)
    without = gate.x(2, previous=1)
    assert gate.refuses(without, "causes")
    gate.admit(gate.make(2, bundle(FIFO, 1, "x"), previous=1, causes=NONE))


# ---- chains ----


def test_a_packet_follows_the_last_one_of_its_daemon() -> None:
    gate = Gate()
    gate.receive(1)
    gate.receive(2, previous=1)
    assert gate.refuses(gate.x(3, previous=1), "chain")
    assert gate.refuses(gate.x(3, previous=0), "chain")
    gate.admit(gate.x(3, previous=2))


def test_a_second_first_packet_of_a_daemon_is_refused_also_while_nothing_is_held() -> None:
    gate = Gate()
    gate.receive(2)
    assert gate.refuses(gate.x(3), "chain")


def test_no_two_packets_follow_the_same_one() -> None:
    gate = Gate()
    gate.receive(4, previous=2)
    assert gate.refuses(gate.x(5, previous=2), "chain")
    gate.admit(gate.x(5, previous=4))
    gate.admit(gate.x(5, previous=3))


def test_a_packet_follows_one_of_its_own_daemon() -> None:
    gate = Gate()
    gate.receive(3, daemon=1, previous=2)
    assert gate.refuses(gate.x(5, daemon=0, previous=3), "chain")
    gate.admit(gate.x(5, daemon=1, previous=3))


def test_packets_after_a_gap_that_closes_follow_those_of_their_daemons() -> None:
    gate = Gate()
    gate.receive(1, daemon=1)
    gate.receive(3, daemon=1, previous=1)
    gate.receive(4, daemon=0, previous=2)
    gate.admit(gate.x(2))
    assert gate.refuses(gate.x(2, daemon=2), "chain"), "then packet 4 follows nothing"
    gate.receive(6, daemon=2, previous=5)
    gate.admit(gate.x(2))  # what comes behind the next gap is not looked at


def test_a_packet_that_closes_no_gap_is_not_compared_with_those_behind_it() -> None:
    gate = Gate()
    gate.receive(1)
    gate.receive(6, daemon=1, previous=3)
    gate.admit(gate.x(5, previous=2))


def test_a_packet_that_closes_a_gap_comes_between_those_of_its_daemon() -> None:
    gate = Gate()
    gate.receive(1)
    gate.receive(3, previous=1)  # so packet 2 is not of daemon 0
    gate.admit(gate.x(2, daemon=1))
    assert gate.refuses(gate.x(2, previous=1), "chain")


# ---- horizons ----


def test_a_horizon_is_within_the_window() -> None:
    gate = Gate()
    admission = gate.order.admission
    admission.check_horizon(0, 50, MAX_AHEAD)
    with pytest.raises(Contradiction, match="beyond any window"):
        admission.check_horizon(0, 50, MAX_AHEAD + 1)


def test_a_horizon_is_broken_by_a_held_packet_after_it() -> None:
    gate = Gate()
    gate.receive(1, time=50)
    gate.receive(2, previous=1, time=60)
    admission = gate.order.admission
    admission.check_horizon(0, 60, 1)  # says nothing that is not known
    admission.check_horizon(0, 61, 2)
    with pytest.raises(Contradiction, match="breaks horizon 61"):
        admission.check_horizon(0, 61, 1)


def test_a_horizon_is_broken_by_the_first_early_packet_after_it() -> None:
    gate = Gate()
    gate.receive(2, previous=1, time=20)
    gate.receive(4, previous=3, time=40)
    admission = gate.order.admission
    admission.check_horizon(0, 19, 1)
    with pytest.raises(Contradiction, match="breaks horizon 20"):
        admission.check_horizon(0, 20, 1)
    admission.check_horizon(0, 39, 2)
    with pytest.raises(Contradiction, match="breaks horizon 40"):
        admission.check_horizon(0, 40, 3)
    admission.check_horizon(0, 99, 4)
