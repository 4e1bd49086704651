"""The life of a session at its daemon: each event leads from each state to the one in the table."""

from collections.abc import Callable

import pytest

from groupcomm.session.codes import Code
from groupcomm.session.daemon import DaemonSession, SessionLimits, State
from groupcomm.session.frames import encode_bye, encode_hello, encode_query
from tests.groupcomm.session.pair import DAEMONS, PLENTY

LIMITS = SessionLimits(unreliable_drop_bytes=1000, output_cap_bytes=1000)


def new() -> DaemonSession:
    return DaemonSession(1, limits=LIMITS)


def greeted() -> DaemonSession:
    session = new()
    session.receive(encode_hello("ann"))
    return session


def connecting() -> DaemonSession:
    session = greeted()
    session.connect("#ann#d1")
    return session


def opened() -> DaemonSession:
    session = connecting()
    session.welcome(1000, DAEMONS)
    return session


def draining() -> DaemonSession:
    session = opened()
    session.hear(encode_query("status"))
    session.lose_client()
    return session


def withdrawing() -> DaemonSession:
    session = connecting()
    session.receive(encode_bye())
    return session


def leaving() -> DaemonSession:
    session = opened()
    session.receive(encode_bye())
    return session


def closing() -> DaemonSession:
    session = opened()
    session.close(Code.OK, "the end")
    return session


def gone() -> DaemonSession:
    session = opened()
    session.lose_client()
    return session


def closed() -> DaemonSession:
    session = closing()
    session.disconnect()
    return session


MAKERS = {
    State.NEW: new,
    State.GREETED: greeted,
    State.CONNECTING: connecting,
    State.OPEN: opened,
    State.DRAINING: draining,
    State.WITHDRAWING: withdrawing,
    State.LEAVING: leaving,
    State.CLOSING: closing,
    State.GONE: gone,
    State.CLOSED: closed,
}


@pytest.mark.parametrize("state", State)
def test_each_state_is_reached(state: State) -> None:
    session = MAKERS[state]()
    assert session.state is state
    assert session.is_known == (State.CONNECTING <= state <= State.GONE)
    assert (session.member is not None) == (state >= State.CONNECTING)


def end(session: DaemonSession) -> None:
    session.close(Code.NET_ERROR, "a broken rule")


def overflow(session: DaemonSession) -> None:
    assert not session.push(bytes(2000))


def say_goodbye(session: DaemonSession) -> None:
    session.receive(encode_bye())


def disconnect(session: DaemonSession) -> None:
    session.disconnect()


def lose_client(session: DaemonSession) -> None:
    session.lose_client()


TABLE: list[tuple[Callable[[DaemonSession], None], dict[State, State]]] = [
    (
        say_goodbye,
        {
            State.GREETED: State.CLOSED,
            State.CONNECTING: State.WITHDRAWING,
            State.OPEN: State.LEAVING,
            State.DRAINING: State.GONE,
        },
    ),
    (
        end,
        {
            State.NEW: State.CLOSED,
            State.GREETED: State.CLOSED,
            State.CONNECTING: State.CLOSING,
            State.OPEN: State.CLOSING,
            State.DRAINING: State.GONE,
            State.CLOSING: State.CLOSING,
            State.GONE: State.GONE,
            State.CLOSED: State.CLOSED,
        },
    ),
    (overflow, {State.OPEN: State.CLOSING, State.LEAVING: State.CLOSING}),
    (
        lose_client,
        {
            State.NEW: State.CLOSED,
            State.GREETED: State.CLOSED,
            State.CONNECTING: State.GONE,
            State.OPEN: State.GONE,
            State.WITHDRAWING: State.GONE,
            State.LEAVING: State.GONE,
            State.CLOSING: State.GONE,
            State.CLOSED: State.CLOSED,
        },
    ),
    (
        disconnect,
        {State.LEAVING: State.CLOSED, State.CLOSING: State.CLOSED, State.GONE: State.CLOSED},
    ),
]


@pytest.mark.parametrize(
    ("event", "before", "after"),
    [(event, *change) for event, changes in TABLE for change in changes.items()],
    ids=lambda value: value.name if isinstance(value, State) else value.__name__,
)
def test_an_event_leads_to_the_next_state(
    event: Callable[[DaemonSession], None], before: State, after: State
) -> None:
    session = MAKERS[before]()
    event(session)
    assert session.state is after


@pytest.mark.parametrize("make", [closing, gone, closed])
def test_behind_the_end_nothing_is_told(make: Callable[[], DaemonSession]) -> None:
    session = make()
    session.take(PLENTY)
    assert not session.push(b"never")
    assert session.output_bytes == 0


@pytest.mark.parametrize("make", [leaving, opened])
def test_a_client_that_is_gone_leaves_no_output(make: Callable[[], DaemonSession]) -> None:
    session = make()
    session.push(bytes(500))
    session.lose_client()
    assert session.output_bytes == 0


def test_what_came_before_the_client_was_lost_is_looked_at() -> None:
    session = draining()
    assert session.next_request() is not None
    assert session.next_request() is None
    session.finish()
    assert session.state is State.GONE
