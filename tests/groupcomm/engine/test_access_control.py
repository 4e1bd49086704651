"""Rules meet sessions, reloads and merges: refusals reach the program, and nobody else."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.engine import AccessNews, ClientBytes, ClientOpened, ProgramSettings
from groupcomm.engine.access_control import MAX_KNOWN, AccessControl
from groupcomm.errors import BadDatagram, Code
from groupcomm.events import Cause, Closed, GroupView, Message, Refused
from groupcomm.level import ServiceLevel
from groupcomm.security.access import Access, Rule, Verb
from groupcomm.security.quotas import Quotas
from groupcomm.session.daemon_session import DaemonSession, SessionLimits
from groupcomm.session.frames import encode_bundle_head, encode_hello
from groupcomm.wire.bundle import (
    Bundle,
    BundleKind,
    control_bundle,
    decode_body_untrusted,
    encode_body,
)
from tests.examples import examples
from tests.groupcomm.engine.clients import Clients
from tests.groupcomm.engine.cluster import Cluster, Program
from tests.groupcomm.security.test_access import ANY_NAME, ROWS, Row, access_of, reference

AGREED = ServiceLevel.AGREED
FORBIDDEN = Access((Rule(("nobody",), ("*",), frozenset(Verb)), ANY_NAME))
ALL = Access()


def rules(*rows: tuple[str, str, Verb]) -> Access:
    return access_of([([who], [group], [verb]) for who, group, verb in rows])


def news(program: Program) -> list[object]:
    """Return a program's events since the last call."""
    events, program.events = program.events, []
    return list(events)


def refusals(program: Program) -> list[tuple[int, str, str]]:
    return [(e.number, e.verb, e.group) for e in news(program) if isinstance(e, Refused)]


@pytest.fixture
def pair() -> Cluster:
    return two_daemons()


def two_daemons() -> Cluster:
    """Return the key of one view."""
    cluster = Cluster("ab")
    cluster.start("ab")
    cluster.run(1.0)
    assert cluster.members("a") == "ab"
    return cluster


# ---- the matrix ----

DESTINATIONS: tuple[tuple[str, ...], ...] = (
    ("chat",),
    ("chat2",),
    ("cha", "chat"),
    ("caf\u00e9",),
    ("cafe\u0301", "chat"),
    ("#bob#b",),
    ("chat", "#bob#b", "x" * 255),
    ("*",),
)


def first_refused(rows: Sequence[Row], principal: str, names: Sequence[str]) -> str | None:
    """The first of some destinations that the reference does not allow."""
    for name in names:
        verb = Verb.UNICAST if name[0] == "#" else Verb.SEND
        if not reference(rows, principal, verb, name):
            return name
    return None


def check_decisions(
    cluster: Cluster, program: Program, principal: str, rows: Sequence[Row]
) -> None:
    """Every request of the matrix is decided as the reference does."""
    news(program)
    session, expected = program.session, []
    for names in DESTINATIONS:
        refused = first_refused(rows, principal, names)
        number = session.multicast(names, b"x", level=AGREED)
        if refused is not None:
            expected.append((number, "unicast" if refused[0] == "#" else "send", refused))
    for group in ("chat", "chat2", "caf\u00e9", "*", "x" * 255):
        number = session.join(group)
        if not reference(rows, principal, Verb.JOIN, group):
            expected.append((number, "join", group))
    cluster.run(0.5)
    assert refusals(program) == expected
    refused_groups = {group for _, verb, group in expected if verb == "join"}
    for group in {"chat", "chat2", "caf\u00e9", "*", "x" * 255} - refused_groups:
        session.leave(group)
    cluster.run(0.5)


@examples(12)
@given(first=ROWS, second=ROWS, principal=st.sampled_from(["cert:ann", "token:sensor-7", "unix:x"]))
def test_sessions_are_decided_as_the_reference(
    first: Sequence[Row], second: Sequence[Row], principal: str
) -> None:
    cluster = Cluster("ab")
    cluster.start("ab")
    cluster.run(1.0)
    sessions = cluster.cores["a"].sessions
    sessions.set_rules(access_of(first), Quotas())
    ann = cluster.connect("a", "ann", principal)
    cluster.connect("b", "bob", "unix:bob")
    check_decisions(cluster, ann, principal, first)
    sessions.set_rules(access_of(second), Quotas())
    check_decisions(cluster, ann, principal, second)  # after a reload
    cluster.isolate("a", "b")
    cluster.run(3.0)
    cluster.cut.clear()
    cluster.run(5.0)
    assert cluster.members("a") == "ab"
    check_decisions(cluster, ann, principal, second)  # after a merge


