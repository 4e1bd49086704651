"""Gateways pass packets on, ask for what was lost between rings, and answer such requests."""

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import Timing
from groupcomm.config.view import RING, DaemonId, Incarnation, View
from groupcomm.hop.handover import RESEND_BYTES, Handover
from groupcomm.hop.routes import Routes
from groupcomm.stream.stream import Stream
from groupcomm.wire.data import DataPacket
from groupcomm.wire.resend import ResendRequest, decode_resend_untrusted

DAEMONS = tuple(DaemonId(name, Incarnation(1, 1)) for name in "abcde")
VIEW = View(
    id=ViewId(1, "a", 1),
    daemons=DAEMONS,
    rings=((0, 1), (2, 3), (4,)),
    links=((0, 2), (0, 4), (2, 4)),
    longest_delay_s=0.04,
)


def gateway(ring: int) -> tuple[Handover, list[Stream]]:
    streams = [Stream(index, 0) for index in range(3)]
    me = VIEW.rings[ring][0]
    return Handover(VIEW, me, Routes(VIEW, me), streams, Timing()), streams


def packet(ring: int, number: int, raw: bytes = b"raw") -> DataPacket:
    return DataPacket(
        ring=ring, number=number, time=number, daemon=0, previous=0, bundles=[], raw=raw
    )


def test_own_packets_go_to_every_other_ring_and_foreign_ones_into_the_own() -> None:
    handover, _ = gateway(1)
    assert handover.pass_on(1, b"x") == [(0, b"x"), (4, b"x")]
    assert handover.pass_on(0, b"x") == [(RING, b"x")]


def test_a_loss_between_rings_is_asked_for_where_it_came_from() -> None:
    handover, streams = gateway(1)
    streams[0].accept(packet(0, 1))
    streams[0].accept(packet(0, 4))
    handover.update(0, 1.0)
    assert handover.requests(1.0) == [], "it may only be reordered"
    ((target, raw),) = handover.requests(handover.deadline)
    request = decode_resend_untrusted(raw)
    assert (target, request.ring, request.asker, request.ranges) == (0, 0, 2, [(2, 3)])
    assert handover.deadline >= 1.0 + 2 * VIEW.longest_delay_s, "an answer takes both ways"


def test_a_request_is_answered_with_what_is_held_within_bounds() -> None:
    handover, streams = gateway(0)
    for number in (1, 2, 3):
        streams[0].accept(packet(0, number, bytes([number]) * (RESEND_BYTES // 2)))
    answers = handover.answer(ResendRequest(ring=0, asker=4, ranges=[(2, 2**63)]))
    assert [(target, raw[0]) for target, raw in answers] == [(4, 2), (4, 3)]
    assert len(handover.answer(ResendRequest(ring=0, asker=4, ranges=[(1, 3)]))) == 2


COUNT = 40
NUMBERS = st.sets(st.integers(1, COUNT - 1))


@given(NUMBERS, st.lists(NUMBERS, max_size=4))
def test_whatever_is_lost_on_the_way_comes_in_the_end(
    lost: set[int], lost_again: list[set[int]]
) -> None:
    """One gateway originates, the other gets all but `lost`; of later answers some are lost too."""
    near, near_streams = gateway(0)
    far, far_streams = gateway(1)
    for number in range(1, COUNT + 1):
        near_streams[0].accept(packet(0, number, bytes([number])))
        if number not in lost:
            far_streams[0].accept(packet(0, number))
    now = 0.0
    far.update(0, now)
    for losses in [*lost_again, set[int]()]:
        missing = {n for n in range(1, COUNT + 1) if n not in far_streams[0].packets}
        now = min(far.deadline, now + 10)
        asked = [decode_resend_untrusted(raw) for target, raw in far.requests(now) if target == 0]
        answers = [raw[0] for request in asked for target, raw in near.answer(request)]
        assert answers == sorted(missing), "each once, and nothing else"
        assert far.requests(now) == [], "nobody asks twice while an answer is on its way"
        for number in set(answers) - losses:
            far_streams[0].accept(packet(0, number))
        far.update(0, now)
    assert far_streams[0].held == COUNT
    assert far.deadline == float("inf")
