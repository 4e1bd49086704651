"""What a shell and its programs get from a core, beside messages."""

import pytest
from msgspec import structs

from groupcomm.engine import ProgramSettings, QuestionAnswered
from groupcomm.engine.counters import Counters
from groupcomm.engine.reports import MAX_REPORT_BYTES
from groupcomm.engine.view import ViewState
from groupcomm.errors import LocalProtocolError, ProtocolViolation
from groupcomm.events import Answer, DaemonView, Message, Transition
from groupcomm.level import ServiceLevel
from groupcomm.security.quotas import Quotas
from groupcomm.session.daemon_session import SessionLimits
from groupcomm.stream.stream import MAX_AHEAD
from groupcomm.wire.data import UnreliablePacket
from groupcomm.wire.membership import Past
from tests.groupcomm.engine.clients import Clients
from tests.groupcomm.engine.cluster import Cluster, Program

AGREED = ServiceLevel.AGREED


def formed(*sites: str) -> Cluster:
    cluster = Cluster(*sites)
    names = "".join(sites)
    cluster.start(names)
    cluster.run(3.0)
    assert {cluster.members(name) for name in names} == {names}
    return cluster


def state_of(cluster: Cluster, name: str) -> ViewState:
    found = cluster.cores[name].view_state
    assert found is not None
    return found


def messages(program: Program) -> list[bytes]:
    return [bytes(event.data) for event in program.events if isinstance(event, Message)]


# ---- reports and questions ----


def test_a_report_reaches_the_shells_of_all_daemons_in_one_order_and_once() -> None:
    cluster = formed("abc")
    cluster.cores["a"].report(b"one")
    cluster.cores["c"].report(b"two")
    cluster.run(0.5)
    reports = [cluster.shells[name].reports for name in "abc"]
    assert sorted(reports[0]) == [("a", b"one"), ("c", b"two")]
    assert reports[0] == reports[1] == reports[2]


def test_a_report_that_is_too_long_is_refused() -> None:
    cluster = formed("a")
    with pytest.raises(LocalProtocolError, match="bytes"):
        cluster.cores["a"].report(bytes(MAX_REPORT_BYTES + 1))


def test_a_question_waits_until_the_answer_to_the_one_before_was_read() -> None:
    clients = Clients()
    one = clients.connect("u")
    for text in ("first", "second"):
        clients.sessions[one].ask(text)
    assert not clients.talk(one)
    assert clients.questions == [(one, "first")]
    clients.step(QuestionAnswered(one, b"{1}"))
    clients.step_once(now=0.1)
    assert clients.questions == [(one, "first")]
    assert clients.heard(one) == [Answer(data=b"{1}")]
    clients.step_once(now=0.2)
    assert clients.questions == [(one, "first"), (one, "second")]


def test_an_answer_to_a_program_that_has_gone_is_dropped() -> None:
    clients = Clients()
    one = clients.connect("u")
    clients.step(QuestionAnswered(one + 7, b"{1}"))
    assert clients.heard(one) == []


def test_the_shell_learns_which_daemons_hear_this_one_and_when() -> None:
    cluster = formed("abc")
    core = cluster.cores["a"]
    assert {(name, hears) for name, _, hears in core.heard(cluster.now - 1.0)} == {
        ("b", True), ("c", True)
    }  # fmt: skip
    cluster.cut = {("a", "b"), ("c", "a")}
    cluster.run(0.5)
    assert {(name, hears) for name, _, hears in core.heard(cluster.now - 0.2)} == {
        ("b", False), ("c", False)
    }  # fmt: skip


# ---- views ----


def test_a_program_that_asked_learns_which_daemons_came_along() -> None:
    cluster = formed("abc")
    asked = cluster.connect("a", "u", origins=True)
    plain = cluster.connect("a", "v")
    cluster.isolate("ab", "c")
    cluster.run(2.0)
    cluster.isolate("abc")
    cluster.run(2.0)
    for program, before, after in ((asked, ("a", "b"), ("a", "b")), (plain, None, None)):
        ends = [event for event in program.events if isinstance(event, Transition)]
        views = [event for event in program.events if isinstance(event, DaemonView)]
        assert ends[0].together == before
        assert views[-1].daemons == ("a", "b", "c")
        assert views[-1].together == after


def past_of(cluster: Cluster, name: str) -> Past:
    return state_of(cluster, name).view_change.past


