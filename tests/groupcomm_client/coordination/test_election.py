"""Leader election, view by view: the machine gets the events that a connection would have."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message
from groupcomm_client.connection import Connection
from groupcomm_client.coordination import Election, LeadershipLost
from groupcomm_client.trio_loop import TrioLoop

KIM, LEE, MAX = (MemberId(f"#{name}", number) for number, name in enumerate(("kim", "lee", "max")))
ALL = (KIM, LEE, MAX)


def election_of(me: MemberId, candidates: int | None) -> Election:
    protocol = SimpleNamespace(
        is_open=True, has_view_waiting=False, views=True, check_own=lambda: None
    )
    connection: Any = SimpleNamespace(
        member=me, view=None, loop=TrioLoop(), protocol=protocol, read_ready=lambda: None
    )
    connection.present_session = lambda: connection
    return Election(cast("Connection", connection), "leaders", candidates)


def view_of(cause: Cause, *together: MemberId) -> GroupView:
    """A view of all, to which these members come from one earlier view."""
    return GroupView(
        group="leaders",
        id=Position(ViewId(1, "d", 1), 0, 0, 0, 0),
        members=ALL,
        cause=cause,
        changed=(),
        vs_set=together,
        own=False,
    )


def daemons(counter: int, *together: str, names: str = "abc") -> DaemonView:
    majority = len(names) > 1
    return DaemonView(
        id=ViewId(counter, "a", 1), daemons=tuple(names), majority=majority, together=together
    )


@asynccontextmanager
async def answered(election: Election) -> AsyncIterator[None]:
    """Deliver what the candidate sends to itself, in the present view."""

    async def answer() -> None:
        outgoing = election.driver._outgoing
        while True:
            while outgoing:
                to, data, level = outgoing.popleft()
                assert to == KIM
                at = Position(ViewId(9, "a", 1), 1, 0, 0, 0)
                election.accept(Message(KIM, 1, (KIM.name,), level, 0, data, at))
                election.driver.notify()
            await trio.lowlevel.checkpoint()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            yield
            nursery.cancel_scope.cancel()


def show(election: Election, *batch: DaemonView | GroupView) -> None:
    """Give the machine some events at once."""
    for event in batch:
        election.accept(event)
    election.driver.notify()


CUT_OFF = daemons(9, "a"), view_of(Cause.NETWORK, KIM)  # b and c may have had view 8
WITH_LEE = daemons(9, "a", "b"), view_of(Cause.NETWORK, KIM, LEE)
OWN_PART = daemons(8, "a", names="a"), daemons(9, "a"), view_of(Cause.NETWORK, KIM)
MOVED_ON = daemons(8, "a"), view_of(Cause.NETWORK, KIM)
NEWCOMER = view_of(Cause.JOIN, *ALL)


@pytest.mark.parametrize(
    ("candidates", "batch", "lost"),
    [
        (3, CUT_OFF, True),  # lee and max may have had a leader
        (3, (*CUT_OFF, NEWCOMER), True),
        (3, MOVED_ON, True),
        (3, WITH_LEE, False),  # max alone had none
        (None, CUT_OFF, True),  # the others may have had a majority of the daemons
        (None, (*CUT_OFF, NEWCOMER), True),
        (None, OWN_PART, True),
        (None, WITH_LEE, False),
        (None, MOVED_ON, False),  # no view was in between
    ],
)
async def test_a_leader_whose_next_view_unites_parts_was_cut_off(
    candidates: int | None, batch: tuple[DaemonView | GroupView, ...], *, lost: bool
) -> None:
    """Its daemon stood still while the others led: it sees no view without them."""
    election = election_of(KIM, candidates)
    show(election, daemons(7), view_of(Cause.JOIN, *ALL))

    terms: list[int] = []

    async def lead() -> None:
        async with election.leading():
            terms.append(election.term)
            show(election, *batch)
            await trio.lowlevel.checkpoint()

    async with answered(election):
        if lost:
            with pytest.raises(LeadershipLost):
                await lead()
        else:
            await lead()
        async with election.leading():  # the oldest of all leads again
            await trio.lowlevel.checkpoint()
            assert (election.term > terms[0]) is lost
            assert (election.term == terms[0]) is not lost
