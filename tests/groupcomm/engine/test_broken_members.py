"""Packets that only a broken member can have sent: they are refused, counted, and change nothing.

A member has the key, so its packets are sealed well. Each lie is sent to a daemon in a view with
members of a group; whatever it was, all of them then still get what each of them sends.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import attrs
import pytest

from groupcomm.clocks.stamp import Stamp
from groupcomm.config.view import Incarnation
from groupcomm.errors import Contradiction
from groupcomm.level import ServiceLevel
from groupcomm.membership.recovered_set import RecoveredSet
from groupcomm.membership.trust import FEW
from groupcomm.names import daemon_number
from groupcomm.security.layout import HEAD_BYTES
from groupcomm.stream.stream import MAX_AHEAD
from groupcomm.wire.data import decode_data_untrusted
from groupcomm.wire.link import Acknowledgement, LinkPacket
from groupcomm.wire.membership import (
    Commit,
    Leave,
    encode_message,
)
from groupcomm.wire.packet import PacketKind
from tests.groupcomm.engine.lying_cluster import (
    CHECKSUM_BYTES,
    END,
    LyingCluster,
    X,
    beacon,
    bundle,
    data,
    held,
    held_notice,
    horizon,
    join,
    none_held,
    now,
    others_of,
    request,
    resend,
    rest,
    rows,
    token,
    unreliable,
)
from tests.verification.simulation.byzantine.lies import lie

pytestmark = pytest.mark.verification


@attrs.frozen
class Lie:
    """The lie, the kind under which it is counted, and whether the liar is to blame for it."""

    name: str
    kind: str
    make: Callable[[LyingCluster], bytes]
    blamed: bool = True


LIES = [
    Lie("token with the last hop of all", "hop", lambda s: token(s, hop=END)),
    Lie("token with the last time of all", "time", lambda s: token(s, clock=END)),
    Lie(
        "token with a frontier in a million years",
        "time",
        lambda s: token(s, rows=rows(s, 1, frontier=END)),
    ),
    Lie("token of packets that no window allows", "token", lambda s: token(s, last=END)),
    Lie(
        "token by which more is held than there is",
        "token",
        lambda s: token(s, rows=rows(s, s.you, held=[held(s) + 1])),
    ),
    Lie("token whose bytes do not add up", "token", lambda s: token(s, burst=7)),
    Lie("token that asks for packet 0", "number", lambda s: token(s, requests=[(0, 0, 1)])),
    Lie(
        "token that asks for what never was",
        "number",
        lambda s: token(s, requests=[(0, 1, held(s) + 2 * MAX_AHEAD + 1)]),
    ),
    Lie(
        "token that forgets packets",
        "token",
        lambda s: token(s, last=1, rows=none_held(s)),
        blamed=False,
    ),
    Lie(
        "token with a frontier that its daemon never told",
        "token",
        lambda s: token(s, rows=rows(s, s.me, frontier=now(s) + 10**6)),
        blamed=False,
    ),
    Lie("rest in another's name", "sender", lambda s: rest(s, holder=s.me)),
    Lie("rest with the last hop of all", "hop", lambda s: rest(s, hop=END)),
    Lie("rest with the last time of all", "time", lambda s: rest(s, horizon=END)),
    Lie("rest with frontiers of no clock", "time", lambda s: rest(s, frontiers=[0, 0, END])),
    Lie("rest over packets that are not here", "rest", lambda s: rest(s, last=END), blamed=False),
    Lie(
        "rest with a frontier that its daemon never told",
        "rest",
        lambda s: rest(s, frontiers=[now(s) + 10**6] * 3),
        blamed=False,
    ),
    Lie("request in another's name", "sender", lambda s: request(s, daemon=s.me)),
    Lie("request with the last hop of all", "hop", lambda s: request(s, hop=END)),
    Lie("held in another's name", "sender", lambda s: held_notice(s, daemon=s.me)),
    Lie("held with the last time of all", "time", lambda s: held_notice(s, frontier=END)),
    Lie("held up to what no window allows", "held", lambda s: held_notice(s, held=END)),
    Lie("held by a daemon of no ring", "held", lambda s: held_notice(s, daemon=99)),
    Lie("horizon with the last time of all", "time", lambda s: horizon(s, horizon=END)),
    Lie("horizon with a frontier of no clock", "time", lambda s: horizon(s, frontier=END)),
    Lie("horizon up to what no window allows", "horizon", lambda s: horizon(s, upto=END)),
    Lie("horizon of holders of nothing", "horizon", lambda s: horizon(s, held=[(0, END)])),
    Lie(
        "horizon that is broken already",
        "horizon",
        lambda s: horizon(s, upto=held(s) - 1, horizon=now(s) + 10**6),
        blamed=False,
    ),
    Lie(
        "horizon with a frontier that its daemon never told",
        "horizon",
        lambda s: horizon(s, frontier=now(s) + 10**6),
        blamed=False,
    ),
    Lie("asking in another's name", "sender", lambda s: resend(s, asker=s.me)),
    Lie("asking for what never was", "number", lambda s: resend(s, ranges=[(1, END)])),
    Lie("packet stamped with the last time of all", "time", lambda s: data(s, time=END)),
    Lie("packet that no window allows", "number", lambda s: data(s, number=END)),
    Lie("packet below a horizon", "stamp", lambda s: data(s, time=1), blamed=False),
    Lie("packet behind another's", "chain", lambda s: data(s, previous=0), blamed=False),
    Lie(
        "packet that is its own cause",
        "causes",
        lambda s: data(s, vector=(held(s) + 1,), agreed=Stamp(0, 0)),
    ),
    Lie(
        "packet whose causes cannot be",
        "number",
        lambda s: data(s, number=held(s) + 2 * MAX_AHEAD + 1, vector=(END,), agreed=Stamp(0, 0)),
    ),
    Lie(
        "packet with the causes of none",
        "causes",
        lambda s: data(s, reference=held(s)),
        blamed=False,
    ),
    Lie("packet of a user without a name", "name", lambda s: data(s, bundles=[bundle(user="")])),
    Lie(
        "packet of a user with a name that nobody can have",
        "data",
        lambda s: data(s, bundles=[bundle(user="x" * 255)]),
    ),
    Lie("packet of no daemon", "data", lambda s: data(s, daemon=9)),
    Lie("unreliable datagram of no daemon", "unreliable", lambda s: unreliable(s, daemon=9)),
    Lie("token of no ring", "token", lambda s: token(s, ring=9)),
    Lie("rest of no ring", "rest", lambda s: rest(s, ring=9)),
    Lie("request of no ring", "request", lambda s: request(s, ring=9)),
    Lie("horizon of no ring", "horizon", lambda s: horizon(s, ring=9)),
    Lie("asking for packets of no ring", "resend", lambda s: resend(s, ring=9)),
    Lie(
        "numbered bundle that should have no number",
        "bundle",
        lambda s: data(s, bundles=[bundle(ServiceLevel.UNRELIABLE)]),
    ),
    Lie(
        "bundle without the number that it should have",
        "bundle",
        lambda s: unreliable(s, bundles=[bundle()]),
    ),
    Lie(
        "unreliable datagram in another's name",
        "sender",
        lambda s: unreliable(s, daemon=3 - s.me - s.you),
    ),
    Lie("unreliable datagram after all others", "counter", lambda s: unreliable(s, counter=END)),
    Lie("packet of no kind", "view", lambda s: bytes((250,)) + s.view_state.key),
    Lie("hop packet that ends", "short", lambda s: token(s)[:20]),
    Lie(
        "message after all others",
        "sequence",
        lambda s: s.cut(*encode_message(Leave()), sequence=END),
    ),
    Lie(
        "join in another's name",
        "name",
        lambda s: s.control(join(s, name="z")),
    ),
    Lie("join with a number of no clock", "number", lambda s: s.control(join(s, counter=2**63))),
    Lie("beacon with a number of no clock", "number", lambda s: s.control(beacon(s, 2**63))),
    Lie(
        "commit to a view of others",
        "commit",
        lambda s: s.control(Commit(1, others_of(s), False, False, ())),
    ),
    Lie(
        "join without a version",
        "versions",
        lambda s: s.control(join(s, spoken=(0, 0, 0))),
    ),
    Lie(
        "message in the name of another start",
        "origin",
        lambda s: s.cut(*encode_message(beacon(s, 1)), start=Incarnation(7, 7)),
    ),
]


JUST_TOO_FAR = [
    Lie("time", "time", lambda s: data(s, time=now(s) + 2**36 + 10**9)),
    Lie("number", "number", lambda s: data(s, number=held(s) + MAX_AHEAD + 1)),
    Lie("horizon", "horizon", lambda s: horizon(s, upto=held(s) + MAX_AHEAD + 1)),
    Lie("token", "token", lambda s: token(s, last=held(s) + MAX_AHEAD + 1)),
]


@pytest.mark.parametrize("told", JUST_TOO_FAR, ids=lambda told: told.name)
def test_who_passes_on_what_is_just_too_far_is_not_blamed(told: Lie) -> None:
    """It holds a little more, or its clock is a little ahead: there it was not too far."""
    lying = LyingCluster("abc")
    lying.tell(told.make(lying))
    assert lying.core.counters.violations == {told.kind: 1}
    assert not lying.core.membership.trust.broken
    lying.assert_all_goes_on()


@pytest.mark.parametrize("told", LIES, ids=lambda told: told.name.replace(" ", "-"))
def test_a_lie_is_refused_and_counted_and_all_goes_on(told: Lie) -> None:
    lying = LyingCluster("abc")
    trust = lying.core.membership.trust
    lying.tell(told.make(lying))
    assert lying.core.counters.violations == {told.kind: 1}
    blamed = {number: dict(fellow.counts) for number, fellow in trust.broken.items()}
    assert blamed == ({daemon_number(lying.liar): {told.kind: 1}} if told.blamed else {})
    lying.assert_all_goes_on()


# ---- what contradicts what came before ----


def test_a_second_token_is_refused_while_the_token_is_here() -> None:
    lying = LyingCluster("abc", away=False)
    lying.tell(token(lying))
    assert lying.core.counters.violations == {"token": 1}
    assert not lying.core.membership.trust.broken, "who knows where it comes from"
    lying.assert_all_goes_on()


def test_the_token_rests_nowhere_else_while_it_is_here() -> None:
    lying = LyingCluster("abc", away=False)
    lying.tell(rest(lying, hop=lying.view_state.ring.monitor.hop + 1))
    assert lying.core.counters.violations == {"rest": 1}
    lying.assert_all_goes_on()


def test_nobody_gives_numbers_while_the_token_is_here() -> None:
    """Its holder would promise that nothing more comes below its clock (simulator seed 2266)."""
    lying = LyingCluster("abc", away=False)
    lying.tell(data(lying, ahead=3, previous=held(lying) + 1))
    lying.tell(horizon(lying, upto=held(lying) + 3))
    assert lying.core.counters.violations == {"number": 2}
    lying.assert_all_goes_on()


def test_two_packets_with_one_number_contradict_each_other() -> None:
    lying = LyingCluster("abc")
    before = len(lying.view_state.streams[0].packets)
    lying.tell(data(lying, ahead=2, previous=held(lying) + 1))
    lying.tell(data(lying, ahead=2, previous=held(lying) + 1, bundles=[bundle(user="v")]))
    assert lying.core.counters.violations == {"content": 1}
    assert len(lying.view_state.streams[0].packets) == before + 1, "the first one stays"


def test_stamps_that_do_not_rise_with_the_numbers_contradict_each_other() -> None:
    lying = LyingCluster("abc")
    lying.tell(data(lying, ahead=5, previous=held(lying) + 4))
    lying.tell(data(lying, ahead=3, previous=held(lying) + 2, time=now(lying) + 50))
    assert lying.core.counters.violations == {"stamp": 1}


def test_stamps_rise_also_where_packets_come_when_the_view_has_ended() -> None:
    """Two with one stamp would have one place: it was given twice (Byzantine seed 1400077)."""
    lying = LyingCluster("abc")
    delivery, later = lying.view_state.delivery, now(lying) + 9
    one = data(lying, ahead=1, time=later)
    other = data(lying, ahead=2, previous=held(lying) + 1, time=later)
    assert delivery.receive_recovered(decode_data_untrusted(one))
    with pytest.raises(Contradiction, match="is stamped"):
        delivery.receive_recovered(decode_data_untrusted(other))


def test_a_packet_is_new_once() -> None:
    lying = LyingCluster("abc")
    delivery = lying.view_state.delivery
    one, gap, later = (decode_data_untrusted(data(lying, ahead=n)) for n in (1, 2, 3))
    later.previous = gap.number
    assert delivery.receive(one)
    assert delivery.receive(later)
    assert not delivery.receive(one)
    assert not delivery.receive(later), "also behind a gap"


def test_packets_behind_a_gap_that_follow_nothing_contradict_what_closes_it() -> None:
    lying = LyingCluster("abc")
    third = 3 - lying.me - lying.you
    behind = data(lying, ahead=2, previous=held(lying) + 1)
    end = lying.view_state.delivery.order.chain_ends[third]
    closing = data(lying, ahead=1, daemon=third, previous=end)
    lying.tell(behind)
    lying.tell(closing)
    assert lying.core.counters.violations == {"chain": 1}, "it said that another one was its own"


def test_a_packet_of_another_is_nobodys_own_before() -> None:
    lying = LyingCluster("abc")
    before, first = held(lying), now(lying)
    lies: list[dict[str, Any]] = [
        {"number": before + 2, "previous": before + 1},
        {"number": before + 4, "previous": before + 2, "daemon": 3 - lying.me - lying.you},
    ]
    for lie_ in lies:
        lying.tell(data(lying, **{**lie_, "time": first + lie_["number"] - before}))
    assert lying.core.counters.violations == {"chain": 1}


def test_a_packet_behind_a_horizon_that_waits_is_not_below_it() -> None:
    lying = LyingCluster("abc")
    later = now(lying) + 100
    lying.tell(horizon(lying, upto=held(lying) + 2, horizon=later))
    lying.tell(data(lying, ahead=3, previous=held(lying) + 2, time=later - 1))
    assert lying.core.counters.violations == {"stamp": 1}


def test_causes_in_another_ring_are_near_what_is_held_of_it() -> None:
    lying = LyingCluster("ab", "cd")
    lying.tell(data(lying, vector=(0, END), agreed=Stamp(0, 0)))
    assert lying.core.counters.violations == {"causes": 1}
    lying.assert_all_goes_on()


def test_nobody_brings_a_packet_of_this_daemon_back_that_it_never_sent() -> None:
    """A member says so when the view has ended; this daemon then goes on without it."""
    lying = LyingCluster("abc")
    ending = lying.view_state.view_change
    forged = data(lying, daemon=lying.me)
    with pytest.raises(Contradiction, match="never sent"):
        ending.receive_repair(forged, RecoveredSet({lying.me: ending.past}))


def test_few_contradictions_end_the_view_and_nobody_is_blamed() -> None:
    lying = LyingCluster("abc")
    key = lying.view_state.key
    for _ in range(FEW):
        lying.tell(token(lying, last=1, rows=none_held(lying)))
    lying.cluster.run(1.0)
    assert lying.view_state.key != key
    assert [lying.cluster.members(name) for name in "abc"] == ["abc"] * 3
    assert not lying.core.membership.trust.broken
    assert any("contradict each other" in line for line in lying.told())
    lying.assert_all_goes_on()


# ---- who lies a few times is left out for a while ----


def test_who_lies_a_few_times_is_left_out_and_comes_back_after_a_while() -> None:
    lying = LyingCluster("abc")
    liar, rest_of = lying.liar, "abc".replace(lying.liar, "")
    for _ in range(FEW):
        lying.tell_both(token(lying, hop=END))
    lying.cluster.run(0.7)
    assert {lying.cluster.members(name) for name in rest_of} == {rest_of}
    lines = lying.told()
    assert [line.split()[0] for line in lines] == [liar, liar]
    assert "has broken the protocol (hop: " in lines[0]
    assert f"{liar} is left out for 1 s" in lines[1]
    lying.cluster.run(3.0)
    assert {lying.cluster.members(name) for name in "abc"} == {"abc"}
    for _ in range(FEW):
        lying.tell(token(lying, hop=END))
    assert "left out for 2 s" in lying.told()[-1], "twice as long"


def test_who_lies_to_one_daemon_only_stays_in_the_view_over_others() -> None:
    """Others do not know which of the two is broken; the one hears nothing more of the liar."""
    lying = LyingCluster("abc")
    for _ in range(FEW):
        lying.tell(token(lying, hop=END))
    lying.cluster.run(0.7)
    view = lying.view_state.view
    assert {lying.cluster.members(name) for name in "abc"} == {"abc"}
    assert view.ring_of[lying.me] != view.ring_of[lying.you]
    lying.assert_all_goes_on()


def test_who_is_started_anew_comes_back_at_once() -> None:
    lying = LyingCluster("abc")
    for _ in range(FEW):
        lying.tell_both(token(lying, hop=END))
    lying.cluster.run(0.1)
    lying.cluster.start(lying.liar, restarts=2, random_id=5)
    lying.cluster.run(0.7)
    assert {lying.cluster.members(name) for name in "abc"} == {"abc"}


@pytest.mark.parametrize("jump", [2**15 + 1, 2**20, 2**31])
def test_whose_messages_have_jumped_once_is_heard_again_after_a_while(jump: int) -> None:
    """All that it says truly is behind that for years (membership came to nothing for ever)."""
    lying = LyingCluster("abc")
    flood = lying.cluster.cores[lying.liar].membership.flood
    sequence = flood.sequence + jump
    lying.cluster.run(3.0)
    lying.core.membership.peers[daemon_number(lying.liar)].said_at -= jump  # its only datagram
    lying.tell(lying.cut(*encode_message(beacon(lying, 1)), sequence=sequence))
    peer = lying.core.membership.peers[daemon_number(lying.liar)]
    assert peer.seen.highest == sequence
    lying.cluster.run(5.0)
    assert {lying.cluster.members(name) for name in "abc"} == {"abc"}
    assert lying.cluster.now - peer.beacon_at < 1.0
    lying.assert_all_goes_on()


def test_one_daemon_is_not_believed_when_it_speaks_for_another_that_is_heard() -> None:
    """It says that the third one leaves, starts anew and gathers; the third one says nothing."""
    lying = LyingCluster("abc")
    third = next(name for name in "abc" if name not in (lying.victim, lying.liar))
    start = Incarnation(1, ord(third))
    for sequence in range(2**20, 2**20 + 10):
        for message in (join(lying, name=third), beacon(lying, 1)):
            kind, body = encode_message(message)
            for incarnation in (start, Incarnation(9, 9)):
                told = lying.cut(kind, body, sequence=sequence, name=third, start=incarnation)
                lying.tell(told)
    assert lying.core.counters.violations == {"passed on": 20}, "beacons are not passed on"
    assert not lying.core.membership.trust.broken
    lying.assert_all_goes_on()


# ---- between sites ----


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("sender", lambda s, one, two: LinkPacket(sender=two, number=1, packet=X)),
        ("link", lambda s, one, two: LinkPacket(sender=one, number=END, packet=X)),
        ("sender", lambda s, one, two: Acknowledgement(sender=two, delay_us=0, ranges=[(1, 1)])),
        ("ack", lambda s, one, two: Acknowledgement(sender=one, delay_us=0, ranges=[(1, END)])),
    ],
    ids=[
        "link of another",
        "link at its end",
        "answer of another",
        "answer to what was never sent",
    ],
)
def test_a_lie_over_a_link_is_refused(
    kind: str, make: Callable[[LyingCluster, int, int], LinkPacket | Acknowledgement]
) -> None:
    lying = LyingCluster("ab", "cd")
    ((mine, yours),) = lying.view_state.view.links
    names = [daemon.name for daemon in lying.view_state.view.daemons]
    lying.victim = names[mine]
    packet = make(lying, yours, mine).encode(lying.view_state.key)
    lying.tell(packet, names[yours])
    assert lying.core.counters.violations == {kind: 1}
    lying.assert_all_goes_on()


# ---- replayed, mutated ----


def said(lying: LyingCluster, name: str) -> list[bytes]:
    """All packets that a daemon has sent to the victim."""
    return [
        datagram[HEAD_BYTES:-CHECKSUM_BYTES]
        for _, sender, target, datagram in lying.cluster.log
        if (sender, target) == (name, lying.victim)
    ]


def test_what_was_said_before_comes_to_nothing_when_it_is_said_again_under_fresh_seals() -> None:
    lying = LyingCluster("abc")
    packets = said(lying, lying.liar)
    assert {PacketKind.TOKEN, PacketKind.DATA, PacketKind.CONTROL} <= {p[0] for p in packets}
    for packet in packets:
        lying.tell(packet)
    assert lying.core.counters.violations.total() < FEW
    lying.assert_all_goes_on()


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=[pytest.mark.long] * (s > 2)) for s in range(10)]
)
def test_packets_of_every_kind_with_other_fields_end_nobody(seed: int) -> None:
    """Each packet from the member that had sent it; campaigns do it at length (`--byzantine`)."""
    rng = Random(seed)
    lying = LyingCluster("ab", "cd")
    names = [name for name in "abcd" if name != lying.victim]
    packets = [(name, packet) for name in names for packet in said(lying, name)]
    for _ in range(60):
        name, packet = rng.choice(packets)
        changed = lie(rng, packet)
        if changed is not None:
            lying.tell(changed, name)
        lying.cluster.run(rng.choice((0.0, 0.0, 0.01, 0.2)))
    assert lying.core.counters.violations
    lying.cluster.run(20.0)
    assert [lying.cluster.members(name) for name in "abcd"] == ["abcd"] * 4
    lying.assert_all_goes_on()