# ---- reloads and merges ----


def test_who_may_not_be_a_member_any_more_leaves_and_is_notified(pair: Cluster) -> None:
    ann, bob = pair.connect("a", "ann", "cert:ann"), pair.connect("b", "bob", "cert:bob")
    for program in (ann, bob):
        program.session.join("g")
        pair.run(0.2)
        news(program)
    news(ann), news(bob)
    pair.step("a", [], [ProgramSettings(access=rules(("cert:ann", "h", Verb.JOIN)))])
    pair.run(0.3)
    told, gone = news(ann)
    assert isinstance(told, Refused)
    assert (told.number, told.verb, told.group, told.principal) == (0, "join", "g", "cert:ann")
    assert isinstance(gone, GroupView)
    assert (gone.cause, gone.own, gone.members) == (Cause.LEAVE, True, ())
    (seen,) = news(bob)
    assert isinstance(seen, GroupView)
    assert [member.name for member in seen.members] == ["#bob#b"]
    ann.session.join("g")
    ann.session.join("h")
    pair.run(0.3)
    refused, view = news(ann)
    assert (isinstance(refused, Refused), isinstance(view, GroupView)) == (True, True)
    lines = pair.shells["a"].lines(AccessNews)
    assert "of cert:ann was removed from 'g'" in lines[0]
    assert "of cert:bob is in 'g', which the rules of this daemon forbid" in lines[1]


def test_a_join_that_was_under_way_when_the_rules_changed_ends_at_once(pair: Cluster) -> None:
    ann = pair.connect("a", "ann", "cert:ann")
    news(ann)
    sessions = pair.cores["a"].sessions
    ann.session.join("g")
    pair.step("a", [], ann.say())
    sessions.set_rules(FORBIDDEN, Quotas())
    pair.run(0.5)
    views = [event for event in news(ann) if isinstance(event, GroupView)]
    assert [view.cause for view in views][-1] is Cause.LEAVE
    assert "g" not in pair.cores["b"].sessions._table.groups  # type: ignore[union-attr]


def test_principals_are_known_everywhere_also_after_a_merge(pair: Cluster) -> None:
    pair.connect("a", "ann", "cert:ann")

    def principal() -> str:
        table = pair.cores["b"].sessions._table
        assert table is not None
        return table.names["#ann#a"].principal

    assert principal() == "cert:ann"
    pair.isolate("a", "b")
    pair.run(3.0)
    pair.cut.clear()
    pair.run(5.0)
    assert pair.members("b") == "ab"
    assert principal() == "cert:ann"


def test_what_another_daemon_allows_is_noted_and_not_undone(pair: Cluster) -> None:
    ann = pair.connect("a", "ann", "cert:ann")
    access_control = pair.cores["b"].sessions.access_control
    pair.cores["b"].sessions.set_rules(rules(("cert:bob", "*", Verb.JOIN)), Quotas())
    ann.session.join("g")
    pair.run(0.3)
    assert access_control.foreign_joins == 1
    (line,) = pair.shells["b"].lines(AccessNews)
    assert "#ann#a/" in line
    assert "of cert:ann is in 'g'" in line
    pair.isolate("a", "b")
    pair.run(3.0)
    pair.cut.clear()
    pair.run(5.0)
    assert access_control.foreign_joins == 2, "the merge has brought it again"
    assert "g" in pair.cores["b"].sessions._table.groups  # type: ignore[union-attr]


def test_joins_that_another_daemon_allows_fill_no_log(pair: Cluster) -> None:
    """Somebody joins and leaves again and again where the rules are others."""
    ann = pair.connect("a", "ann", "cert:ann")
    access_control = pair.cores["b"].sessions.access_control
    strict = rules(("cert:bob", "*", Verb.JOIN))
    pair.cores["b"].sessions.set_rules(strict, Quotas())
    for _ in range(20):
        ann.session.join("g")
        ann.session.leave("g")
        pair.run(0.1)
    assert (access_control.foreign_joins, len(pair.shells["b"].lines(AccessNews))) == (20, 1)
    for number in range(400):
        ann.session.join(f"g{number}")
    pair.run(0.5)
    assert access_control.foreign_joins == 420
    assert len(access_control._logged) == 256
    pair.cores["b"].sessions.set_rules(strict, Quotas())
    assert len(access_control._logged) == 256, "it is told again of all who are there"


