"""Sessions at the edges of their life: positions, dismissals, and whom to read from."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from groupcomm.clocks.stamp import ViewId
from groupcomm.engine import (
    ClientBytes,
    ClientDismissed,
    ClientGone,
    Output,
    ProgramSettings,
)
from groupcomm.engine.drain import STOPPED
from groupcomm.engine.intake import STEP_WORK
from groupcomm.engine.probe import NoProbe
from groupcomm.engine.sessions import LocalSessions
from groupcomm.errors import Code
from groupcomm.events import (
    Closed,
    Connected,
    DaemonStopping,
    DaemonView,
    Event,
    Message,
    Ordered,
)
from groupcomm.groups.table import GroupTable
from groupcomm.level import ServiceLevel
from groupcomm.security.access import Access, Rule, Verb
from groupcomm.security.quotas import Quotas
from groupcomm.session.daemon_session import DaemonSession, DaemonSessionState, SessionLimits
from groupcomm.wire.bundle import BundleKind
from tests.groupcomm.engine.clients import Clients

AGREED, FIFO, UNRELIABLE = ServiceLevel.AGREED, ServiceLevel.FIFO, ServiceLevel.UNRELIABLE
State = DaemonSessionState
VIEW = DaemonView(id=ViewId(9, "a", 7), daemons=("a",), majority=True)


def session_of(clients: Clients, connection: int) -> DaemonSession:
    return clients.core.sessions.by_connection[connection]


def kinds(events: list[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


# ---- settings ----


def test_settings_count_from_the_start() -> None:
    access, quotas = Access((Rule(("ann",), ("*",), frozenset(Verb)),)), Quotas(groups=3)
    sessions = LocalSessions(
        "a",
        1000,
        first_connection=7,
        settings=ProgramSettings(access=access, quotas=quotas),
        probe=NoProbe(),
    )
    assert sessions.access_control.rules is access
    assert sessions.access_control.quotas is quotas
    assert sessions.intake.quotas is quotas
    assert [sessions.connection_numbers.next() for _ in range(2)] == [8, 9]


# ---- clients that are too slow for a view ----


def full(state: DaemonSessionState) -> tuple[Clients, DaemonSession]:
    """Return a session, open or leaving, whose client may not be sent anything more."""
    clients = Clients(SessionLimits(unreliable_drop_bytes=5_000, output_cap_bytes=5_000))
    session = session_of(clients, clients.connect("u"))
    if state is State.LEAVING:
        clients.sessions[session.connection].close()
        clients.core.sessions.accept(clients.said(session.connection))
        clients.core.sessions.intake.serve(0.0)
    assert session.state is state
    session.push(bytes(5_000 - session.output_bytes))
    clients.core.sessions.complete(Output([]))
    return clients, session


@pytest.mark.parametrize("state", [State.OPEN, State.LEAVING])
@pytest.mark.parametrize("when", ["begins", "ends"])
def test_a_client_that_is_too_slow_for_a_view_is_cut_off(
    state: DaemonSessionState, when: str
) -> None:
    clients, session = full(state)
    sessions = clients.core.sessions
    backlog = sessions.backlog.size
    if when == "begins":
        sessions.begin(VIEW, GroupTable(0), [], leaves=None, readers=True, rights=None)
    else:
        sessions.end_regular(["a"])
    assert session.state is State.CLOSING
    output = Output([])
    sessions.complete(output)
    assert output.ended == [session.connection]
    new = [each.kind for each in sessions.backlog][backlog:]
    assert new == ([BundleKind.DISCONNECT] if state is State.OPEN else []), "it is said once"


def test_a_client_that_is_too_slow_for_its_welcome_is_cut_off() -> None:
    clients = Clients(SessionLimits(unreliable_drop_bytes=10, output_cap_bytes=10))
    one = clients.start("u")
    clients.step(clients.said(one))
    assert clients.ended == [one]
    assert clients.core.sessions.names.holder("u") is None


# ---- positions ----


def test_a_position_is_sent_once_to_the_sender_that_asked() -> None:
    clients = Clients()
    one = clients.connect("u")
    session = clients.sessions[one]
    number = session.multicast("g", b"x", level=AGREED, ordered=True)
    session.multicast("g", b"y", level=AGREED)
    (told,) = clients.talk(one)
    assert isinstance(told, Ordered)
    assert (told.number, told.transitional) == (number, False)
    assert told.position.message == 0
    assert clients.core.view is not None
    assert told.position.view == clients.core.view.id
    assert session_of(clients, one).awaited == set()


# ---- dismissals ----


def test_a_session_that_the_shell_dismisses_ends_with_its_reason() -> None:
    clients = Clients()
    one, other = clients.connect("u"), clients.connect("v")
    clients.step(ClientDismissed(one + other, Code.NET_ERROR, "nobody has this number"))
    clients.step(ClientDismissed(one, Code.REJECT_AUTH, "the token has expired"))
    (closed,) = clients.heard(one)
    assert closed == Closed(code=Code.REJECT_AUTH, reason="the token has expired")
    assert clients.ended == [one]
    assert clients.heard(other) == []


def test_a_dismissed_session_does_not_get_the_name_that_it_has_waited_for() -> None:
    clients = Clients()
    holder, heir = clients.connect("u", principal="p"), clients.start("u", principal="q")
    for number in range(STEP_WORK):
        clients.sessions[holder].join(f"g{number}")
    clients.step_once(clients.said(holder), clients.said(heir))
    assert session_of(clients, heir).state is State.GREETED
    clients.step_once(ClientDismissed(heir, Code.NET_ERROR, "because"))
    clients.step(ClientGone(holder))
    assert clients.core.sessions.names.holder("u") is None
    again = clients.start("u")
    assert isinstance(clients.talk(again)[0], Connected)


def test_a_daemon_that_leaves_admits_nobody_and_says_why() -> None:
    clients = Clients()
    one = clients.connect("u")
    sessions = clients.core.sessions
    sessions.close_all(STOPPED)
    late = clients.start("v")
    sessions.accept(clients.said(late))
    sessions.intake.serve(0.0)
    for number, code in ((one, Code.CONNECTION_CLOSED), (late, Code.REJECT_STOPPING)):
        (closed,) = clients.heard(number)
        assert closed == Closed(code=code, reason=STOPPED)


@pytest.mark.parametrize(("at", "within_s"), [(8.0, 3.0), (4.0, 0.0)])
def test_a_program_is_told_how_long_the_daemon_stays(at: float, within_s: float) -> None:
    clients = Clients()
    one = clients.connect("u")
    clients.core.sessions.announce_stop(5.0, at, ("elsewhere:4803",))
    assert clients.heard(one) == [DaemonStopping(within_s=within_s, addresses=("elsewhere:4803",))]


def test_a_goodbye_ends_the_connection_once_all_daemons_know() -> None:
    clients = Clients()
    one = clients.connect("u")
    clients.sessions[one].close()
    clients.talk(one)
    assert clients.ended == [one]


def test_what_a_client_has_sent_before_it_was_gone_is_sent_on_and_then_it_is_over() -> None:
    clients = Clients()
    one, reader = clients.connect("u"), clients.connect("v")
    clients.sessions[reader].join("g")
    clients.talk(reader)
    for number in range(2 * STEP_WORK):
        clients.sessions[one].multicast("g", b"%d" % number, level=AGREED)
        clients.sessions[one].join(f"group-{number}")
    clients.step_once(clients.said(one), ClientGone(one))
    assert session_of(clients, one).state is State.DRAINING
    clients.step()
    got = [event.data for event in clients.heard(reader) if isinstance(event, Message)]
    assert got == [b"%d" % number for number in range(2 * STEP_WORK)]
    assert one not in clients.core.sessions.by_connection
    assert clients.core.sessions.names.holder("u") is None


# ---- whom to read from ----


def readable(clients: Clients) -> list[int]:
    output = Output([])
    clients.core.sessions.complete(output)
    return list(output.readable)


def test_a_client_is_read_again_once_its_input_is_processed_and_has_numbers() -> None:
    clients = Clients(SessionLimits(backlog_cap_bytes=100))
    one, other = clients.connect("u"), clients.connect("v")
    sessions = clients.core.sessions
    assert readable(clients) == []
    clients.sessions[one].multicast("g", bytes(200), level=AGREED)
    sessions.accept(clients.said(one))
    assert readable(clients) == [], "its input waits for its turn"
    sessions.serve(0.0)
    assert readable(clients) == [], "much of it waits for a number"
    sessions.accept(ClientBytes(other, b""))
    sessions.serve(0.0)
    assert readable(clients) == [other]
    session_of(clients, one).backlog_bytes = 0
    assert readable(clients) == [one]
    assert readable(clients) == []


def test_a_client_that_has_gone_is_not_read_from() -> None:
    clients = Clients(SessionLimits(backlog_cap_bytes=100))
    one, other = clients.connect("u"), clients.connect("v")
    sessions = clients.core.sessions
    clients.sessions[one].multicast("g", bytes(200), level=AGREED)
    sessions.accept(clients.said(one))
    sessions.serve(0.0)
    assert readable(clients) == []
    sessions.accept(ClientGone(one))
    session_of(clients, one).backlog_bytes = 0
    sessions.serve(0.0)
    sessions.accept(ClientBytes(other, b""))
    sessions.serve(0.0)
    assert readable(clients) == [other]


# ---- datagrams, and what is traced ----


def test_messages_without_numbers_do_not_count_as_waiting() -> None:
    clients = Clients()
    one = clients.connect("u")
    clients.sessions[one].multicast("g", bytes(200), level=UNRELIABLE)
    sessions = clients.core.sessions
    sessions.accept(clients.said(one))
    sessions.serve(0.0)
    assert session_of(clients, one).backlog_bytes > 200
    assert len(sessions.pop_unreliable()) == 1
    assert session_of(clients, one).backlog_bytes == 0
    assert sessions.pop_unreliable() == []
    clients.sessions[one].multicast("g", bytes(200), level=UNRELIABLE)
    sessions.accept(clients.said(one))
    sessions.serve(0.0)
    del sessions.by_connection[one]
    assert len(sessions.pop_unreliable()) == 1, "it is sent although its session is over"


def test_messages_are_traced_by_their_numbers_when_they_count_as_sent() -> None:
    clients = Clients()
    one = clients.connect("u")
    told: list[tuple[str, int, int, int]] = []
    clients.core.sessions._probe = cast(
        Any,
        SimpleNamespace(accepted=lambda *args: told.append(args), table=lambda *args: None),
    )
    session = clients.sessions[one]
    session.multicast("g", b"x", level=UNRELIABLE)
    session.multicast_many("g", [b"a", b"b", b"c"], level=UNRELIABLE)
    session.multicast("g", bytes(3000), level=UNRELIABLE)
    clients.core.sessions.accept(clients.said(one))
    clients.core.sessions.serve(0.0)
    places = [(first, last) for _, _, first, last in told]
    assert {(name, number) for name, number, _, _ in told} == {("#u#a", one)}
    assert places[-1] == places[-2] == (5, 5), "each fragment is of one message"
    sent = [number for first, last in places for number in range(first, last + 1)]
    assert sorted(set(sent)) == [1, 2, 3, 4, 5]
    assert sent[:4] == [1, 2, 3, 4]
