"""Relays: who of a site passes messages on, to whom, and when.

Three sites of three daemons, abc, def and ghi; a daemon of the first one is looked at.
"""

from collections.abc import Callable
from math import inf

import pytest

from groupcomm.membership import relays
from groupcomm.membership.pace import HOLD_S
from groupcomm.membership.relays import MOST_TOGETHER, RARE
from groupcomm.wire.control import ControlPacket
from groupcomm.wire.membership import Repair
from tests.groupcomm.membership.one_relay import LATER, SITES, OneRelay, Sent, said
from tests.groupcomm.membership.stage import OTHER_VIEW, packet_of


def relay(name: str, *sites: str, hears: str = "abcdefghi") -> OneRelay:
    """Return a daemon that hears all others, or these, late enough for them to be heard."""
    one = OneRelay(name, *sites)
    one.hear("".join(sorted(set(hears) - {name})), LATER)
    return one


# ---- who passes on ----


@pytest.mark.parametrize(("name", "rank"), [("a", 0), ("b", 1), ("c", None)])
def test_the_first_two_of_a_site_by_name_are_its_relays(name: str, rank: int | None) -> None:
    assert relay(name, "cba", "def").rank(LATER) == rank


def test_who_has_not_been_heard_yet_counts_until_it_had_the_time() -> None:
    one = OneRelay("c")
    had_time = one.timing.repeat_s
    assert one.rank(0.9 * had_time) is None
    assert one.rank(had_time) == 0
    one.hear("a", 1.5 * had_time)
    assert one.rank(1.5 * had_time + 1e-6) == 1, "the rank follows who is heard"


def test_who_is_silent_counts_no_more_whenever_an_attempt_begins() -> None:
    one = relay("c")
    late = LATER + 1.01 * one.detector.fresh_s
    assert one.rank(LATER + 0.99 * one.detector.fresh_s) is None
    assert one.rank(late) == 0
    one.relays.begin(late)
    assert one.rank(late + 1e-6) == 0, "it was heard before, and is not now"


@pytest.mark.parametrize("fact", ["left", "differs"])
def test_who_has_left_or_has_other_settings_is_no_relay(fact: str) -> None:
    one = relay("b")
    assert one.rank(LATER) == 1
    setattr(one.peer("a"), fact, True)
    assert one.rank(LATER + 1e-6) == 0


# ---- to whom ----


@pytest.mark.parametrize(("name", "targets"), [("a", "dg"), ("b", "eh"), ("c", "")])
def test_relays_speak_to_those_of_their_rank(name: str, targets: str) -> None:
    assert relay(name).targets(LATER) == targets


@pytest.mark.parametrize(("name", "targets"), [("a", "fg"), ("b", "fh")])
def test_of_a_site_count_those_that_are_heard(name: str, targets: str) -> None:
    """The second relay speaks to the only one if there is no second."""
    assert relay(name, hears="abcfghi").targets(LATER) == targets


def test_who_was_in_the_view_that_has_ended_counts_as_heard() -> None:
    one = OneRelay("b")
    one.hear("adefghi")
    one.hear("agh", LATER)
    for name in "ef":
        one.peer(name).vouched_at = LATER
    assert one.targets(LATER) == "fh"


@pytest.mark.parametrize("fact", ["left", "differs"])
def test_nobody_speaks_to_one_that_has_left_or_has_other_settings(fact: str) -> None:
    one = relay("a")
    setattr(one.peer("d"), fact, True)
    assert one.targets(LATER) == "eg"


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_of_a_site_that_nobody_hears_all_are_tried_in_turn(names: str) -> None:
    """Together the two relays reach each daemon of it within as many waits as it has daemons."""
    site = "defghi"
    tried = []
    for turn in range(len(site)):
        for name in "ab":
            one = OneRelay(name, "abc", site)
            now = (turn + 0.5) * one.timing.answer_wait_s
            one.hear("abc".replace(name, ""), now)
            tried.append(one.targets(now))
    assert {*tried} == {*site}
    assert tried[:4] == ["d", "e", "f", "g"]


def test_who_hears_none_of_the_site_before_this_one_is_served() -> None:
    """So a path that is the only one between two sites is used."""
    one = relay("c")
    one.lists("f", "c")
    one.lists("i", "bc")
    one.lists("d", "cgh")
    assert one.targets(LATER) == "df"
    one.hear("i", LATER)
    one.lists("f", "ac", LATER)
    assert one.targets(LATER) == "d", "it hears another one now, which serves it"


