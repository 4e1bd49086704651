"""A connection that outlasts its daemon, and says what may have been missed."""

from collections.abc import AsyncIterator

import pytest
import trio

from groupcomm.errors import CannotConnect, OrderUnknown
from groupcomm.events import GroupView, Message
from groupcomm_client import Reconnected, StayingConnection, connect, stay_connected
from groupcomm_client.local_cluster import LocalCluster


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster("ab") as running:
        yield running


async def until(connection: StayingConnection, kind: type) -> list[object]:
    """All events up to the first of a kind."""
    found: list[object] = []
    with trio.fail_after(20):
        async for event in connection:
            found.append(event)
            if isinstance(event, kind):
                break
    return found


async def test_the_groups_are_joined_again_and_the_gap_is_told(cluster: LocalCluster) -> None:
    async with (
        stay_connected(str(cluster["a"].unix), user="ann") as ann,
        connect(str(cluster["b"].unix), user="bob") as bob,
    ):
        await ann.join("g")
        first = ann.member
        await bob.multicast("g", b"one")
        one = (await until(ann, Message))[-1]
        cluster["a"].kill()
        await bob.multicast("g", b"missed", ordered=True)
        await cluster["a"].start()
        *_, told = await until(ann, Reconnected)
        assert isinstance(one, Message)
        assert isinstance(told, Reconnected)
        assert told.last == one.position
        assert "lost" in told.why
        assert (told.member.name, told.member != first) == (first.name, True)
        view = (await until(ann, GroupView))[-1]
        assert isinstance(view, GroupView)
        assert view.members == (told.member,)
        await bob.multicast("g", b"two")
        *_, two = await until(ann, Message)
        assert isinstance(two, Message)
        assert two.data == b"two"


async def test_what_was_sent_is_in_doubt_until_it_comes_back(cluster: LocalCluster) -> None:
    async with stay_connected(str(cluster["a"].unix)) as ann:
        await ann.join("g")
        await ann.multicast("g", b"x")
        await until(ann, Message)
        cluster["a"].kill()
        with trio.fail_after(20):
            with pytest.raises(OrderUnknown):
                await ann.multicast("g", b"y", ordered=True)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cluster["a"].start)
                await ann.multicast("g", b"z")  # waits for the next session
        *_, told = await until(ann, Reconnected)
        assert isinstance(told, Reconnected)
        assert told.in_doubt == 1
        *_, last = await until(ann, Message)
        assert isinstance(last, Message)
        assert last.data == b"z"


async def test_many_tasks_share_one_attempt(cluster: LocalCluster) -> None:
    async with stay_connected(str(cluster["a"].unix)) as ann:
        await ann.join("g")
        cluster["a"].kill()
        await cluster["a"].start()
        async with trio.open_nursery() as nursery:  # the first may go to the daemon that is dead
            for number in range(20):
                nursery.start_soon(ann.multicast, "g", b"%d" % number)
        events: list[object] = []
        with trio.fail_after(20):
            while sum(isinstance(event, Message) for event in events) < 19:
                events += await until(ann, Message)
        (told,) = [event for event in events if isinstance(event, Reconnected)]
        assert told.in_doubt <= 1, "the others waited for the next session"


async def test_without_a_daemon_the_first_session_fails(cluster: LocalCluster) -> None:
    with pytest.raises(CannotConnect):
        async with stay_connected(str(cluster.folder / "no.sock")):
            pass
