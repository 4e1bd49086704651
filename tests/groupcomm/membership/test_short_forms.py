"""Short forms: digests in place of lists that others know, and questions where they do not."""

import attrs
import pytest
from msgspec import structs

from groupcomm.config.view import Incarnation
from groupcomm.membership.states import GatherReason
from groupcomm.wire.control import ControlPacket, decode_control_untrusted
from groupcomm.wire.membership import (
    Ask,
    Beacon,
    Commit,
    ControlKind,
    ControlMessage,
    Join,
    ShortBeacon,
    ShortCommit,
    ShortJoin,
    decode_message_untrusted,
)
from tests.groupcomm.membership.stage import IN_FULL, NUMBERS, Daemon, Stage, join_of, row_of

FULL = (Beacon, Join, Commit)
SHORT = (ShortBeacon, ShortJoin, ShortCommit)


def in_view(*sites: str, names: str = "abcd", old: str = "") -> Stage:
    """A view of daemons that use short forms, but for the `old` ones."""
    stage = Stage(*sites, crowd=True, short=True)
    for name in old:
        stage.configs[name] = attrs.evolve(stage.config, versions=IN_FULL)
    stage.start(names)
    stage.run(3.0)
    assert stage.members == [names] * len(names)
    return stage


def since(stage: Stage, count: int) -> list[ControlMessage]:
    return [message for _, _, message in stage.sent[count:]]


def end(stage: Stage, name: str = "a") -> None:
    stage.daemons[name].machine.gather(GatherReason.TOKEN_LOST, stage.now)


def test_few_daemons_say_all_in_full() -> None:
    stage = Stage("abcd", short=True)
    stage.start("abcd")
    stage.run(1.0)
    end(stage)
    stage.run(0.1)
    assert stage.members == ["abcd"] * 4
    assert {type(message) for message in since(stage, 0)} == set(FULL)


@pytest.mark.parametrize("sites", [("abcd",), ("ab", "cd")])
def test_who_hear_each_other_say_almost_all_in_short_forms(sites: tuple[str, ...]) -> None:
    stage = in_view(*sites)
    count = len(stage.sent)
    stage.run(1.0)
    assert {type(message) for message in since(stage, count)} == {ShortBeacon}
    count = len(stage.sent)
    end(stage)
    stage.run(0.1)
    assert stage.members == ["abcd"] * 4
    assert not [m for m in since(stage, count) if isinstance(m, Join | Beacon | Ask)]
    (proposal,) = {(one, m.attempt) for one, _, m in stage.sent[count:] if isinstance(m, Commit)}
    assert NUMBERS[proposal[0]] == min(NUMBERS[name] for name in "abcd"), "the first one, once"


def test_beside_a_daemon_that_does_not_read_them_all_is_said_in_full() -> None:
    stage = in_view("abcd", old="c")
    count = len(stage.sent)
    stage.run(1.0)
    end(stage)
    stage.run(0.1)
    assert stage.members == ["abcd"] * 4
    assert not [m for m in since(stage, count) if isinstance(m, SHORT)]


def test_a_daemon_that_does_not_read_them_comes_to_the_others() -> None:
    stage = in_view("abcd", names="abc")
    stage.configs["d"] = attrs.evolve(stage.config, versions=IN_FULL)
    count = len(stage.sent)
    stage.start("d")
    stage.run(0.2)
    assert stage.members == ["abcd"] * 4
    stage.run(1.0)
    count = len(stage.sent)
    stage.run(1.0)
    assert {type(message) for message in since(stage, count)} == {Beacon}


def test_where_daemons_hear_some_only_over_others_all_is_said_in_full() -> None:
    stage = Stage("abc", crowd=True, short=True)
    stage.isolate("ab", "bc")
    stage.start("abc")
    stage.run(3.0)
    assert stage.members == ["abc"] * 3
    end(stage)
    stage.run(1.0)
    assert stage.members == ["abc"] * 3


def short_join_of(daemon: Daemon, *, heard: str) -> ControlPacket:
    """The next join of a daemon, in the short form, as if it heard these."""
    machine = daemon.machine
    machine._own_join.latest = structs.replace(machine._own_join.latest, heard=row_of(heard))
    machine.flood.send_all(machine._short._with_digest(machine._own_join.latest))
    packets = [packet for _, packet in daemon.taken() if packet.kind == ControlKind.SHORT_JOIN]
    return packets[-1]


def gathering() -> Stage:
    stage = in_view("abcd", names="abc")
    for name in "abc":
        end(stage, name)
        stage.daemons[name].taken()
    return stage


def asked(daemon: Daemon) -> list[int]:
    """Return the kinds of messages that a daemon asks for now."""
    found = [decode_message_untrusted(p.kind, p.payload) for _, p in daemon.taken()]
    return [message.kind for message in found if isinstance(message, Ask)]