def test_beacons_say_whom_a_daemon_hears_that_has_not_joined() -> None:
    one = relay("c")
    assert one.targets(LATER) == ""
    one.lists("f", "c")
    one.peer("f").beacon, one.peer("f").join = one.peer("f").join, None  # type: ignore[assignment]
    assert one.targets(LATER) == "f"


def test_a_daemon_that_is_not_heard_any_more_is_not_served() -> None:
    one = relay("c")
    for name in "fi":
        one.lists(name, "c")
    assert one.targets(LATER) == "fi"
    late = LATER + 1.01 * one.detector.fresh_s
    one.hear("abf", late)
    assert one.targets(late) == "f"


# ---- daemons outside the view ----


@pytest.mark.parametrize(("name", "other", "found"), [("a", "b", "eh"), ("b", "a", "fi")])
def test_a_relay_looks_for_one_of_each_site_outside_the_view(
    name: str, other: str, found: str
) -> None:
    one = relay(name, hears="abcefhi")
    for heard in "efhi":
        one.lists(heard, other)
    assert one.seek("efhi", 1, LATER) == found, "of the daemons outside, not of all"
    assert one.seek("i", 1, LATER) == "i"
    assert one.seek("", RARE, LATER) == ""


def test_a_relay_that_hears_nobody_outside_tries_all_in_turn() -> None:
    tried = ""
    for turn in range(3):
        one = OneRelay("a")
        tried += one.seek("def", 1, (turn + 0.5) * one.timing.answer_wait_s)
    assert sorted(tried) == ["d", "e", "f"]


def test_the_others_look_for_them_now_and_then_each_in_its_turn() -> None:
    one = relay("c", hears="abc")
    found = [one.seek("defghi", beacons, LATER) for beacons in range(3 * RARE)]
    assert [at for at, names in enumerate(found) if names] == [0, RARE, 2 * RARE]
    assert found[::RARE] == ["fi", "dg", "eh"]


def test_who_hears_nobody_else_of_this_site_gets_each_beacon() -> None:
    one = relay("c")
    one.lists("e", "c")
    one.lists("f", "")
    one.lists("h", "bc")
    one.lists("i", "c")
    assert one.seek("efh", 1, LATER) == "ef"


# ---- passing on ----


def test_messages_of_the_own_site_go_to_other_sites_together() -> None:
    one = relay("a")
    for name in "bc":
        one.get(said(name, 7), name, LATER)
    assert one.relays.due == pytest.approx(LATER + HOLD_S)
    assert one.step(LATER + 0.99 * HOLD_S) == []
    told = [("b", 7), ("c", 7)]
    assert one.step(LATER + HOLD_S) == [("d", told), ("g", told)]
    assert one.relays.due == inf
    assert one.step(LATER + 1.0) == []


def test_the_latest_join_of_each_goes_alone_and_all_messages_of_other_kinds_do() -> None:
    one = relay("b")
    for sequence in (7, 9, 8):
        one.get(said("a", sequence), "a", LATER)
    assert one.step(LATER + HOLD_S) == [("e", [("a", 9)]), ("h", [("a", 9)])]
    for sequence in (10, 11):
        one.get(said("a", sequence, parting=True), "a", LATER)
    assert [told for _, told in one.step(LATER)] == [[("a", 10), ("a", 11)]] * 2, "at once"


def test_who_is_no_relay_passes_on_to_those_that_it_serves_alone() -> None:
    one = relay("c")
    one.get(said("b", 7), "b", LATER)
    assert one.step(LATER + HOLD_S) == []
    one.lists("f", "c")
    one.get(said("b", 8), "b", LATER)
    assert one.step(LATER + HOLD_S) == [("f", [("b", 8)])]
    alone = relay("c", hears="ab")
    alone.get(said("b", 7), "b", LATER)
    assert alone.relays.due == inf


def after(one: OneRelay, wait_s: float) -> tuple[list[Sent], list[Sent]]:
    """Return what is passed on just before a time, and at that time."""
    return one.step(LATER + 0.99 * wait_s), one.step(LATER + 1.0001 * wait_s)


def test_the_first_relay_tells_its_site_soon_what_comes_from_others() -> None:
    one = relay("a")
    one.get(said("e", 7), "d", LATER)
    one.get(said("h", 5), "g", LATER)
    assert after(one, HOLD_S / 2) == ([], [(None, [("e", 7), ("h", 5)])])
    one.get(said("e", 8, parting=True), "d", LATER)
    assert one.step(LATER) == [(None, [("e", 8)])]


