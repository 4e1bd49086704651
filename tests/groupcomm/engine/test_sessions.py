"""Local sessions: admission, expulsion, and their independence of each other."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.engine import ClientBytes, ClientGone
from groupcomm.engine.admission import NAME_WAIT_S
from groupcomm.engine.intake import STEP_WORK
from groupcomm.errors import Code
from groupcomm.events import Closed, Connected, DaemonView, Event, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.session.daemon_session import DaemonSessionState, SessionLimits
from tests.groupcomm.engine.clients import Clients

UNRELIABLE, RELIABLE, FIFO, _, AGREED, SAFE = ServiceLevel


def data_of(events: list[Event]) -> list[bytes]:
    return [event.data for event in events if isinstance(event, Message)]


def connected(clients: Clients) -> list[int]:
    """Return the names in the group table."""
    view_state = clients.core.view_state
    assert view_state is not None
    return [number for _, number in view_state.delivery.groups.table.sessions]


# ---- names ----


def test_a_client_is_admitted_once_its_connect_is_ordered() -> None:
    clients = Clients()
    one = clients.start("u")
    event, view = clients.talk(one)
    assert isinstance(event, Connected)
    assert isinstance(view, DaemonView)
    assert (view.daemons, view.majority) == (("a",), True)
    assert str(event.member) == f"#u#a/{one}"
    assert connected(clients) == [one]


def test_a_name_in_use_is_refused_and_free_again_after_its_disconnect() -> None:
    clients = Clients()
    one = clients.connect("u")
    refused = clients.end(clients.start("u"))
    assert refused.code == Code.REJECT_NOT_UNIQUE
    assert "'u'" in refused.reason
    clients.step(ClientGone(one))
    admitted, _ = clients.talk(clients.start("u"))
    assert isinstance(admitted, Connected)


def test_a_name_too_long_together_with_its_daemons_is_refused() -> None:
    clients = Clients()
    refused = clients.end(clients.start("x" * 253))
    assert refused.code == Code.REJECT_NAME
    assert "256 bytes" in refused.reason
    longest = clients.connect("x" * 252)
    assert connected(clients) == [longest]


def test_a_name_that_is_just_being_given_up_is_waited_for() -> None:
    clients = Clients()
    one, heir = clients.connect("u"), clients.start("u", principal="p")
    late = clients.start("u", principal="q")  # each hello of one principal has a step of its own
    clients.step(ClientGone(one), clients.said(heir), clients.said(late))
    admitted, _ = clients.heard(heir)
    assert isinstance(admitted, Connected)
    assert clients.heard(late) == []
    clients.step(ClientGone(heir))
    assert connected(clients) == [late]


def behind_a_busy_holder() -> tuple[Clients, int, int]:
    """Much input of a name's holder waits, when another session asks for the name."""
    clients = Clients()
    one, heir = clients.connect("u", principal="p"), clients.start("u", principal="q")
    for number in range(STEP_WORK):
        clients.sessions[one].join(f"g{number}")
    clients.step_once(clients.said(one), clients.said(heir))
    assert not clients.core.sessions.by_connection[one].reading
    return clients, one, heir


def test_a_name_is_waited_for_whose_holder_was_not_read_to_the_end() -> None:
    """A program that crashed and is back at once, while its daemon is busy (seed 910686)."""
    clients, one, heir = behind_a_busy_holder()
    assert clients.heard(heir) == []
    clients.step()
    clients.step(ClientGone(one))
    admitted, _ = clients.heard(heir)
    assert isinstance(admitted, Connected)
    assert connected(clients) == [heir]


def test_a_name_is_waited_for_whose_holder_is_not_read_as_it_sends_much() -> None:
    """Its goodbye waits in its socket until what it has sent has numbers (seed 656)."""
    clients = Clients(SessionLimits(backlog_cap_bytes=100))
    one, heir = clients.connect("u"), clients.start("u")
    clients.sessions[one].multicast("g", bytes(200), level=AGREED)
    sessions = clients.core.sessions
    sessions.accept(clients.said(one))
    sessions.accept(clients.said(heir))
    sessions.serve(0.0)
    assert not sessions.by_connection[one].has_input
    clients.step(ClientGone(one))
    admitted, _ = clients.heard(heir)
    assert isinstance(admitted, Connected)
    assert connected(clients) == [heir]


def test_a_name_is_refused_once_its_holder_has_turned_out_to_be_there() -> None:
    clients, one, heir = behind_a_busy_holder()
    clients.step()
    assert clients.core.deadline <= NAME_WAIT_S
    clients.step_once(now=NAME_WAIT_S)
    (refused,) = clients.heard(heir)
    assert isinstance(refused, Closed)
    assert refused.code == Code.REJECT_NOT_UNIQUE
    assert connected(clients) == [one]


def test_who_gives_up_waiting_for_a_name_leaves_nothing() -> None:
    clients = Clients()
    one, heir = clients.connect("u"), clients.start("u")
    clients.step(ClientGone(one), clients.said(heir), ClientGone(heir))
    assert connected(clients) == []
    assert clients.core.sessions.by_connection == {}
    assert connected(clients) == []
    assert isinstance(clients.talk(clients.start("u"))[0], Connected)


