"""Groups that pause, and sessions that leave, where there is no quorum: docs/minority.md."""

import pytest

from groupcomm.config.versions import PAUSES, SPOKEN, Versions
from groupcomm.engine import ClientGone, backlog
from groupcomm.errors import LocalProtocolError
from groupcomm.events import DaemonView, Event, GroupView, Message, Refused
from groupcomm.level import AGREED_LEVELS, LEVELS, ServiceLevel
from groupcomm.session.client_session import Minority
from groupcomm.session.daemon_session import SessionLimits
from tests.groupcomm.engine.cluster import Cluster, Program

OLD = Versions(lowest=1, highest=2, features=SPOKEN.features & ~PAUSES)


def formed(*sites: str, old: str = "") -> Cluster:
    cluster = Cluster(*sites)
    cluster.versions = dict.fromkeys(old, OLD)
    names = "".join(sites)
    cluster.start(names)
    cluster.run(1.0)
    assert {cluster.members(name) for name in names} == {names}
    return cluster


def joined(
    cluster: Cluster, name: str, minority: Minority = "deliver", group: str = "g"
) -> Program:
    """A program of a daemon that has joined a group."""
    program = cluster.connect(name, f"of{name}{len(cluster.programs)}")
    program.session.join(group, minority=minority)
    cluster.run(0.5)
    return program


def send(cluster: Cluster, program: Program, text: bytes, *groups: str) -> None:
    program.session.multicast(groups or "g", text, level=ServiceLevel.AGREED)
    cluster.run(0.5)


def cut(cluster: Cluster, *islands: str) -> None:
    cluster.isolate(*islands)
    cluster.run(2.0)


def mend(cluster: Cluster) -> None:
    cluster.cut = set()
    cluster.run(2.0)


def texts(program: Program) -> list[bytes]:
    """The messages that a program has got."""
    return [event.data for event in program.events if isinstance(event, Message)]


def views(events: list[Event], group: str = "g") -> list[GroupView]:
    return [event for event in events if isinstance(event, GroupView) and event.group == group]


@pytest.mark.parametrize("sites", [("abc",), ("a", "bc"), ("a", "b", "c")])
def test_what_is_sent_in_a_paused_group_comes_after_what_the_majority_sent(
    sites: tuple[str, ...],
) -> None:
    cluster = formed(*sites)
    minor, major, other = (joined(cluster, name, "pause") for name in "abc")
    cut(cluster, "a", "bc")
    send(cluster, minor, b"held 1")
    send(cluster, major, b"major")
    send(cluster, minor, b"held 2")
    assert texts(minor) == []
    assert texts(major) == texts(other) == [b"major"]
    mend(cluster)
    assert texts(minor) == [b"held 1", b"held 2"], "the majority's are for those who were there"
    assert texts(major) == texts(other) == [b"major", b"held 1", b"held 2"]


def test_the_program_is_told_that_its_group_pauses_and_that_it_goes_on() -> None:
    cluster = formed("abc")
    pausing, plain = joined(cluster, "a", "pause"), joined(cluster, "a")
    for program in (pausing, plain):
        program.events.clear()
    cut(cluster, "a", "bc")
    mend(cluster)
    for program, expected in ((pausing, [True, False]), (plain, [False, False])):
        told = [e.majority for e in program.events if isinstance(e, DaemonView)]
        assert told == [False, True]
        assert [view.paused for view in views(program.events)] == expected


@pytest.mark.parametrize("level", LEVELS)
def test_only_agreed_and_safe_messages_wait(level: ServiceLevel) -> None:
    cluster = formed("abc")
    program = joined(cluster, "a", "pause")
    cut(cluster, "a", "bc")
    program.session.multicast("g", b"x", level=level)
    cluster.run(0.5)
    assert texts(program) == ([] if level in AGREED_LEVELS else [b"x"])


def test_the_member_that_wants_most_decides_for_all_members_of_its_part() -> None:
    """Else those who get a message and those who do not would be said to come together."""
    cluster = formed("abcde")
    pausing, plain = joined(cluster, "a", "pause"), joined(cluster, "b")
    cut(cluster, "ab", "cde")
    send(cluster, plain, b"held")
    assert texts(pausing) == texts(plain) == []
    send(cluster, joined(cluster, "a", group="h"), b"both", "h", "g")
    assert texts(plain) == []
    mend(cluster)
    assert texts(pausing) == texts(plain)
    assert sorted(texts(plain)) == [b"both", b"held"]


def test_a_part_without_a_pausing_member_delivers() -> None:
    cluster = formed("abc")
    joined(cluster, "b", "pause")
    plain = joined(cluster, "a")
    cut(cluster, "a", "bc")
    send(cluster, plain, b"here")
    assert texts(plain) == [b"here"]


def test_a_session_that_sends_to_a_paused_group_keeps_its_order() -> None:
    cluster = formed("abc")
    pausing, reader = joined(cluster, "a", "pause"), joined(cluster, "a", group="h")
    cut(cluster, "a", "bc")
    send(cluster, pausing, b"before", "h")
    send(cluster, pausing, b"held")
    send(cluster, pausing, b"after", "h")
    assert texts(reader) == [b"before"]
    mend(cluster)
    assert texts(reader) == [b"before", b"after"]
    assert texts(pausing) == [b"held"]


def test_a_message_of_which_some_fragments_have_numbers_waits_as_a_whole() -> None:
    """The cut comes while fragments are under way; nobody gets a part, or the message twice."""
    cluster = formed("abc")
    pausing = joined(cluster, "a", "pause")
    data = bytes(3_000_000)
    pausing.session.multicast("g", data, level=ServiceLevel.SAFE)
    session = cluster.cores["a"].sessions.by_connection[pausing.connection]
    while len(session.numbered) < 5:
        cluster.run(0.001)
    cut(cluster, "a", "bc")
    before = texts(pausing)
    mend(cluster)
    assert before == []
    assert texts(pausing) == [data]