def test_holdings_of_others_that_no_window_and_no_clock_allows_are_not_believed() -> None:
    cluster = formed("ab")
    program = cluster.connect("b", "u")
    program.session.join("g")
    cluster.run(0.5)
    change, past = state_of(cluster, "a").view_change, past_of(cluster, "b")
    assert change.is_plausible(past)
    held = state_of(cluster, "a").streams[0].held
    possible: list[dict[str, object]] = [
        {"forgotten": held},
        {"spans": ((1, held + MAX_AHEAD),)},
        {"notices": ((held + MAX_AHEAD, 1),)},
    ]
    impossible: list[dict[str, object]] = [
        {"forgotten": held + 1},
        {"spans": ((1, 2), (4, held + MAX_AHEAD + 1))},
        {"notices": ((held, 1), (held + MAX_AHEAD + 1, 1))},
        {"frontier": 2**62},
        {"notices": ((held, 2**62),)},
    ]
    for changes in possible:
        assert change.is_plausible(_with(past, **changes)), changes
    for changes in impossible:
        assert not change.is_plausible(_with(past, **changes)), changes


def _with(past: Past, **changes: object) -> Past:
    (holding,) = past.holdings
    return structs.replace(past, holdings=(structs.replace(holding, **changes),))


# ---- datagrams outside the streams ----


def test_an_unreliable_packet_counts_once_also_out_of_order_and_not_far_ahead() -> None:
    delivery = state_of(formed("ab"), "a").delivery

    def is_new(counter: int) -> bool:
        return delivery.is_new_unreliable(UnreliablePacket(daemon=1, counter=counter, bundles=[]))

    assert [is_new(counter) for counter in (3, 1, 3, 2, 1, 4)] == [
        True, True, False, True, False, True
    ]  # fmt: skip
    with pytest.raises(ProtocolViolation, match="too far ahead"):
        is_new(2**63)


def seen_at(cluster: Cluster, names: str, text: bytes) -> bool:
    """Return whether a text was sent to one of these daemons; nothing is sealed here."""
    return any(target in names and text in datagram for _, _, target, datagram in cluster.log)


@pytest.mark.parametrize("level", [AGREED, ServiceLevel.UNRELIABLE], ids=["numbered", "unreliable"])
def test_what_has_no_recipient_at_another_site_does_not_go_there(level: ServiceLevel) -> None:
    cluster = formed("ab", "cd")
    a, b, d = (cluster.connect(name, name) for name in "abd")
    for program in (a, b):
        program.session.join("near")
    for program in (b, d):
        program.session.join("far")
    cluster.run(1.0)
    a.session.multicast("near", b"stays-here", level=level)
    a.session.multicast("far", b"goes-there", level=level)
    cluster.run(1.0)
    assert messages(b) == [b"stays-here", b"goes-there"]
    assert messages(d) == [b"goes-there"]
    assert seen_at(cluster, "b", b"stays-here")
    assert not seen_at(cluster, "cd", b"stays-here")
    assert seen_at(cluster, "cd", b"goes-there")


def test_members_at_another_site_from_before_a_view_get_what_is_sent_in_it() -> None:
    cluster = formed("ab", "cd")
    a, d = cluster.connect("a", "a"), cluster.connect("d", "d")
    d.session.join("g")
    cluster.run(1.0)
    cluster.isolate("ab", "cd")
    cluster.run(3.0)
    cluster.isolate("abcd")
    cluster.run(3.0)
    assert cluster.members("a") == "abcd"
    a.session.multicast("g", b"to-d", level=AGREED)
    cluster.run(1.0)
    assert messages(d) == [b"to-d"]


def test_a_group_that_was_left_at_another_site_gets_nothing_there_any_more() -> None:
    cluster = formed("ab", "cd")
    a, d = cluster.connect("a", "a"), cluster.connect("d", "d")
    for program in (a, d):
        program.session.join("g")
    cluster.run(1.0)
    d.session.leave("g")
    cluster.run(1.0)
    a.session.multicast("g", b"too-late-for-d", level=AGREED)
    cluster.run(1.0)
    assert messages(a) == [b"too-late-for-d"]
    assert not seen_at(cluster, "cd", b"too-late-for-d")
    d.session.join("g")
    cluster.run(1.0)
    a.session.multicast("g", b"in-time", level=AGREED)
    cluster.run(1.0)
    assert messages(d) == [b"in-time"]


def test_a_daemon_that_has_done_nothing_has_counted_nothing() -> None:
    counts = Counters()
    assert (counts.received, counts.bad, counts.sent) == (0, 0, 0)
    assert (counts.duplicates, counts.foreign, counts.stale) == (0, 0, 0)
    assert (counts.rejected, counts.latest, counts.violations) == ({}, [], {})


def test_settings_of_programs_that_change_count_at_once() -> None:
    clients = Clients()
    quotas, limits = Quotas(groups=3), SessionLimits(block_s=7.0)
    clients.step(ProgramSettings(limits=limits, quotas=quotas))
    assert clients.core.sessions.intake.quotas == quotas
    assert clients.core.sessions.limits == limits