def test_rules_that_change_while_daemons_are_apart_hold_when_they_meet(pair: Cluster) -> None:
    ann, bob = pair.connect("a", "ann", "cert:ann"), pair.connect("b", "bob", "cert:bob")
    for program in (ann, bob):
        program.session.join("g")
        pair.run(0.2)
    pair.isolate("a", "b")
    pair.run(3.0)
    pair.cores["a"].sessions.set_rules(FORBIDDEN, Quotas())
    pair.cut.clear()
    pair.run(5.0)
    assert pair.members("b") == "ab"
    last = [event for event in news(bob) if isinstance(event, GroupView)][-1]
    assert [member.name for member in last.members] == ["#bob#b"]
    assert any(isinstance(event, Refused) and event.number == 0 for event in news(ann))


# ---- one daemon ----


def govern(clients: Clients, access: Access, quotas: Quotas | None = None) -> None:
    clients.step(ProgramSettings(access=access, quotas=quotas or Quotas()))


def test_what_was_allowed_is_judged_anew_by_other_rules() -> None:
    clients = Clients()
    govern(clients, rules(("cert:ann", "g", Verb.SEND)))
    ann = clients.connect("ann", principal="cert:ann")
    clients.sessions[ann].multicast("g", b"x", level=AGREED)
    assert clients.talk(ann) == []
    govern(clients, rules(("cert:ann", "h", Verb.SEND)))
    clients.sessions[ann].multicast("g", b"x", level=AGREED)
    assert [type(event) for event in clients.talk(ann)] == [Refused]


def test_rules_that_change_before_a_client_says_its_name_end_nobody() -> None:
    clients = Clients()
    connection = clients.core.next_connection()
    clients.step(ClientOpened(connection))
    govern(clients, Access((Rule(("nobody",), ("*",), frozenset(Verb)),)))
    assert clients.ended == []
    assert connection in clients.core.sessions.by_connection


def test_who_may_not_see_members_is_notified_of_itself_alone() -> None:
    clients = Clients()
    govern(clients, rules(("*", "g", Verb.JOIN), ("cert:ann", "g", Verb.SEE_MEMBERS)))
    ann = clients.connect("ann", principal="cert:ann")
    eve = clients.connect("eve", principal="cert:eve")
    seen: dict[int, list[tuple[list[str], int, int]]] = {ann: [], eve: []}
    for joins in (ann, eve):
        clients.sessions[joins].join("g")
        clients.talk(joins)
        for each in (ann, eve):
            for event in clients.heard(each) if each != joins else []:
                assert isinstance(event, GroupView)
                names = [member.name for member in event.members]
                seen[each].append((names, len(event.changed), len(event.vs_set)))
    assert seen[ann] == [(["#ann#a", "#eve#a"], 1, 1)]
    clients.sessions[ann].leave("g")
    clients.talk(ann)
    (view,) = clients.heard(eve)
    assert isinstance(view, GroupView)
    assert ([m.name for m in view.members], view.changed, view.cause) == (
        ["#eve#a"],
        (),
        Cause.LEAVE,
    )


@pytest.mark.parametrize("reload", [False, True])
def test_no_part_of_a_large_message_that_is_refused_gets_through(reload: bool) -> None:
    clients = Clients()
    ann = clients.connect("ann", principal="cert:ann")
    bob = clients.connect("bob", principal="cert:bob")
    clients.sessions[bob].join("g")
    clients.talk(bob)
    govern(clients, rules(("cert:bob", "*", Verb.JOIN)))
    number = clients.sessions[ann].multicast("g", bytes(200_000), level=AGREED)
    data = clients.sessions[ann].pop_output(100_000)
    clients.step(ClientBytes(ann, data))
    if reload:
        govern(clients, ALL)
    assert [e.number for e in clients.talk(ann) if isinstance(e, Refused)] == [number]
    assert clients.core.sessions.by_connection[ann].backlog_bytes == 0
    assert clients.core.sessions.by_connection[bob].output_bytes == 0
    assert clients.heard(bob) == []
    govern(clients, ALL)
    clients.sessions[ann].multicast("g", bytes(200_000), level=AGREED)
    clients.talk(ann)
    (message,) = clients.heard(bob)
    assert isinstance(message, Message)


