"""Messages that a relay passes on together: each counts by itself, and the relay for little.

The daemon a is told by c, a daemon of another site, what d and e there have said.
"""

import pytest

from groupcomm.errors import BadDatagram, ProtocolViolation, RemoteProtocolError
from groupcomm.membership.control_receiver import MOST_AHEAD
from groupcomm.wire.control import ControlPacket, deflate_packets
from groupcomm.wire.membership import (
    Ask,
    Beacon,
    ControlKind,
    ControlMessage,
    Join,
    Leave,
    Relayed,
    ShortBeacon,
)
from tests.groupcomm.membership.stage import (
    ALIKE,
    FIRST,
    HEARS_A,
    NUMBERS,
    OTHER_VIEW,
    Stage,
    join_of,
    packet_of,
)

BEACON = Beacon(1, OTHER_VIEW, HEARS_A, ALIKE, 1, 2, 0, FIRST)


def on_stage() -> Stage:
    """Daemons that have just begun to look for a view, of which c speaks for its site."""
    stage = Stage("ab", "cde", relays=True)
    stage.start("abcde")
    stage.mute = {"c", "d", "e"}
    return stage


def said(stage: Stage, name: str, message: ControlMessage, sequence: int = 7) -> ControlPacket:
    """Return what a daemon has said."""
    return packet_of(name, stage.fill_in(message), sequence)


def together(*packets: ControlPacket) -> Relayed:
    return Relayed(deflate_packets([packet.raw for packet in packets]))


def joins(stage: Stage) -> dict[str, Join | None]:
    """Return the joins of which a knows, by daemon."""
    peers = stage.daemons["a"].machine.peers
    return {name: peers[NUMBERS[name]].join for name in "bcde" if NUMBERS[name] in peers}


def test_each_message_counts_as_one_that_was_passed_on() -> None:
    stage = on_stage()
    told = together(said(stage, "d", join_of("d", 1)), said(stage, "e", join_of("e", 4)))
    stage.say("c", "a", told)
    found = joins(stage)
    assert found["c"] is None
    assert found["d"] == stage.fill_in(join_of("d", 1))
    assert found["e"] == stage.fill_in(join_of("e", 4))
    assert not stage.daemons["a"].machine.peers[NUMBERS["d"]].met


BAD = {
    "a beacon": BEACON,
    "a short beacon": ShortBeacon(b"", ALIKE, Beacon(1, OTHER_VIEW, (), ALIKE, 1, 2, 0, FIRST)),
    "a question": Ask(ControlKind.JOIN),
    "messages together": Relayed(deflate_packets([packet_of("e", Leave()).raw])),
}


@pytest.mark.parametrize("message", BAD.values(), ids=BAD)
def test_kinds_that_are_never_passed_on_are_refused_and_bar_no_others(
    message: ControlMessage,
) -> None:
    stage = on_stage()
    broken, right = said(stage, "d", message, 6), said(stage, "d", join_of("d", 1))
    for told in (together(broken, right), together(right, broken)):
        with pytest.raises(RemoteProtocolError, match="never passed on") as caught:
            stage.say("c", "a", told)
        assert not isinstance(caught.value, BadDatagram | ProtocolViolation), "c is not to blame"
        assert joins(stage)["d"] is not None
    assert NUMBERS["e"] not in stage.daemons["a"].machine.peers, "nothing of what was in it counts"


@pytest.mark.parametrize("place", range(3))
def test_a_broken_message_bars_no_others(place: int) -> None:
    """Its layout is that of no message, so its origin is broken, or a daemon in between."""
    stage = on_stage()
    broken = said(stage, "b", join_of("b", 1), 8)
    broken.payload = b"\xc1"
    broken.raw = broken.encode()
    packets = [said(stage, name, join_of(name, 1)) for name in "de"]
    packets.insert(place, broken)
    with pytest.raises(RemoteProtocolError, match="passed on") as caught:
        stage.say("c", "a", together(*packets))
    assert not isinstance(caught.value, BadDatagram | ProtocolViolation)
    found = joins(stage)
    assert found["d"] is not None
    assert found["e"] is not None


def test_a_sequence_that_no_daemon_reaches_is_refused_and_bars_no_later_one() -> None:
    stage = on_stage()
    far = said(stage, "d", join_of("d", 2), 2 * MOST_AHEAD)
    with pytest.raises(RemoteProtocolError, match="too far ahead"):
        stage.say("c", "a", together(far, said(stage, "d", join_of("d", 1))))
    assert joins(stage)["d"] == stage.fill_in(join_of("d", 1))


def test_a_relay_whose_packets_cannot_be_told_apart_is_to_blame() -> None:
    stage = on_stage()
    for raw in (b"", b"\xff" * 9, deflate_packets([b"no packet"])):
        with pytest.raises(BadDatagram):
            stage.say("c", "a", Relayed(raw))


def test_what_others_tell_a_daemon_of_itself_or_of_themselves_is_ignored() -> None:
    """A relay says itself what it has to say, and a daemon knows what it has said."""
    stage = on_stage()
    before = joins(stage)
    stage.say("c", "a", together(*(said(stage, name, join_of(name, 9), 8) for name in "ac")))
    assert joins(stage) == {**before, "c": None}
    assert NUMBERS["a"] not in stage.daemons["a"].machine.peers


def test_what_a_relay_says_in_the_name_of_a_daemon_that_speaks_for_itself_does_not_count() -> None:
    stage = on_stage()
    stage.say("d", "a", join_of("d", 1), 3)
    for sequence in (2, 8):
        stage.say("c", "a", together(said(stage, "d", join_of("d", 2), sequence)))
        assert joins(stage)["d"] == stage.fill_in(join_of("d", 1))
    stage.say("c", "a", together(said(stage, "d", Leave(), 9)))
    assert not stage.daemons["a"].machine.peers[NUMBERS["d"]].left


def test_a_daemon_that_was_heard_and_says_nothing_here_is_believed_over_relays() -> None:
    """Datagrams of other kinds come from it, over a link; they show that it is there."""
    stage = on_stage()
    stage.say("d", "a", join_of("d", 1), 3)
    stage.now = 2.0
    a = stage.daemons["a"].machine
    a.on_datagram(NUMBERS["d"], stage.daemons["d"].start.incarnation, stage.now)
    stage.say("c", "a", together(said(stage, "d", join_of("d", 2), 8)))
    assert joins(stage)["d"] == stage.fill_in(join_of("d", 2))