# ---- ends ----


def test_who_says_goodbye_gets_what_was_ordered_before() -> None:
    clients = Clients()
    one, other = clients.connect("u"), clients.connect("v")
    clients.sessions[one].join("g")
    clients.talk(one)
    clients.sessions[other].multicast(["g"], b"before", level=AGREED)
    clients.sessions[one].close()
    clients.step(clients.said(other), clients.said(one))
    clients.sessions[other].multicast(["g"], b"after", level=AGREED)
    clients.talk(other)
    events = clients.heard(one)
    assert data_of(events) == [b"before"]
    assert isinstance(events[-1], Closed)
    assert events[-1].code == Code.OK
    assert connected(clients) == [other]


def test_a_client_that_is_gone_before_it_was_admitted_leaves_nothing() -> None:
    clients = Clients()
    connection = clients.start("u")
    clients.step(ClientGone(connection))
    assert connection not in clients.core.sessions.by_connection
    assert connected(clients) == []
    clients.step(ClientBytes(connection, b"late"), ClientGone(connection))


def test_garbage_from_a_client_ends_its_session_and_no_other() -> None:
    clients = Clients()
    one, other = clients.connect("u"), clients.connect("v")
    clients.step(ClientBytes(one, b"\0\0\0\x02\xff\xff"))
    assert clients.ended == [one]
    (ended,) = clients.talk(one)
    assert isinstance(ended, Closed)
    assert ended.code != Code.OK
    assert clients.talk(other) == []
    assert connected(clients) == [other]


FRAMES = st.binary(max_size=60).map(lambda body: len(body).to_bytes(4, "big") + body)


@given(st.lists(FRAMES | st.binary(max_size=20), max_size=6), st.booleans())
def test_whatever_a_client_sends_others_go_on(pieces: list[bytes], greeted: bool) -> None:
    clients = Clients()
    other = clients.connect("v")
    one = clients.connect("u") if greeted else clients.start("u")
    for piece in pieces:
        clients.step(ClientBytes(one, piece))
    clients.sessions[other].join("g")
    clients.sessions[other].multicast(["g"], b"still here", level=AGREED)
    assert data_of(clients.talk(other)) == [b"still here"]
    clients.step(ClientGone(one))
    assert connected(clients) == [other]


# ---- limits ----

LIMITS = SessionLimits(
    unreliable_drop_bytes=5_000, output_cap_bytes=20_000, backlog_cap_bytes=2_000
)


def two_members(limits: SessionLimits = LIMITS) -> tuple[Clients, int, int]:
    clients = Clients(limits)
    sender, reader = clients.connect("u"), clients.connect("v")
    for connection in (sender, reader):
        clients.sessions[connection].join("g")
        clients.talk(connection)
    clients.heard(sender)
    return clients, sender, reader


def test_a_client_that_does_not_read_is_closed_and_loses_what_waited() -> None:
    clients, sender, slow = two_members()
    events: list[Event] = []
    for _ in range(25):
        clients.sessions[sender].multicast(["g"], bytes(900), level=AGREED)
        events += clients.talk(sender)
    assert len(data_of(events)) == 25, "who reads misses nothing"
    assert clients.ended == [slow]
    assert clients.core.sessions.by_connection[slow].output_bytes < 200, "memory is given back"
    (ended,) = clients.heard(slow)
    assert isinstance(ended, Closed)
    assert "20000 bytes waited; read faster" in ended.reason
    assert connected(clients) == [sender]
    view = next(event for event in events if isinstance(event, GroupView))
    assert [member.connection for member in view.members] == [sender]


@pytest.mark.parametrize("end", ["reads", "goes"])
def test_senders_wait_for_a_slow_client_until_it_reads_or_goes(end: str) -> None:
    clients, sender, slow = two_members(evolve(LIMITS, block_bytes=3_000))
    sessions = clients.core.sessions
    for _ in range(5):
        assert not sessions.slow_receivers or sessions.by_connection[slow].blocks
        clients.sessions[sender].multicast(["g"], bytes(900), level=AGREED)
        clients.talk(sender)
    assert sessions.slow_receivers
    if end == "reads":
        clients.heard(slow)
    else:
        sessions.accept(
            ClientGone(slow)
        )  # no other daemon needs to know of it: that would also have to wait
    assert not sessions.slow_receivers


def blocked_by_a_goodbye() -> tuple[Clients, int]:
    """All senders wait for a client that does not read and has said goodbye."""
    clients, sender, slow = two_members(evolve(LIMITS, block_bytes=3_000))
    sessions = clients.core.sessions
    while not sessions.slow_receivers:
        clients.sessions[sender].multicast(["g"], bytes(900), level=AGREED)
        clients.talk(sender)
    clients.sessions[slow].close()
    sessions.accept(clients.said(slow))
    sessions.intake.serve(0.0)
    assert sessions.by_connection[slow].state is DaemonSessionState.LEAVING
    assert sessions.slow_receivers
    return clients, slow


