"""What is known of one other daemon: its joins, the order of its messages, whom it hears."""

import pytest
from attrs import evolve
from msgspec.structs import replace

from groupcomm.config.core import CoreConfig, Timing
from groupcomm.config.view import Incarnation
from groupcomm.errors import ProtocolViolation
from groupcomm.membership.agreement import check_commit
from groupcomm.membership.peer import HEARSAY_S, PeerDaemon
from groupcomm.membership.proposal import link_delays_us, median_reading
from groupcomm.wire.membership import Beacon, Commit, Join, Leave, Proposal, Seat
from tests.groupcomm.membership.stage import ALIKE, FIRST, NUMBERS, OTHER_VIEW, PLENTY, join_of

ME = (NUMBERS["a"], ord("a"))


def peer_b() -> PeerDaemon:
    return PeerDaemon(NUMBERS["b"], "b", Incarnation(1, ord("b")))


# ---- joins ----


def test_a_join_is_news_if_its_attempt_the_heard_or_the_mark_change() -> None:
    peer, join = peer_b(), join_of("b", 3)
    assert peer.note_join(join, 1.0)
    assert not peer.note_join(replace(join, reading=9), 2.0)
    for change in (replace(join, attempt=4), replace(join, heard=()), replace(join, mark=7)):
        assert peer.note_join(change, 3.0)
        assert peer.note_join(join, 4.0)
    assert peer.join_at == 4.0


def test_the_daemons_heard_are_of_the_time_before_its_commit() -> None:
    """A join that is repeated after that says whom it heard then."""
    peer, join = peer_b(), join_of("b", 3)
    peer.note_join(join, 1.0)
    peer.note_join(join, 2.0)
    assert peer.heard_list_at == 2.0
    seat = Seat(peer.number, 1, ord("b"), 3, b"\x01")
    peer.commit = Commit(3, Proposal((seat,)), False, False, ())
    peer.note_join(join, 3.0)
    assert peer.heard_list_at == 2.0
    peer.commit = Commit(2, Proposal((seat,)), False, False, ())
    peer.note_join(join, 4.0)
    assert peer.heard_list_at == 4.0, "the commit was to an earlier attempt"


@pytest.mark.parametrize(("said_at", "hears"), [(4.9, False), (5.0, True), (5.1, True)])
def test_a_daemon_hears_whom_its_join_or_beacon_has_named_since_a_time(
    said_at: float, hears: bool
) -> None:
    joined, beaconed = peer_b(), peer_b()
    joined.note_join(join_of("b", 3), said_at)
    beaconed.beacon = Beacon(1, OTHER_VIEW, (ME,), ALIKE, 1, PLENTY, 0, FIRST)
    beaconed.beacon_at = said_at
    for peer in (joined, beaconed):
        assert peer.hears(ME, 5.0) is hears
        assert not peer.hears((NUMBERS["d"], ord("d")), 5.0)
        assert not peer.hears((NUMBERS["a"], 7), 5.0), "another start of it"


# ---- the order of its messages ----


def test_a_message_counts_if_no_later_one_of_its_kind_has_come() -> None:
    peer, join, leave = peer_b(), join_of("b", 3), Leave()
    assert peer.is_latest(join, 5, 0.0, own=True)
    assert not peer.is_latest(join, 5, 0.0, own=True)
    assert not peer.is_latest(join, 4, 0.0, own=True)
    assert peer.is_latest(leave, 4, 0.0, own=True)
    assert peer.is_latest(join, 6, 0.0, own=True)
    assert not peer.is_latest(join, 6, 0.0, own=False), "it has said so itself"


@pytest.mark.parametrize(("later_s", "counts"), [(HEARSAY_S, False), (1.01 * HEARSAY_S, True)])
def test_a_number_that_others_have_named_counts_for_a_while_and_never_against_the_daemon(
    later_s: float, counts: bool
) -> None:
    peer, join = peer_b(), join_of("b", 3)
    assert peer.is_latest(join, 900, 0.0, own=False)
    assert peer.is_latest(join, 5, later_s, own=True)
    assert peer.is_latest(join, 6, later_s, own=False) is counts


def test_a_daemon_that_was_left_out_begins_its_own_numbers_anew() -> None:
    peer, join = peer_b(), join_of("b", 3)
    assert peer.is_latest(join, 900, 0.0, own=True)
    assert peer.is_latest(join, 901, 0.0, own=False)
    peer.seen.accept(900)
    peer.note_join(join, 0.0)
    peer.leave_out()
    assert peer.join is None
    assert peer.strange
    assert peer.seen.check(5)
    assert not peer.is_latest(join, 800, 0.1, own=False), "of others' statements nothing is new"
    assert peer.is_latest(join, 5, 0.2, own=True)


def test_what_others_have_said_of_a_daemon_is_forgotten_and_not_what_it_said_itself() -> None:
    peer, join = peer_b(), join_of("b", 3)
    assert peer.is_latest(join, 5, 0.0, own=True)
    assert peer.is_latest(join, 900, 0.0, own=False)
    peer.passed_on.accept(900)
    peer.forget_passed_on()
    assert peer.passed_on.check(6)
    assert not peer.is_latest(join, 5, 0.0, own=True)
    assert peer.is_latest(join, 6, 0.0, own=False)


# ---- what it cannot say ----


def test_a_daemon_commits_in_its_present_start_and_attempt_only() -> None:
    peer = peer_b()
    seat = Seat(peer.number, 1, ord("b"), 3, b"\x01")
    check_commit(Commit(3, Proposal((seat,)), False, False, ()), peer)
    wrong = (
        replace(seat, number=NUMBERS["c"]),
        replace(seat, restarts=2),
        replace(seat, random_id=7),
        replace(seat, attempt=4),
    )
    for other in wrong:
        with pytest.raises(ProtocolViolation):
            check_commit(Commit(3, Proposal((other,)), False, False, ()), peer)


def test_a_name_of_another_daemon_is_refused() -> None:
    peer = PeerDaemon(NUMBERS["b"], None, Incarnation(1, 5))
    assert peer.label == f"daemon {NUMBERS['b']:x}"
    with pytest.raises(ProtocolViolation):
        peer.set_name("c")
    peer.set_name("b")
    assert peer.label == "b"


# ---- clocks and links of all ----


def test_links_to_other_sites_take_the_delay_of_the_configuration_or_else_the_longest() -> None:
    timing = Timing(longest_delay_s=0.05)
    sites = (("a", "b"), ("c",), ("d",))
    config = CoreConfig(sites=sites, timing=timing, link_delays_us=((0, 1, 7_000),))
    links = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "new"), ("new", "newer")]
    delays = (0, 7_000, 7_000, 50_000, 50_000, 0)
    assert link_delays_us(config, links) == delays, "what no file lists is taken for one site"
    assert link_delays_us(evolve(config, link_delays_us=()), links) == ()


@pytest.mark.parametrize(
    ("readings", "median"), [([5], 5), ([9, 5], 5), ([1, 9, 5], 5), ([4, 1, 9, 5], 4)]
)
def test_the_median_of_an_even_number_of_clocks_is_the_lower_one(
    readings: list[int], median: int
) -> None:
    joins: dict[int, Join] = {
        number: replace(join_of("a", 1), reading=reading) for number, reading in enumerate(readings)
    }
    assert median_reading(joins) == median