def test_what_is_sent_between_two_views_waits_too() -> None:
    cluster = formed("abc")
    pausing = joined(cluster, "a", "pause")
    cluster.isolate("a", "bc")
    while cluster.members("a"):
        cluster.run(0.01)
    pausing.session.multicast("g", b"between", level=ServiceLevel.AGREED)
    cluster.run(2.0)
    assert cluster.members("a") == "a"
    assert texts(pausing) == []
    mend(cluster)
    assert texts(pausing) == [b"between"]


def test_the_group_goes_on_in_its_part_once_nobody_there_pauses() -> None:
    cluster = formed("abc")
    pausing, plain = joined(cluster, "a", "pause"), joined(cluster, "a")
    cut(cluster, "a", "bc")
    send(cluster, plain, b"held")
    assert texts(plain) == []
    pausing.session.leave("g")
    cluster.run(0.5)
    assert texts(plain) == [b"held"]
    assert texts(pausing) == []


def test_a_join_that_needs_a_quorum_waits_for_one() -> None:
    """Messages of daemons that do not know it yet would come after it."""
    cluster = formed("abc")
    plain = joined(cluster, "a")
    cut(cluster, "a", "bc")
    late = joined(cluster, "a", "pause")
    assert views(late.events) == []
    send(cluster, plain, b"here")
    assert texts(plain) == [b"here"]
    mend(cluster)
    assert views(late.events)[-1].own
    assert texts(late) == []


def test_who_leaves_without_a_quorum_is_taken_out_and_may_join_again() -> None:
    cluster = formed("abc")
    leaving, plain, major = (
        joined(cluster, "a", "leave"),
        joined(cluster, "a"),
        joined(cluster, "b"),
    )
    leaving.session.multicast("g", b"held", level=ServiceLevel.AGREED)
    cut(cluster, "a", "bc")
    refused = [event for event in leaving.events if isinstance(event, Refused)]
    assert [(each.number, each.verb, each.group, each.bound) for each in refused] == [
        (0, "join", "g", "quorum")
    ]
    assert "join again once there is one" in str(refused[0])
    assert views(leaving.events)[-1].own
    assert [len(view.members) for view in views(plain.events)[-2:]] == [2, 1]
    before = len(texts(leaving))
    send(cluster, plain, b"here")
    assert texts(plain)[-1] == b"here", "nobody pauses any more"
    assert len(texts(leaving)) == before
    mend(cluster)
    assert len(views(major.events)[-1].members) == 2
    leaving.session.join("g", minority="leave")
    cluster.run(0.5)
    send(cluster, plain, b"again")
    assert texts(leaving)[-1] == b"again"


def test_a_session_that_waits_with_much_is_not_read_any_more() -> None:
    """So what waits is bounded by the backlog of each session; then its program has to wait."""
    cluster = formed("abc")
    program = joined(cluster, "a", "pause")
    cut(cluster, "a", "bc")
    session = cluster.cores["a"].sessions.by_connection[program.connection]
    sent = 0
    while session.reading:
        assert sent < 40
        send(cluster, program, bytes(20_000))
        sent += 1
    assert session.backlog_bytes < SessionLimits().backlog_cap_bytes + 25_000
    mend(cluster)
    assert session.reading
    assert len(texts(program)) == sent


def test_programs_that_come_send_and_go_leave_a_bounded_amount(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that leave too much leave nothing but their end."""
    monkeypatch.setattr(backlog, "MOST_LEFT_BYTES", 2_500)
    cluster = formed("abc")
    pausing = joined(cluster, "a", "pause")
    cut(cluster, "a", "bc")
    core = cluster.cores["a"]
    for number in range(5):
        program = cluster.connect("a", f"visitor{number}")
        send(cluster, program, bytes([number]) * 1_000)
        cluster.step("a", [], [ClientGone(program.connection)])
        cluster.run(0.5)
    assert core.sessions.subscriptions.waiting == 4, "two messages and the two ends behind them"
    assert core.status(cluster.now).messages_left_lost == 3
    mend(cluster)
    assert [text[0] for text in texts(pausing)] == [0, 1]
    assert core.sessions.waiting == 0
    assert len(core.sessions.by_connection) == 1


@pytest.mark.parametrize("old", ["b", "a"])
def test_where_a_daemon_does_not_know_pauses_a_join_is_an_error(old: str) -> None:
    cluster = formed("abc", old=old)
    program = cluster.connect("a", "u")
    with pytest.raises(LocalProtocolError, match="earlier release"):
        program.session.join("g", minority="pause")
    program.session.join("g")


def test_who_needs_a_quorum_leaves_where_a_daemon_does_not_know_that() -> None:
    """Programs of that daemon would be heard: so the member is told that it is out."""
    cluster = formed("abcd")
    program = joined(cluster, "a", "pause")
    cut(cluster, "a", "bcd")
    assert views(program.events)[-1].paused
    for name in "bcd":
        del cluster.cores[name]
    cluster.versions = {"b": OLD}
    cluster.start("b", restarts=2, random_id=77)
    mend(cluster)
    assert cluster.members("a") == "ab"
    assert [e.bound for e in program.events if isinstance(e, Refused)] == ["quorum"]
    assert not views(program.events)[-1].members


def test_a_wish_that_does_not_exist_is_named() -> None:
    cluster = formed("abc")
    program = cluster.connect("a", "u")
    with pytest.raises(LocalProtocolError, match="'pase'; it must be one of 'deliver', 'pa"):
        program.session.join("g", minority="pase")  # type: ignore[arg-type]