def test_a_client_that_reads_nothing_after_its_goodbye_is_cut_off() -> None:
    clients, slow = blocked_by_a_goodbye()
    sessions = clients.core.sessions
    assert sessions.slow_receivers.due == LIMITS.block_s
    sessions.serve(LIMITS.block_s)
    assert not sessions.slow_receivers
    clients.step()
    assert clients.ended == [slow], "the shell closes it, whether it reads or not"


def test_a_client_that_is_too_slow_after_its_goodbye_is_closed_like_others() -> None:
    clients, sender, slow = two_members()
    sessions = clients.core.sessions
    clients.sessions[slow].close()
    sessions.accept(clients.said(slow))
    sessions.intake.serve(0.0)
    while not sessions.by_connection[slow].closed:
        assert sessions.by_connection[slow].state is DaemonSessionState.LEAVING
        sessions.abort([slow], MemberId("#u#a", sender), 1)
        clients.step()
    clients.step(ClientBytes(sender, b""))
    assert clients.ended == [slow]
    assert connected(clients) == [sender]


def test_senders_do_not_wait_for_a_client_that_is_gone_after_its_goodbye() -> None:
    clients, slow = blocked_by_a_goodbye()
    clients.core.sessions.accept(ClientGone(slow))
    assert not clients.core.sessions.slow_receivers


def test_senders_go_on_as_soon_as_a_slow_client_has_read() -> None:
    """A step in which nothing came but that is enough; no time has passed."""
    clients, sender, slow = two_members(evolve(LIMITS, block_bytes=3_000))
    core = clients.core
    for _ in range(6):
        clients.sessions[sender].multicast(["g"], bytes(900), level=AGREED)
        clients.talk(sender)
    assert core.view_state is not None
    assert core.view_state.ring.flow.blocked
    before = core.deadline
    assert core.pop_output(sender, 1) == []
    assert core.deadline == before > 0, "all still wait"
    clients.heard(slow)
    assert core.deadline == 0, "they need wait no more"
    clients.step()
    assert not core.view_state.ring.flow.blocked


def test_unreliable_messages_are_dropped_at_a_slow_client_before_others() -> None:
    clients, sender, slow = two_members()
    for level in (UNRELIABLE, FIFO):
        for _ in range(10):
            clients.sessions[sender].multicast(["g"], bytes(900), level=level)
            clients.talk(sender)
    session = clients.core.sessions.by_connection[slow]
    assert session.dropped == 5, "the sixth would go above 5,000 bytes"
    levels = [event.level for event in clients.heard(slow) if isinstance(event, Message)]
    assert levels == [UNRELIABLE] * 5 + [FIFO] * 10


@pytest.mark.parametrize("level", [RELIABLE, SAFE])
def test_a_client_is_not_read_while_much_of_it_waits_for_numbers(level: ServiceLevel) -> None:
    clients, sender, _ = two_members()
    sessions = clients.core.sessions
    for _ in range(3):
        assert sessions.by_connection[sender].reading
        clients.sessions[sender].multicast(["g"], bytes(900), level=level)
        sessions.accept(clients.said(sender))
        sessions.intake.serve(0.0)
    assert not sessions.by_connection[sender].reading
    clients.step(ClientBytes(sender, b""))
    assert sessions.by_connection[sender].reading
    assert sessions.by_connection[sender].backlog_bytes == 0


def test_joins_and_leaves_do_not_count_for_ever() -> None:
    clients, sender, _ = two_members()
    for _ in range(5):
        clients.sessions[sender].join("h")
        clients.sessions[sender].leave("h")
        clients.talk(sender)
        assert clients.core.sessions.by_connection[sender].backlog_bytes == 0


# ---- counts ----


def test_messages_and_bytes_are_counted_once_for_each_receiver() -> None:
    clients = Clients()
    one, two = clients.connect("one"), clients.connect("two")
    for connection in (one, two):
        clients.sessions[connection].join("g")
        clients.talk(connection)
    traffic = clients.core.sessions.traffic
    assert (sum(traffic.taken), sum(traffic.delivered)) == (0, 0)
    for number in range(5):
        clients.sessions[one].multicast("g", b"%d" % number, level=AGREED)
    clients.talk(one)
    assert (sum(traffic.taken), sum(traffic.delivered)) == (5, 10)
    assert 5 < sum(traffic.taken_bytes) == sum(traffic.delivered_bytes) / 2
    small = sum(traffic.taken_bytes)
    clients.sessions[one].multicast("g", bytes(10_000), level=SAFE)
    clients.sessions[one].multicast("nobody", b"", level=UNRELIABLE)
    clients.talk(one)
    assert (sum(traffic.taken), sum(traffic.delivered)) == (7, 12)
    assert sum(traffic.taken_bytes) > small + 10_000
    assert [traffic.taken[level] for level in (UNRELIABLE, AGREED, SAFE)] == [1, 5, 1]
    assert len(data_of(clients.heard(two))) == 6
