"""The life of a session at its daemon: each event leads from each state to the one in the table."""

from collections.abc import Callable

import pytest

from groupcomm.errors import Code
from groupcomm.session.daemon_session import DaemonSession, DaemonSessionState, SessionLimits
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
    session.buffer(encode_query("status"))
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
    DaemonSessionState.NEW: new,
    DaemonSessionState.GREETED: greeted,
    DaemonSessionState.CONNECTING: connecting,
    DaemonSessionState.OPEN: opened,
    DaemonSessionState.DRAINING: draining,
    DaemonSessionState.WITHDRAWING: withdrawing,
    DaemonSessionState.LEAVING: leaving,
    DaemonSessionState.CLOSING: closing,
    DaemonSessionState.GONE: gone,
    DaemonSessionState.CLOSED: closed,
}


@pytest.mark.parametrize("state", DaemonSessionState)
def test_each_state_is_reached(state: DaemonSessionState) -> None:
    session = MAKERS[state]()
    assert session.state is state
    assert session.is_known == (DaemonSessionState.CONNECTING <= state <= DaemonSessionState.GONE)
    assert (session.member is not None) == (state >= DaemonSessionState.CONNECTING)


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


TABLE: list[
    tuple[Callable[[DaemonSession], None], dict[DaemonSessionState, DaemonSessionState]]
] = [
    (
        say_goodbye,
        {
            DaemonSessionState.GREETED: DaemonSessionState.CLOSED,
            DaemonSessionState.CONNECTING: DaemonSessionState.WITHDRAWING,
            DaemonSessionState.OPEN: DaemonSessionState.LEAVING,
            DaemonSessionState.DRAINING: DaemonSessionState.GONE,
        },
    ),
    (
        end,
        {
            DaemonSessionState.NEW: DaemonSessionState.CLOSED,
            DaemonSessionState.GREETED: DaemonSessionState.CLOSED,
            DaemonSessionState.CONNECTING: DaemonSessionState.CLOSING,
            DaemonSessionState.OPEN: DaemonSessionState.CLOSING,
            DaemonSessionState.DRAINING: DaemonSessionState.GONE,
            DaemonSessionState.CLOSING: DaemonSessionState.CLOSING,
            DaemonSessionState.GONE: DaemonSessionState.GONE,
            DaemonSessionState.CLOSED: DaemonSessionState.CLOSED,
        },
    ),
    (
        overflow,
        {
            DaemonSessionState.OPEN: DaemonSessionState.CLOSING,
            DaemonSessionState.LEAVING: DaemonSessionState.CLOSING,
        },
    ),
    (
        lose_client,
        {
            DaemonSessionState.NEW: DaemonSessionState.CLOSED,
            DaemonSessionState.GREETED: DaemonSessionState.CLOSED,
            DaemonSessionState.CONNECTING: DaemonSessionState.GONE,
            DaemonSessionState.OPEN: DaemonSessionState.GONE,
            DaemonSessionState.WITHDRAWING: DaemonSessionState.GONE,
            DaemonSessionState.LEAVING: DaemonSessionState.GONE,
            DaemonSessionState.CLOSING: DaemonSessionState.GONE,
            DaemonSessionState.CLOSED: DaemonSessionState.CLOSED,
        },
    ),
    (
        disconnect,
        {
            DaemonSessionState.LEAVING: DaemonSessionState.CLOSED,
            DaemonSessionState.CLOSING: DaemonSessionState.CLOSED,
            DaemonSessionState.GONE: DaemonSessionState.CLOSED,
        },
    ),
]


@pytest.mark.parametrize(
    ("event", "before", "after"),
    [(event, *change) for event, changes in TABLE for change in changes.items()],
    ids=lambda value: value.name if isinstance(value, DaemonSessionState) else value.__name__,
)
def test_an_event_leads_to_the_next_state(
    event: Callable[[DaemonSession], None], before: DaemonSessionState, after: DaemonSessionState
) -> None:
    session = MAKERS[before]()
    event(session)
    assert session.state is after


@pytest.mark.parametrize("make", [closing, gone, closed])
def test_behind_the_end_nothing_is_reported(make: Callable[[], DaemonSession]) -> None:
    session = make()
    session.pop_output(PLENTY)
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
    assert session.state is DaemonSessionState.GONE
