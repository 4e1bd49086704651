"""Others' statements about a daemon that is not heard may be lies: they do not count for long."""

import pytest

from groupcomm.config.view import Incarnation
from groupcomm.membership.peer import HEARSAY_S, PeerDaemon
from groupcomm.membership.states import GatherReason
from groupcomm.wire.control import cut_message, decode_control_untrusted
from groupcomm.wire.membership import ControlMessage, Leave, Links, encode_message
from tests.groupcomm.membership.stage import NUMBERS, OTHER_VIEW, Stage, join_of, packet_of

AHEAD = 3000
"""The number of messages that a daemon sends in minutes."""


def over_b() -> Stage:
    """A view of three; of c the daemon a hears what b passes on, and nothing else."""
    stage = Stage("abc")
    stage.cut = {("a", "c"), ("c", "a")}
    stage.start("abc")
    stage.run(3.0)
    assert stage.members == ["abc"] * 3
    return stage


def tell_of_c(stage: Stage, message: ControlMessage) -> None:
    """The daemon b passes on to a what c has never said."""
    c = stage.daemons["c"]
    sequence, start = c.machine.flood.sequence + AHEAD, c.start.incarnation
    packet = packet_of(
        "c",
        stage.fill_in(message),
        sequence,
        restarts=start.restarts,
        random_id=start.random_id,
    )
    stage.hear("a", "b", packet)


@pytest.mark.parametrize("message", [Leave(), join_of("c", 1, "")], ids=["leave", "join"])
def test_a_view_with_all_comes_soon(message: ControlMessage) -> None:
    """Until c had said as much as b had made up there was none (Byzantine seed 3200443)."""
    stage = over_b()
    tell_of_c(stage, message)
    stage.daemons["b"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(2 * HEARSAY_S)
    assert stage.members == ["abc"] * 3


def reported_to_have_left() -> PeerDaemon:
    peer = PeerDaemon(NUMBERS["c"], "c", Incarnation(1, 1), met=False)
    peer.leave(100, 10.0, own=False)
    return peer


@pytest.mark.parametrize(
    ("sequence", "later_s", "left"),
    [
        (99, 0.5 * HEARSAY_S, True),  # the statement is old, and has come late
        (101, 0.5 * HEARSAY_S, False),
        (99, 1.1 * HEARSAY_S, False),  # no statement comes so late: the daemon is still there
    ],
)
def test_who_says_something_new_has_not_left(sequence: int, later_s: float, left: bool) -> None:
    peer = reported_to_have_left()
    peer.on_passed_on(sequence, 10.0 + later_s)
    assert peer.left is left


def test_what_others_tell_is_stale_behind_what_they_have_reported_lately_and_not_for_ever() -> None:
    peer, message = reported_to_have_left(), Links(OTHER_VIEW, ())
    assert peer.is_latest(message, 100, 10.0, own=False)
    assert not peer.is_latest(message, 99, 10.0 + 0.9 * HEARSAY_S, own=False)
    assert peer.is_latest(message, 99, 10.0 + 1.1 * HEARSAY_S, own=False)


def test_what_a_daemon_says_itself_is_never_stale_behind_what_others_tell() -> None:
    peer, message = reported_to_have_left(), Links(OTHER_VIEW, ())
    assert peer.is_latest(message, 100, 10.0, own=False)
    assert peer.is_latest(message, 50, 10.0, own=True)
    assert not peer.is_latest(message, 50, 10.0 + 2 * HEARSAY_S, own=False)


@pytest.mark.parametrize("sequence", [0, 1, 100])
def test_who_is_heard_has_not_left_whatever_others_have_said_and_how_they_numbered_it(
    sequence: int,
) -> None:
    """A liar may number what it makes up in another's name as it likes."""
    peer = PeerDaemon(NUMBERS["c"], "c", Incarnation(1, 1), met=False)
    peer.leave(sequence, 10.0, own=False)
    assert peer.left
    peer.retract_leave()
    assert not peer.left


def test_a_part_of_a_message_that_two_others_pass_on_is_passed_on_once() -> None:
    """The rest may be lost: each copy of a part would go round for ever."""
    stage = Stage("abcde")
    stage.start("abd")
    stage.run(3.0)
    for name in "ce":
        stage.place(name)
    stage.mute = {"c", "e"}
    kind, body = encode_message(stage.fill_in(join_of("c", 1, hears="")))
    raw, *rest = cut_message(NUMBERS["c"], Incarnation(1, ord("c")), 7, kind, body, 90)
    assert rest
    a = stage.daemons["a"]
    a.machine.peers[NUMBERS["d"]].join = None
    for beacon in (a.machine.peers[NUMBERS[name]] for name in "bd"):
        beacon.heard_at = stage.now
    a.taken()
    passed_on = []
    for sender in "bdb":
        a.machine.on_control(decode_control_untrusted(raw), NUMBERS[sender], stage.now)
        passed_on.append(len(a.taken()))
    assert passed_on[0] > 0
    assert passed_on[1:] == [0, 0]