def test_a_large_message_that_has_begun_is_finished_whatever_the_rules_say_then() -> None:
    clients = Clients()
    ann = clients.connect("ann", principal="cert:ann")
    clients.sessions[ann].join("g")
    clients.talk(ann)
    clients.sessions[ann].multicast("g", bytes(200_000), level=AGREED)
    clients.step(ClientBytes(ann, clients.sessions[ann].pop_output(100_000)))
    govern(clients, rules(("cert:ann", "g", Verb.JOIN)))
    assert [type(event) for event in clients.talk(ann)] == [Message]


def test_a_leave_of_a_group_that_nobody_joined_is_dropped_without_a_word() -> None:
    """Else a program that may do nothing has all daemons order as much as it likes."""
    clients = Clients()
    rude = clients.connect("rude", principal="token:rude")
    govern(clients, FORBIDDEN)
    assert clients.core.view_state is not None
    before, frames = clients.core.view_state.streams[0].held, b""
    for number in range(1, 301):
        body = encode_body(BundleKind.LEAVE, AGREED, 0, number, ("chat",), b"")
        frames += encode_bundle_head(len(body), False) + body
    clients.step(ClientBytes(rude, frames))
    sessions = clients.core.sessions
    assert not sessions.by_connection[rude].has_input
    assert sessions.by_connection[rude].backlog_bytes == 0
    assert clients.core.view_state is not None
    assert clients.core.view_state.streams[0].held == before
    assert clients.heard(rude) == []


def test_a_client_that_does_not_know_of_refusals_is_notified_by_the_end_of_its_session() -> None:
    clients = Clients()
    govern(clients, FORBIDDEN)
    old = clients.start("old", principal="cert:old")
    clients.sessions[old].pop_output(1 << 20)
    clients.step(ClientBytes(old, encode_hello("old")))
    clients.heard(old)
    clients.sessions[old].multicast("g", b"x", level=AGREED)
    closed = clients.end(old)
    assert isinstance(closed, Closed)
    assert closed.code == Code.ILLEGAL_GROUP
    assert "cert:old may not send 'g'" in closed.reason


def test_a_principal_is_in_so_many_groups_and_no_more() -> None:
    clients = Clients()
    govern(clients, ALL, Quotas(groups=3))
    one = clients.connect("one", principal="cert:x")
    other = clients.connect("other", principal="cert:x")
    for connection, group in ((one, "a"), (one, "b"), (other, "a")):
        clients.sessions[connection].join(group)
        assert not [e for e in clients.talk(connection) if isinstance(e, Refused)]
    clients.sessions[other].join("b")
    (refused,) = clients.talk(other)
    assert isinstance(refused, Refused)
    assert refused.bound == "groups"
    assert "its principal is in as many groups as it may be" in str(refused)
    clients.sessions[one].leave("b")
    clients.talk(one)
    clients.sessions[other].join("b")
    assert isinstance(clients.talk(other)[-1], GroupView)
    clients.sessions[one].close()
    clients.talk(one)
    clients.sessions[other].join("c")
    assert isinstance(clients.talk(other)[-1], GroupView)


def test_a_principal_on_the_wire_is_a_text_of_bounded_length() -> None:
    bundle = control_bundle(BundleKind.CONNECT, "token:größe")
    assert decode_body_untrusted(bundle.body).body == bundle.body
    for kind, payload in (
        (BundleKind.CONNECT, b"\xff"),
        (BundleKind.CONNECT, b"x" * 256),
        (BundleKind.DISCONNECT, b"x"),
    ):
        with pytest.raises(BadDatagram):
            decode_body_untrusted(encode_body(kind, AGREED, 0, 0, (), payload))


def test_only_so_many_allowed_lists_of_destinations_are_kept() -> None:
    control = AccessControl()
    control.set_rules(rules(("ann", "*", Verb.SEND)), Quotas())
    session = DaemonSession(1, limits=SessionLimits(), principal="ann")
    for number in range(MAX_KNOWN + 1):
        bundle = Bundle(0, ServiceLevel.AGREED, 0, 1, 0, 1, (f"g{number}",), 0, b"", 14)
        assert control.find_refusal(session, bundle) is None
        assert len(session.allowed) == number % MAX_KNOWN + 1


def test_each_expulsion_counts_as_one_refusal_of_a_join() -> None:
    control = AccessControl()
    session = DaemonSession(1, limits=SessionLimits(), principal="ann")
    refused = control.expel(session, "g")
    assert (refused.verb, refused.group, refused.number, refused.count) == ("join", "g", 0, 1)
    assert control.refusals == {"join": 1}
    assert session.expelled == {"g"}
