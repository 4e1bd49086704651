"""The early part: what daemons may have delivered beyond the boundary, alike for all of a ring."""

import pytest

from groupcomm.clocks.stamp import Stamp
from groupcomm.level import ServiceLevel
from groupcomm.membership.early_part import EarlyPart
from groupcomm.wire.data import DataPacket
from tests.groupcomm.order.receiver import AGREED, CAUSAL, FIFO, RELIABLE, SAFE, bundle

BOUNDARY = Stamp(100, 1)
LOW, BELOW, BEYOND = Stamp(20, 0), Stamp(50, 0), Stamp(100, 1)
OWN = 0


def decide(
    part: EarlyPart,
    number: int,
    *levels: ServiceLevel,
    wait: Stamp | None = None,
    vector: tuple[int, int] = (0, 0),
    agreed: Stamp = BELOW,
    session: int = 1,
    whole: bool = True,
    ring: int = OWN,
    safe: int = 0,
) -> list[bool]:
    """Return which bundles of the next packet are regular."""
    packet = DataPacket(
        ring=ring,
        number=number,
        time=200 + number,
        daemon=0,
        previous=number - 1,
        bundles=[bundle(level, session, "x") for level in levels],
        vector=vector,
        agreed=agreed,
        wait=wait,
        wait_number=safe,
    )
    assert part.is_beyond(packet)
    return [part.accepts(packet, each, whole=whole) for each in packet.bundles]


@pytest.fixture
def part() -> EarlyPart:
    return EarlyPart(BOUNDARY, OWN, [9, 9], 4)


def test_a_local_packet_is_regular_if_its_wait_is_below_the_boundary(part: EarlyPart) -> None:
    assert decide(part, 1, AGREED, wait=BELOW) == [True]
    assert part.has_local
    assert decide(part, 2, AGREED, wait=BEYOND, session=2) == [False]
    assert decide(part, 3, AGREED, session=3) == [False], "it is global"
    assert len(part.bundles) == 1


def test_nothing_follows_what_its_session_lacks(part: EarlyPart) -> None:
    assert decide(part, 1, FIFO, SAFE, FIFO, RELIABLE) == [True, False, False, True]
    assert decide(part, 2, AGREED, wait=BELOW) == [False]
    assert decide(part, 3, AGREED, wait=LOW, session=2) == [True]
    assert decide(part, 4, FIFO, session=3, whole=False) == [False]
    assert not decide(part, 5, AGREED, wait=LOW, session=3)[0]


@pytest.mark.parametrize("level", [CAUSAL, AGREED])
def test_causes_have_to_be_there_and_regular(part: EarlyPart, level: ServiceLevel) -> None:
    assert decide(part, 1, level, wait=BELOW, vector=(0, 10)) == [False], "one is missing"
    assert decide(part, 5, FIFO, ring=1, session=7, whole=False) == [False]
    assert decide(part, 2, level, wait=LOW, vector=(0, 4), session=2) == [True]
    assert decide(part, 3, level, wait=LOW, vector=(0, 5), session=3) == [False]


def test_what_is_causal_follows_the_local_packets_that_its_daemon_had_delivered(
    part: EarlyPart,
) -> None:
    assert decide(part, 1, AGREED, wait=BELOW, vector=(0, 10)) == [False]
    assert decide(part, 2, CAUSAL, vector=(1, 0), session=2) == [False]
    assert decide(part, 3, CAUSAL, vector=(1, 0), agreed=Stamp(49, 0), session=3) == [True]
    assert decide(part, 4, CAUSAL, agreed=BEYOND, session=4) == [False]


def test_what_was_dropped_below_the_boundary_is_no_cause(part: EarlyPart) -> None:
    lost = bundle(FIFO, 5, "x")
    packet = DataPacket(ring=1, number=3, time=40, daemon=1, previous=2, bundles=[lost])
    assert not part.is_beyond(packet)
    part.miss(packet, lost)
    assert decide(part, 1, AGREED, wait=BELOW, vector=(0, 3)) == [False]
    assert decide(part, 2, AGREED, wait=LOW, vector=(0, 2), session=2) == [True]


def test_what_waits_for_the_whole_ring_is_regular_if_that_is_known_to_be_able_to_deliver_it(
    part: EarlyPart,
) -> None:
    assert decide(part, 4, SAFE, wait=BELOW, safe=4) == [True]
    assert decide(part, 5, SAFE, wait=BELOW, safe=5, session=2) == [False]
    assert decide(part, 6, AGREED, wait=BELOW, safe=5, session=3) == [False]
    assert decide(part, 7, AGREED, wait=BELOW, safe=4, session=4) == [True]


def test_nothing_is_regular_that_no_daemon_delivers_before_what_is_not(part: EarlyPart) -> None:
    high = Stamp(60, 0)
    assert decide(part, 1, AGREED, wait=BELOW, vector=(0, 10)) == [False], "a cause is missing"
    assert decide(part, 2, AGREED, wait=BELOW, session=2) == [False]
    assert decide(part, 3, AGREED, wait=high, session=3) == [False]
    assert decide(part, 4, AGREED, wait=LOW, session=4) == [True], "it may have come first"
