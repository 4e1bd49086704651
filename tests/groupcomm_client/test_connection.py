"""A program's connection, to a real daemon: cancelled calls, many tasks, large messages, ends."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from groupcomm.errors import LocalProtocolError, OrderUnknown, SessionEnded
from groupcomm.events import Cause, GroupView, Message
from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, byte_stream, connect
from groupcomm_client.basic_connection import TURNS
from groupcomm_tools.local_cluster import LocalCluster


@pytest.fixture
async def daemons(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    async with LocalCluster("a") as running:
        yield running


async def messages(connection: Connection, count: int) -> list[bytes]:
    """The data of the next messages."""
    found: list[bytes] = []
    with trio.fail_after(20):
        while len(found) < count:
            event = await connection.receive()
            if isinstance(event, Message):
                found.append(event.data)
    return found


async def test_a_cancelled_receive_loses_nothing(daemons: LocalCluster) -> None:
    async with connect(str(daemons["a"].unix)) as ann, connect(str(daemons["a"].unix)) as bob:
        await bob.join("g")
        found: list[bytes] = []

        async def send() -> None:
            for number in range(200):
                await ann.multicast("g", b"%d" % number)
                await trio.sleep(0.0005)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            with trio.fail_after(20):
                while len(found) < 200:
                    with trio.move_on_after(0.001):
                        while True:
                            event = await bob.receive()
                            if isinstance(event, Message):
                                found.append(event.data)
        assert found == [b"%d" % number for number in range(200)]


async def test_many_tasks_share_a_connection(daemons: LocalCluster) -> None:
    async with connect(str(daemons["a"].unix)) as ann:
        places: list[object] = []

        async def order(number: int) -> None:
            place = await ann.multicast_ordered("g", b"%d" % number)
            assert not place.transitional
            places.append(place.position)

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(order, number)
            nursery.start_soon(ann.join, "g")
            nursery.start_soon(ann.ask, "status")
        assert len(set(places)) == 30
        assert list(ann.groups) == ["g"]


async def test_large_and_many_messages_arrive_whole_and_in_order(daemons: LocalCluster) -> None:
    async with connect(str(daemons["a"].unix)) as ann, connect(str(daemons["a"].unix)) as bob:
        await bob.join("g")
        large = bytes(range(256)) * 40_000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ann.multicast, "g", large)
            assert await messages(bob, 1) == [large]
        many = [b"%d" % number for number in range(20_000)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ann.multicast_many, "g", many)
            assert await messages(bob, len(many)) == many


async def test_a_group_is_left_at_the_end_of_its_block(daemons: LocalCluster) -> None:
    async with connect(str(daemons["a"].unix), user="ann") as ann:
        await ann.join("g")
        async with connect(str(daemons["a"].unix), user="bob") as bob:
            async with bob.group("g") as view:
                assert [member.name for member in view.members] == ["#ann#a", "#bob#a"]
                with pytest.raises(LocalProtocolError, match="has joined"):
                    await bob.join("g")
            assert bob.groups == {}
            await bob.multicast("g", b"from outside")
        causes = []
        with trio.fail_after(10):
            async for event in ann:
                if isinstance(event, GroupView):
                    causes.append(event.cause)
                elif isinstance(event, Message):
                    break
        assert causes == [Cause.JOIN, Cause.JOIN, Cause.LEAVE]


async def test_the_end_of_a_daemon_is_reported(daemons: LocalCluster) -> None:
    async with connect(str(daemons["a"].unix)) as ann:
        await ann.join("g")
        daemons["a"].kill()
        with pytest.raises(OrderUnknown), trio.fail_after(20):
            await ann.multicast_ordered("g", b"x", level=ServiceLevel.SAFE)
        with pytest.raises(SessionEnded, match="connection to the daemon was lost"):
            async for _ in ann:
                pass
        with pytest.raises(SessionEnded):
            await ann.multicast("g", b"x")


async def test_a_daemon_that_is_stopped_says_goodbye(daemons: LocalCluster) -> None:
    async with connect(str(daemons["a"].unix)) as ann:
        await ann.join("g")
        daemons["a"].signal(signal.SIGTERM)
        with pytest.raises(SessionEnded, match="being stopped"), trio.fail_after(20):
            async for _ in ann:
                pass
    assert await daemons["a"].ended() == 0


@pytest.mark.parametrize("many", [False, True])
async def test_what_a_task_sends_at_once_shares_bundles(
    daemons: LocalCluster, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    """However quick the machine is: every write counts as close to the one before."""
    monkeypatch.setattr(byte_stream, "COALESCE_S", 1000.0)
    calls = 3 * TURNS
    async with connect(str(daemons["a"].unix)) as ann, connect(str(daemons["a"].unix)) as bob:
        await bob.join("g")
        for number in range(calls):
            if many:
                await ann.multicast_many("g", [b"%d" % number, b"and more"])
            else:
                await ann.multicast("g", b"%d" % number)
        bundles: set[object] = set()
        received = 0
        with trio.fail_after(20):
            while received < calls * (1 + many):
                events = [e for e in await bob.receive_batch() if isinstance(e, Message)]
                bundles |= {event.bundle for event in events}
                received += len(events)
        assert len(bundles) <= calls // TURNS + 2, "one for each turn of the task"