def test_a_list_with_a_daemon_that_is_unknown_here_is_asked_for_the_second_time() -> None:
    stage = gathering()
    a, b = stage.daemons["a"], stage.daemons["b"]
    found = []
    for _ in range(3):
        stage.hear("b", "a", short_join_of(a, heard="bcd"))
        found.append(asked(b))
    assert found == [[], [ControlKind.JOIN], []], "and not again at once"
    peer = b.machine.peers[NUMBERS["a"]]
    assert peer.join is not None
    assert peer.join.heard == (), "what it heard in this attempt as far as it is known"
    stage.say("b", "a", Ask(ControlKind.JOIN))
    (answer,) = [packet for target, packet in a.taken() if target == "b"]
    stage.hear("b", "a", answer)
    assert peer.join.heard == row_of("bcd")


@pytest.mark.parametrize("by", ["itself", "another"])
def test_a_list_is_told_once_the_daemon_that_was_unknown_is_heard_or_mentioned(by: str) -> None:
    stage = gathering()
    b = stage.daemons["b"]
    for name in "ac":
        b.machine.on_datagram(NUMBERS[name], stage.daemons[name].start.incarnation, stage.now)
    b.machine.step(stage.now)
    stage.hear("b", "a", short_join_of(stage.daemons["a"], heard="bcd"))
    peer = b.machine.peers[NUMBERS["a"]]
    d = stage.place("d")
    if by == "itself":
        b.machine.on_datagram(NUMBERS["d"], d.start.incarnation, stage.now)
    else:
        d.machine.flood.out.clear()
        d.machine.flood.send_to("c", stage.fill_in(join_of("d", 1)))
        ((_, packet),) = d.taken()
        stage.hear("b", "c", packet)
    b.machine.step(stage.now)
    assert peer.join is not None
    assert peer.join.heard == row_of("bcd")


def test_another_start_of_a_daemon_is_another_list() -> None:
    stage = gathering()
    b = stage.daemons["b"]
    b.machine.on_datagram(NUMBERS["d"], Incarnation(9, 9), stage.now)
    stage.hear("b", "a", short_join_of(stage.daemons["a"], heard="bcd"))
    peer = b.machine.peers[NUMBERS["a"]]
    assert peer.join is not None
    assert peer.join.heard == ()


def test_all_is_said_in_full_while_two_starts_of_a_daemon_are_heard() -> None:
    """The one that does not count gets no answer, and could not tell whether it is meant."""
    stage = in_view("abc", names="abc")
    a = stage.daemons["a"].machine
    assert not a.on_datagram(NUMBERS["c"], Incarnation(0, 9), stage.now)
    for forms in ({Beacon}, {ShortBeacon}):
        count = len(stage.sent)
        stage.run(0.3)
        assert {type(m) for name, _, m in stage.sent[count:] if name == "a"} == forms
        stage.run(0.3)


def test_joins_are_said_in_full_while_some_of_the_others_do_not_hear_each_other() -> None:
    """They could not tell the lists of those that hear both of them."""
    stage = in_view("abcd")
    stage.cut = {("a", "c"), ("c", "a")}
    stage.run(3.0)
    count = len(stage.sent)
    end(stage, "d")
    stage.run(1.0)
    assert stage.members == ["abcd"] * 4
    said = stage.sent[count:]
    assert {name for name, _, m in said if isinstance(m, ShortJoin)} == {"a", "c"}
    assert not [m for _, _, m in said if isinstance(m, Ask)]


def test_a_proposal_that_nobody_here_has_is_asked_for_and_its_commits_count_then() -> None:
    """The first daemon of the proposal says it in full, and that is lost here."""
    stage = Stage("abcd", crowd=True, short=True)
    stage.start("abcd")
    stage.run(3.0)
    first = min("abcd", key=lambda name: NUMBERS[name])
    other = max("abcd", key=lambda name: NUMBERS[name])
    stage.cut = {(first, other)}  # that one is not heard, so its proposal is another one
    stage.run(2.0)
    stage.cut = set()
    stage.run(3.0)
    assert stage.members == ["abcd"] * 4


def test_questions_for_unknown_kinds_are_not_answered_and_known_ones_not_too_often() -> None:
    stage = gathering()
    a = stage.daemons["a"]
    for kind in (0, ControlKind.REPAIR, 2**60, ControlKind.BEACON):
        stage.say("b", "a", Ask(kind))
    assert a.taken() == []
    for _ in range(5):
        stage.say("b", "a", Ask(ControlKind.JOIN))
    assert len(a.taken()) == 1


def test_a_question_that_was_passed_on_is_a_breach() -> None:
    stage = gathering()
    b = stage.daemons["b"]
    b.machine.flood.send_to("a", Ask(ControlKind.JOIN))
    (packet,) = [packet for _, packet in b.taken()]
    with pytest.raises(Exception, match="never passed on"):
        stage.daemons["a"].machine.on_control(
            decode_control_untrusted(packet.raw), NUMBERS["c"], stage.now
        )
