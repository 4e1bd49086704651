"""The daemons that a daemon knows, and those to which it passes messages on."""

import msgspec

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import CoreConfig, Timing
from groupcomm.config.view import DaemonId, Incarnation, Start, View
from groupcomm.membership.failure_detector import (
    FIRST_BACKOFF_S,
    LONGEST_BACKOFF_S,
    MAX_STRANGERS,
    FailureDetector,
)
from groupcomm.membership.flood import Flood
from groupcomm.membership.peer import HEARSAY_S, PeerDaemon
from groupcomm.membership.reservation import Reservation
from groupcomm.names import daemon_number
from groupcomm.wire.membership import Beacon, Commit, ControlKind, Proposal
from tests.groupcomm.membership.stage import FIRST, PLENTY, join_of

CONFIG = CoreConfig(sites=(("a",), ("b",), ("c",), ("d",)), timing=Timing(longest_delay_s=0.0625))
START = Start(name="b", incarnation=Incarnation(1, 1))
NOW = 10.0
_ANY = ControlKind.JOIN


def detector() -> FailureDetector:
    disk = Reservation(0, PLENTY, int, 0.0)
    return FailureDetector(CONFIG, START, Flood(CONFIG, START), disk, lambda *_: None, lambda: 0)


def heard(one: FailureDetector, name: str, at: float, *hears: PeerDaemon) -> PeerDaemon:
    """A daemon whose beacon came, with those that it hears."""
    peer = one.on_heard(daemon_number(name), Incarnation(1, 1), at)
    assert peer is not None
    peer.heard_at = peer.beacon_at = at
    row = tuple(sorted(other.key for other in hears))
    peer.beacon = Beacon(0, bytes(16), row, bytes(16), 0, 1, 0, FIRST)
    return peer


def test_a_repair_is_passed_on_also_to_those_that_its_origin_does_not_hear() -> None:
    """They hear the origin: it has left them out, as its packets do not reach them."""
    one = detector()
    origin = heard(one, "a", NOW)
    there = heard(one, "c", NOW, origin)
    for kind in (ControlKind.REPAIR, _ANY):
        assert one.pass_on_targets(origin, origin.number, kind, NOW) == []
    origin.join = msgspec.structs.replace(join_of("a", 1), heard=())
    assert one.pass_on_targets(origin, origin.number, ControlKind.REPAIR, NOW) == [there.number]
    assert one.pass_on_targets(origin, origin.number, _ANY, NOW) == []
    origin.join = msgspec.structs.replace(join_of("a", 1), heard=(there.key,))
    assert one.pass_on_targets(origin, origin.number, ControlKind.REPAIR, NOW) == []


def test_an_origin_that_does_not_list_this_daemon_may_not_reach_it() -> None:
    one = detector()
    origin = heard(one, "a", NOW)
    start = origin.number, origin.incarnation
    assert one.unreached(*start) is None, "it has not joined"
    origin.join = msgspec.structs.replace(join_of("a", 1), heard=())
    assert one.unreached(*start) is origin
    assert one.unreached(origin.number, Incarnation(2, 2)) is None
    origin.join = msgspec.structs.replace(join_of("a", 1), heard=(one.key,))
    assert one.unreached(*start) is None


def test_a_message_is_passed_on_to_those_that_are_heard_and_do_not_hear_its_origin() -> None:
    one = detector()
    origin = heard(one, "a", NOW)
    assert one.pass_on_targets(origin, origin.number, _ANY, NOW) == [], (
        "c and d may not even be there"
    )
    there = heard(one, "c", NOW)
    assert one.pass_on_targets(origin, origin.number, _ANY, NOW) == [there.number]
    assert one.pass_on_targets(origin, there.number, _ANY, NOW) == [], "it has it from there"
    assert one.pass_on_targets(origin, origin.number, _ANY, NOW + 1.0) == [], "not heard any more"
    heard(one, "c", NOW, origin)
    assert one.pass_on_targets(origin, origin.number, _ANY, NOW) == [], (
        "it says that it hears the origin"
    )


def test_a_join_that_is_repeated_after_its_commit_says_nothing_of_the_present() -> None:
    """Simulator seed 432, 4 sites: its sender lacked a commit that all took it to hear itself."""
    one = detector()
    origin, there = heard(one, "a", NOW), heard(one, "c", NOW)
    past = msgspec.structs.replace(join_of("c", 7), heard=(origin.key,))
    assert there.note_join(past, NOW)
    assert not there.note_join(past, NOW + 0.5)
    there.heard_at = NOW + 1.5
    assert one.pass_on_targets(origin, origin.number, _ANY, NOW + 0.6) == [], (
        "it gathers, and still says so"
    )
    there.commit = Commit(7, Proposal(()), False, False, ())
    assert not there.note_join(past, NOW + 1.5)
    assert one.pass_on_targets(origin, origin.number, _ANY, NOW + 1.5) == [there.number]


