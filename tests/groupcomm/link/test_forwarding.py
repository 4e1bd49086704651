"""Gateways pass packets on, ask for what links never got, and answer such requests."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import Timing
from groupcomm.config.view import RING, DaemonId, Incarnation, View
from groupcomm.errors import ProtocolViolation
from groupcomm.link.forwarding import MEETING_PART, RESEND_BYTES, Forwarding
from groupcomm.link.routes import Routes
from groupcomm.stream.stream import Stream
from groupcomm.wire.data import DataPacket
from groupcomm.wire.horizon import HorizonNotice, HorizonPacket
from groupcomm.wire.link import (
    LINK_BYTES,
    Acknowledgement,
    LinkPacket,
    ResendRequest,
    decode_link_untrusted,
    decode_resend_untrusted,
)
from groupcomm.wire.packet import PacketKind
from tests.groupcomm.link.pair import know_path, notice

DAEMONS = tuple(DaemonId(name, Incarnation(1, 1)) for name in "abcde")
VIEW = View(
    id=ViewId(1, "a", 1),
    daemons=DAEMONS,
    rings=((0, 1), (2, 3), (4,)),
    links=((0, 2), (0, 4), (2, 4)),
    longest_delay_s=0.04,
)


X = bytes([PacketKind.DATA]) + VIEW.key + b"x"


def gateway(ring: int) -> tuple[Forwarding, list[Stream]]:
    streams = [Stream(index, 0) for index in range(3)]
    me = VIEW.rings[ring][0]
    forwarding = Forwarding(VIEW, me, Routes(VIEW, me), streams, Timing())
    for link in forwarding.links.values():
        know_path(link)
    forwarding.deadline = inf
    return forwarding, streams


def told(*notices: HorizonNotice) -> bytes:
    return HorizonPacket(notices=[*notices]).encode(VIEW.key)


def over_link(sender: int, number: int) -> LinkPacket:
    return LinkPacket(sender=sender, number=number, packet=X)


def whole(held: DataPacket) -> bytes:
    return held.raw


def packet(ring: int, number: int, raw: bytes = b"raw") -> DataPacket:
    return DataPacket(
        ring=ring, number=number, time=number, daemon=0, previous=0, bundles=[], raw=raw
    )


def carried(forwarding: Forwarding, now: float) -> list[tuple[int, bytes]]:
    """Return the packets that go over links now, without their heads."""
    return [
        (target, decode_link_untrusted(raw).packet)
        for target, raw in forwarding.step(now)
        if raw[0] == PacketKind.LINK
    ]


def test_own_packets_go_to_every_other_ring_and_foreign_ones_into_the_own() -> None:
    forwarding, _ = gateway(1)
    assert not forwarding.forward(1, 1, X)
    assert carried(forwarding, 0.0) == [(0, X), (4, X)]
    assert forwarding.forward(0, 1, X), "the own ring gets it"
    assert carried(forwarding, 0.1) == []


def test_notices_take_the_same_way_without_numbers() -> None:
    forwarding, _ = gateway(1)
    one = told(notice(1))
    forwarding.forward_notice(notice(1), 0.0)
    assert forwarding.step(0.0) == [(0, one), (4, one)], "a fellow has told the ring"
    assert forwarding.announce(notice(1), 0.0) == [one]
    assert forwarding.step(0.0) == [(0, one), (4, one)]


def test_notices_of_other_rings_wait_a_moment_for_each_other_before_a_link() -> None:
    forwarding, _ = gateway(0)
    forwarding.reroute(Routes(VIEW, 0, ((0, 2), (0, 4))), 0.0)
    hold_s = Timing().horizon_interval_min_s
    forwarding.forward_notice(notice(1), 0.0)
    assert forwarding.step(0.0) == [(RING, told(notice(1)))]
    assert forwarding.deadline == hold_s
    forwarding.forward_notice(notice(1, 2), hold_s / 2)
    forwarding.forward_notice(notice(0), hold_s / 2)
    both = told(notice(0), notice(1, 2))
    assert (4, both) in forwarding.step(hold_s / 2), "the own one waits for nothing"
    assert forwarding.step(2 * hold_s) == []


def test_notices_of_other_rings_go_into_the_ring_at_once() -> None:
    """A frontier that rises sends the token round at once; it is not to be there before them."""
    forwarding, _ = gateway(1)
    forwarding.forward_notice(notice(2), 0.0)
    forwarding.forward_notice(notice(0), 0.0)
    both = told(notice(0), notice(2))
    assert forwarding.step(0.0) == [(RING, both)], "both came by links, and lead on to none"
    assert forwarding.step(1.0) == []


def test_the_rings_own_notice_takes_along_what_waits() -> None:
    forwarding, _ = gateway(1)
    forwarding.forward_notice(notice(0), 0.0)
    assert forwarding.announce(notice(1), 0.0) == [told(notice(0), notice(1))]
    own = told(notice(1))
    assert forwarding.step(0.0) == [(0, own), (4, own)]


def test_a_notice_goes_where_the_rings_are_that_it_is_addressed_to() -> None:
    forwarding, _ = gateway(0)
    forwarding.reroute(Routes(VIEW, 0, ((0, 2), (0, 4))), 0.0)
    for targets, ways in ((0b001, [RING]), (0b100, [4]), (0b101, [RING, 4]), (0, [RING, 4])):
        forwarding.forward_notice(notice(1, targets=targets), 0.0)
        assert [target for target, _ in forwarding.step(1.0)] == ways
    forwarding.forward_notice(notice(0, targets=0b010), 0.0)
    assert forwarding.step(1.0) == [(2, told(notice(0, targets=0b010)))]


def test_a_notice_that_takes_the_place_of_another_goes_to_the_rings_of_both() -> None:
    """Else those of the older one would wait until something else is sent."""
    for one, other, both in ((0b001, 0b100, 0b101), (0, 0b100, 0), (0b001, 0, 0)):
        forwarding, _ = gateway(1)
        forwarding.reroute(Routes(VIEW, 2, ((0, 2), (0, 4))), 0.0)
        forwarding.forward_notice(notice(1, 1, targets=one), 1.0)
        forwarding.forward_notice(notice(1, 2, targets=other), 1.0)
        assert forwarding.step(1.0) == [(0, told(notice(1, 2, targets=both)))]


def test_notices_of_the_shared_tree_meet_and_none_stands_for_another_kind() -> None:
    """All rings share the tree of ring 0: ring 1 hears of ring 2 by way of it, not directly."""
    forwarding, _ = gateway(1)
    for ring in (2, 0):
        forwarding.forward_notice(notice(ring, shared=True), 0.0)
    meeting_s = Timing().rest_interval_s / MEETING_PART
    assert forwarding.step(meeting_s / 2) == []
    met = told(notice(0, shared=True), notice(2, shared=True))
    assert forwarding.step(meeting_s) == [(RING, met)]
    forwarding.forward_notice(notice(1, shared=True), 1.0)
    forwarding.forward_notice(notice(1, targets=0b001), 1.0)
    assert forwarding.step(1.0) == [(0, told(notice(1, targets=0b001), notice(1, shared=True)))]


def test_only_the_other_end_of_a_link_is_listened_to() -> None:
    forwarding, _ = gateway(1)
    assert forwarding.on_packet(over_link(0, 1), 0, 0.0) == X
    assert forwarding.on_packet(over_link(0, 1), 0, 0.0) is None, "a copy"
    assert forwarding.on_packet(over_link(4, 1), 4, 0.0) == X, "each link counts for itself"
    assert forwarding.on_packet(over_link(1, 1), 1, 0.0) is None, "no link leads there"
    forwarding.on_acknowledgement(Acknowledgement(sender=1, delay_us=0, ranges=[(1, 1)]), 1, 0.0)


def test_nobody_speaks_for_the_other_end_of_a_link() -> None:
    forwarding, _ = gateway(1)
    with pytest.raises(ProtocolViolation, match="sender"):
        forwarding.on_packet(over_link(0, 1), 4, 0.0)
    with pytest.raises(ProtocolViolation, match="sender"):
        forwarding.on_acknowledgement(
            Acknowledgement(sender=0, delay_us=0, ranges=[(1, 1)]), 4, 0.0
        )
    assert forwarding.on_packet(over_link(0, 1), 0, 0.0) == X, "the number is still free"


@pytest.mark.parametrize("number", [2**33, 2**63, 2**64 - 1])
def test_no_link_has_carried_so_much_between_two_packets(number: int) -> None:
    """Its window would move on, and all that comes after it would be taken for old."""
    forwarding, _ = gateway(1)
    with pytest.raises(ProtocolViolation, match="link"):
        forwarding.on_packet(over_link(0, number), 0, 0.0)
    assert forwarding.on_packet(over_link(0, 1), 0, 0.0) == X


def test_what_is_acknowledged_in_the_moment_in_which_it_was_sent_divides_nothing_by_zero() -> None:
    """The other end has guessed that it would come."""
    forwarding, _ = gateway(1)
    link = forwarding.links[0]
    for count in range(1, 4):
        forwarding.forward_notice(notice(2, count), 0.0)
        forwarding.step(0.001)
        last = link.in_flight.last
        if last:
            forwarding.on_acknowledgement(
                Acknowledgement(sender=0, delay_us=0, ranges=[(1, last)]), 0, 0.001
            )
        assert link.bandwidth.pace > 0


@pytest.mark.parametrize("number", [1, 2**63, 2**64 - 1])
def test_what_was_never_sent_over_a_link_is_not_acknowledged(number: int) -> None:
    forwarding, _ = gateway(1)
    with pytest.raises(ProtocolViolation, match="ack"):
        forwarding.on_acknowledgement(
            Acknowledgement(sender=0, delay_us=0, ranges=[(1, number)]), 0, 0.0
        )


def test_what_the_link_does_not_repair_is_asked_for_where_it_should_have_come_from() -> None:
    forwarding, streams = gateway(1)
    streams[0].accept(packet(0, 1))
    streams[0].accept(packet(0, 4))
    forwarding.update_gaps(0, 1.0)
    assert forwarding.step(1.0 + 2 * VIEW.longest_delay_s) == [], "the link may repair it"
    ((target, raw),) = forwarding.step(forwarding.deadline)
    request = decode_resend_untrusted(raw)
    assert (target, request.ring, request.asker, request.ranges) == (0, 0, 2, [(2, 3)])


def test_a_request_is_answered_with_what_is_held_within_bounds() -> None:
    forwarding, streams = gateway(0)
    half = RESEND_BYTES // 2
    for number in (1, 2, 3, 4):
        streams[0].accept(packet(0, number, X + bytes([number]) * half))
    forwarding.on_resend_request(ResendRequest(ring=0, asker=4, ranges=[(2, 2**63)]), whole, 0.0)
    forwarding.on_resend_request(ResendRequest(ring=0, asker=1, ranges=[(1, 4)]), whole, 0.0)
    assert forwarding.links[4].queue.bytes == 2 * (half + len(X) + LINK_BYTES)
    assert not forwarding.links[2].queue


COUNT = 40
NUMBERS = st.sets(st.integers(1, COUNT - 1))


@given(NUMBERS, st.lists(NUMBERS, max_size=4))
def test_whatever_a_link_never_got_comes_in_the_end(
    lost: set[int], lost_again: list[set[int]]
) -> None:
    """One gateway originates, the other gets all but `lost`; of later answers some are lost too."""
    near, near_streams = gateway(0)
    far, far_streams = gateway(1)
    for number in range(1, COUNT + 1):
        near_streams[0].accept(packet(0, number, X + bytes([number])))
        if number not in lost:
            far_streams[0].accept(packet(0, number))
    now = 0.0
    far.update_gaps(0, now)
    for losses in [*lost_again, set[int]()]:
        missing = {n for n in range(1, COUNT + 1) if n not in far_streams[0].packets}
        now = min(far.deadline, now + 10)
        for target, raw in far.step(now):
            assert target == 0
            near.on_resend_request(decode_resend_untrusted(raw), whole, now)
        sent = []
        while (answers := carried(near, now)) or near.links[2].queue:
            now += 0.001
            sent += [raw[-1] for _, raw in answers]
            acknowledge(near, now)
        assert sent == sorted(missing), "each once, and nothing else"
        assert far.step(now) == [], "nobody asks twice while an answer is on its way"
        for number in set(sent) - losses:
            far_streams[0].accept(packet(0, number))
        far.update_gaps(0, now)
    assert far_streams[0].held == COUNT
    assert far.step(now + 100.0) == []
    assert far.deadline == float("inf")


def acknowledge(forwarding: Forwarding, now: float) -> None:
    """The other end has got everything, as far as its link knows."""
    last = forwarding.links[2].in_flight.last
    if last:
        ack = Acknowledgement(sender=2, delay_us=0, ranges=[(1, last)])
        forwarding.on_acknowledgement(ack, 2, now)