@pytest.mark.parametrize("name", ["b", "c"])
def test_others_tell_it_later(name: str) -> None:
    """The third daemon may be the only one that hears somebody of another site."""
    one = relay(name)
    one.get(said("e", 7), "e", LATER)
    assert after(one, HOLD_S + one.timing.repeat_s / 2) == ([], [(None, [("e", 7)])])
    one.get(said("e", 8, parting=True), "e", LATER)
    assert after(one, one.timing.repeat_s / 2) == ([], [(None, [("e", 8)])])


@pytest.mark.parametrize(
    ("passed_on", "left"),
    [(said("e", 7), ["h"]), (said("e", 8), ["h"]), (said("e", 6), ["e", "h"])],
)
def test_the_second_relay_need_not_if_the_first_one_has(
    passed_on: ControlPacket, left: list[str]
) -> None:
    one = relay("b")
    one.get(said("e", 7), "e", LATER)
    one.get(said("h", 5), "h", LATER)
    one.relays.note_passed_on(passed_on, one.peer("a").number)
    assert [[name for name, _ in told] for _, told in one.step(LATER + 1.0)] == [left]


def test_what_another_site_says_is_no_sign_that_the_own_one_has_it() -> None:
    one = relay("b")
    one.get(said("e", 7), "e", LATER)
    one.relays.note_passed_on(said("e", 7), one.peer("h").number)
    assert one.step(LATER + 1.0) == [(None, [("e", 7)])]


def test_what_the_own_site_has_passed_on_is_not_told_it_again() -> None:
    one = relay("b")
    one.get(said("e", 7), "a", LATER)
    assert one.relays.due == LATER, "others may lack it"
    assert one.step(LATER + 1.0) == []


@pytest.mark.parametrize(("far", "wait_s"), [("def", 0.0), ("defg", HOLD_S)])
def test_what_goes_round_waits_only_where_much_comes_together(
    far: str, wait_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have to go round again and again, along a chain of sites."""
    monkeypatch.setattr(relays, "FEW_CONTACTS", 3)
    one = relay("b", "ab", *far, hears="a" + far)
    one.get(said("e", 7), "a", LATER)
    assert one.relays.due == pytest.approx(LATER + wait_s)


def test_messages_of_other_sites_go_round_to_those_that_hear_nobody_there() -> None:
    """The paths between def and ghi are cut, so e lists nobody of ghi."""
    one = relay("b")
    one.peer("e").heard_from = LATER - 1.0
    one.lists("e", "abcdf")
    for sender in "ah":
        one.get(said("h", 7 + (sender == "a")), sender, LATER)
    told = [sent for sent in one.step(LATER + HOLD_S) if sent[0] is not None]
    assert told == [("e", [("h", 8)])]


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.lists("e", "abcdfi"),  # it hears the site, and its relays speak to it
        lambda one: setattr(one.peer("e"), "heard_from", LATER),  # it had no time to say so
        lambda one: setattr(one.peer("e"), "left", True),
        lambda one: setattr(one.peer("e"), "heard_at", LATER - 10.0),
    ],
)
def test_they_do_not_go_round_to_anyone_else(change: Callable[[OneRelay], None]) -> None:
    one = relay("b")
    one.peer("e").heard_from = LATER - 1.0
    one.lists("e", "abcdf")
    change(one)
    one.get(said("h", 7), "h", LATER)
    assert [sent for sent in one.step(LATER + HOLD_S) if sent[0] is not None] == []


def test_messages_do_not_go_back_to_their_own_site() -> None:
    one = relay("b")
    one.peer("e").heard_from = LATER - 1.0
    one.lists("e", "abc")
    one.get(said("d", 7), "e", LATER)
    assert [sent for sent in one.step(LATER + HOLD_S) if sent[0] is not None] == []


def test_no_message_is_larger_than_it_may_be() -> None:
    one = relay("a")
    packets = [packet_of("b", Repair(OTHER_VIEW, bytes(1000)), at) for at in range(1, 101)]
    for packet in packets:
        one.get(packet, "b", LATER)
    told = [told for target, told in one.step(LATER) if target == "d"]
    assert [each for message in told for each in message] == [("b", at) for at in range(1, 101)]
    size = len(packets[0].raw)
    assert [len(message) for message in told] == [
        MOST_TOGETHER // size,
        100 - MOST_TOGETHER // size,
    ]


@pytest.mark.parametrize("sites", [("abcdef",), SITES])
def test_relays_are_for_several_sites(sites: tuple[str, ...]) -> None:
    assert OneRelay("a", *sites).relays.is_used == (len(sites) > 1)