def test_only_so_many_are_kept_that_are_not_listed() -> None:
    one = detector()
    for number in range(2 * MAX_STRANGERS):
        one.on_heard(number, Incarnation(1, 1), 0.0)
    assert len(one.peers) <= MAX_STRANGERS + len(one.listed)
    for number in one.listed:
        assert one.on_heard(number, Incarnation(1, 1), 0.0) is not None


# ---- starts that only others mention ----


def test_of_starts_that_were_never_heard_the_first_one_counts_while_it_is_mentioned() -> None:
    one = detector()
    number = daemon_number("a")
    peer = one.on_mentioned(number, Incarnation(3, 1), 0.0)
    assert peer is not None
    peer.mentioned_at = 0.0
    assert one.on_mentioned(number, Incarnation(3, 2), 0.0) is None, "as many restarts"
    assert one.on_mentioned(number, Incarnation(2, 2), HEARSAY_S) is None
    assert peer.incarnation == Incarnation(3, 1)
    later = HEARSAY_S * 1.001
    assert one.on_mentioned(number, Incarnation(2, 2), later) is peer, "nobody mentions it now"
    assert peer.incarnation == Incarnation(2, 2)


def test_what_others_passed_on_is_forgotten_after_a_time_without_news() -> None:
    one = detector()
    number, start = daemon_number("a"), Incarnation(1, 1)
    peer = one.on_mentioned(number, start, 0.0)
    assert peer is not None
    peer.mentioned_at, peer.left, peer.left_sequence = 0.0, True, 5
    assert one.on_mentioned(number, start, HEARSAY_S) is peer
    assert peer.left
    one.on_mentioned(number, start, HEARSAY_S * 1.001)
    assert not peer.left


def test_a_later_start_that_is_mentioned_counts_at_once() -> None:
    one = detector()
    number = daemon_number("a")
    one.on_mentioned(number, Incarnation(3, 1), NOW)
    peer = one.on_mentioned(number, Incarnation(4, 2), NOW)
    assert peer is not None
    assert peer.incarnation == Incarnation(4, 2)


def test_what_others_mention_of_a_daemon_that_is_heard_is_ignored() -> None:
    one = detector()
    peer = heard(one, "a", NOW)
    assert one.on_mentioned(peer.number, Incarnation(9, 9), NOW) is None
    silent = NOW + 10 * CONFIG.timing.token_timeout_s
    assert one.on_mentioned(peer.number, Incarnation(9, 9), silent) is peer


def test_nobody_mentions_this_daemon_to_itself() -> None:
    assert detector().on_mentioned(daemon_number("b"), Incarnation(9, 9), NOW) is None


# ---- silence ----

VIEW = View(
    id=ViewId(1, "a", 0),
    daemons=tuple(DaemonId(name, Incarnation(1, 1)) for name in "abc"),
    rings=((0,), (1,), (2,)),
    links=((0, 1), (1, 2)),
)
LIMIT_S = CONFIG.timing.token_timeout_s + CONFIG.timing.longest_delay_s


def test_members_are_silent_from_the_view_on_and_not_from_before_it() -> None:
    one = detector()
    peers = {heard(one, name, NOW).number for name in "ac"}
    one.watch(VIEW, NOW, 100.0)
    assert one.silence_due == 100.0
    assert one.pop_silent(100.0) == []
    assert one.silence_due == 100.0 + LIMIT_S
    assert one.pop_silent(100.0 + LIMIT_S - 1e-6) == []
    assert {peer.number for peer in one.pop_silent(100.0 + LIMIT_S)} == peers
    assert one.pop_silent(200.0) == [], "nobody is silent twice"


def test_who_is_heard_is_not_silent() -> None:
    one = detector()
    a, c = heard(one, "a", NOW), heard(one, "c", NOW)
    one.watch(VIEW, NOW, 100.0)
    a.heard_at = 101.0
    assert one.pop_silent(100.0 + LIMIT_S) == [c]
    assert one.silence_due == 101.0 + LIMIT_S


def test_a_link_that_is_heard_again_is_watched_with_its_delay() -> None:
    one = detector()
    peer = heard(one, "a", NOW)
    one.watch_again(peer, 50.0)
    assert one.silence_due == 50.0 + LIMIT_S
    assert one.pop_silent(50.0 + LIMIT_S - 1e-6) == []
    assert one.pop_silent(50.0 + LIMIT_S) == [peer]


def test_who_was_heard_and_is_not_in_the_view_is_ignored_for_longer_each_time() -> None:
    one = detector()
    for name in "ac":
        heard(one, name, NOW)
    outside, gone = heard(one, "d", NOW), heard(one, "e", NOW - 5.0)
    one.watch(VIEW, NOW, NOW)
    assert outside.ignored_until == NOW + FIRST_BACKOFF_S
    assert gone.backoff_s == 0.0, "it was not heard since the search began"
    one.watch(VIEW, NOW, NOW)
    assert outside.ignored_until == NOW + 2 * FIRST_BACKOFF_S
    for _ in range(20):
        one.watch(VIEW, NOW, NOW)
    assert outside.backoff_s == LONGEST_BACKOFF_S
