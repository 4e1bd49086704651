"""Late members: who is waited for, from which moment, and for how long."""

from math import inf

import pytest
from msgspec.structs import replace

from groupcomm.config.core import Timing
from groupcomm.config.view import Incarnation
from groupcomm.membership.late import LateMembers, alive_s
from groupcomm.membership.peer import PeerDaemon
from groupcomm.wire.membership import Beacon, Holding, Past
from tests.groupcomm.membership.stage import (
    ALIKE,
    FIRST,
    NUMBERS,
    OTHER_VIEW,
    PLENTY,
    in_view,
    join_of,
)

VIEW = in_view("abc").daemons["a"].machine.view
assert VIEW is not None
TIMING = Timing(longest_delay_s=0.03)
ALIVE_S = alive_s(TIMING)
NOW = 10.0
WAIT_S = 0.05
MEMBERS = {NUMBERS["a"], NUMBERS["b"]}


def peer(name: str, heard_at: float, restarts: int = 1) -> PeerDaemon:
    found = PeerDaemon(NUMBERS[name], name, Incarnation(restarts, ord(name)))
    found.heard_at = heard_at
    return found


def beacon(view: bytes, counter: int) -> Beacon:
    return Beacon(counter, view, (), ALIKE, 1, PLENTY, 0, FIRST)


def until(late: LateMembers, *peers: PeerDaemon) -> float:
    return late.until(MEMBERS, {p.number: p for p in peers}, WAIT_S)


def begun(*, paused: bool = False) -> LateMembers:
    return LateMembers(TIMING, VIEW, NOW, paused=paused)


@pytest.mark.parametrize(
    ("heard_at", "ends"), [(9.8, 9.8 + ALIVE_S), (10.2, NOW + ALIVE_S), (-inf, -inf)]
)
def test_a_member_is_alive_for_a_token_timeout_and_delays_an_attempt_no_longer(
    heard_at: float, ends: float
) -> None:
    assert until(begun(), peer("b", 10.0), peer("c", heard_at)) == ends


def test_who_is_in_has_left_was_started_again_or_is_no_member_is_not_late() -> None:
    gone = peer("c", NOW)
    gone.left = True
    for other in (peer("b", NOW), gone, peer("c", NOW, restarts=2), peer("d", NOW)):
        assert until(begun(), other) == -inf


def test_who_has_joined_and_does_not_fit_is_waited_for_from_its_first_join() -> None:
    late = begun()
    joins = {NUMBERS["c"]: join_of("c", 1)}
    late.note(joins, (), 10.01)
    late.note(joins, (), 10.03)
    assert until(late, peer("c", 10.03)) == 10.01 + WAIT_S
    late.note({}, (), 10.1)
    assert until(late, peer("c", 10.03)) == NOW + ALIVE_S, "its join is old: it is late again"


def test_whom_only_others_hear_is_waited_for_while_they_do() -> None:
    late = begun()
    for awaited, ends in (((NUMBERS["c"],), NOW + ALIVE_S), ((), 1.0 + ALIVE_S)):
        late.note({}, awaited, NOW)
        assert until(late, peer("c", 1.0)) == ends


def test_after_a_pause_all_that_were_ever_heard_have_their_time() -> None:
    assert until(begun(paused=True), peer("c", 1.0)) == NOW + ALIVE_S
    assert until(begun(paused=True), peer("c", -inf)) == -inf


def test_who_has_moved_on_is_late_only_if_a_daemon_that_joins_comes_from_there_too() -> None:
    assert VIEW is not None
    moved = peer("c", NOW)
    moved.beacon = beacon(OTHER_VIEW, VIEW.id.counter + 1)
    stranger = peer("d", NOW)
    stranger.beacon = beacon(OTHER_VIEW, 1)
    late = begun()
    assert until(late, moved, stranger) == -inf
    past = Past(OTHER_VIEW, (Holding(0, (), (), 0),), ())
    late.note({NUMBERS["e"]: replace(join_of("e", 1), past=past)}, (), NOW)
    assert until(late, moved) == until(late, stranger) == NOW + ALIVE_S
