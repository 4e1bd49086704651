"""Leader election, view by view: the machine gets the events that a connection would have."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, GroupView, MemberId
from groupcomm_client.connection import Connection
from groupcomm_client.coordination import Election, LeadershipLost
from groupcomm_client.trio_loop import TrioLoop

KIM, LEE, MAX = (MemberId(f"#{name}", number) for number, name in enumerate(("kim", "lee", "max")))
ALL = (KIM, LEE, MAX)


def election_of(me: MemberId, candidates: int | None) -> Election:
    connection: Any = SimpleNamespace(member=me, view=None, loop=TrioLoop())
    return Election(cast("Connection", connection), "leaders", candidates)


def show(election: Election, cause: Cause, *together: MemberId) -> None:
    """Give the machine a view of all, to which these members come from one earlier view."""
    election._accept(
        GroupView(
            group="leaders",
            id=Position(ViewId(1, "d", 1), 0, 0, 0, 0),
            members=ALL,
            cause=cause,
            changed=(),
            vs_set=together,
            own=False,
        )
    )
    election._changed()


@pytest.mark.parametrize(
    ("candidates", "together", "lost"),
    [
        (3, (KIM,), True),  # lee and max may have had a leader
        (3, (KIM, LEE), False),  # max alone had none
        (None, (KIM,), False),  # each part has a leader of its own
    ],
)
async def test_a_leader_whose_next_view_unites_parts_was_cut_off(
    candidates: int | None, together: tuple[MemberId, ...], *, lost: bool
) -> None:
    """Its daemon stood still while the others led: it sees no view without them."""
    election = election_of(KIM, candidates)
    show(election, Cause.JOIN, *ALL)

    async def lead() -> None:
        async with election.leading():
            show(election, Cause.NETWORK, *together)
            await trio.lowlevel.checkpoint()

    if lost:
        with pytest.raises(LeadershipLost):
            await lead()
    else:
        await lead()
    async with election.leading():  # the oldest of all leads again
        await trio.lowlevel.checkpoint()
