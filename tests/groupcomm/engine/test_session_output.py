"""Frames for sessions: which session gets a frame in which state, and what is forgotten."""

from math import inf

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.engine import ClientGone, Output, QuestionAnswered
from groupcomm.engine.session_output import SessionOutput, SlowReceivers
from groupcomm.events import Undeliverable
from groupcomm.level import ServiceLevel
from groupcomm.session.client_session import ClientSession
from groupcomm.session.daemon_session import DaemonSession, DaemonSessionState, SessionLimits
from groupcomm.session.frames import FrameKind
from tests.groupcomm.engine.clients import Clients

State = DaemonSessionState
FRAME = (b"frame",)


def output() -> SessionOutput:
    return SessionOutput(lambda daemon, connection: "", lambda session, state: None, block_s=10.0)


def in_state(state: DaemonSessionState, **limits: int) -> DaemonSession:
    session = DaemonSession(7, limits=SessionLimits(**limits))
    session.state = state
    return session


@pytest.mark.parametrize("state", State)
def test_frames_go_out_from_the_welcome_to_the_goodbye_and_wait_before_it(
    state: DaemonSessionState,
) -> None:
    some, session = output(), in_state(state)
    some.push(session, FRAME)
    sent = state in (State.OPEN, State.LEAVING)
    assert session.pop_output(100) == (list(FRAME) if sent else [])
    assert list(some.ready) == ([7] if sent else [])
    waits = state in (State.CONNECTING, State.WITHDRAWING)
    assert session.early == ([(FRAME, False)] if waits else [])


def test_a_session_that_does_not_hold_up_senders_is_not_watched() -> None:
    some, session = output(), in_state(State.OPEN, block_bytes=8)
    some.push(session, FRAME)
    assert some.slow_receivers.due == inf
    some.push(session, FRAME)
    assert some.slow_receivers.due == 10.0
    free = in_state(State.OPEN)
    others = output()
    others.push(free, (bytes(10**6),))
    assert others.slow_receivers.due == inf


def test_the_next_slow_receiver_to_be_late_sets_the_time() -> None:
    blocking = SlowReceivers()
    for number, since in ((1, 0.0), (2, 5.0), (3, 7.0)):
        session = DaemonSession(number, limits=SessionLimits(block_bytes=1))
        session.push(b"more than one byte")
        blocking.add(session, since, 10.0)
    assert blocking.pop_overdue(10.0, 10.0) == [1]
    assert blocking.due == 15.0


def test_a_program_that_has_gone_asks_for_nothing_any_more() -> None:
    clients = Clients()
    one = clients.start("u")
    clients.sessions[one] = ClientSession("u", causes=True, principals=True, origins=True)
    clients.talk(one)
    found = clients.core.sessions.output
    assert found.causes_frames.wanted == found.principals == found.origins == {one}
    clients.step(ClientGone(one))
    assert found.causes_frames.wanted == found.principals == found.origins == set()


def test_a_program_that_has_gone_is_not_written_to() -> None:
    clients = Clients()
    one, two = clients.connect("u"), clients.connect("v")
    sessions = clients.core.sessions
    for number in (one, two):
        sessions.accept(QuestionAnswered(number, b"{}"))
    sessions.accept(ClientGone(one))
    found = Output([])
    sessions.complete(found)
    assert list(found.ready) == [two]


def test_a_sender_is_told_that_a_private_message_came_too_late() -> None:
    clients = Clients()
    one = clients.connect("u")
    position = Position(ViewId(1, "a", 7), 5, 0, 0, 0)
    clients.core.sessions.bounce(one, 3, "#v#a", position)
    told = Undeliverable(number=3, target="#v#a", position=position)
    assert clients.heard(one) == [told]


def test_whose_session_sends_is_said_once_until_another_one_sends() -> None:
    clients = Clients()
    asks, ann, bob = (
        clients.start(name, principal=f"unix:{name}") for name in ("asks", "ann", "bob")
    )
    clients.sessions[asks] = ClientSession("asks", principals=True)
    for number in (asks, ann, bob):
        clients.talk(number)
        clients.sessions[number].join("g")
        clients.talk(number)
    clients.heard(asks)
    counts = []
    for sender in (ann, ann, bob, ann):
        clients.sessions[sender].multicast("g", b"x", level=ServiceLevel.FIFO)
        clients.step(clients.said(sender))
        counts.append(len(told_principals(clients, asks)))
    assert counts == [1, 0, 1, 1]


def told_principals(clients: Clients, connection: int) -> list[bytes]:
    """Return the frames that say whose session has sent what follows."""
    data = b"".join(clients.core.pop_output(connection, 1 << 20))
    frames = []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        frames.append(data[4:end])
        data = data[end:]
    return [frame for frame in frames if frame[0] == FrameKind.PRINCIPAL]
