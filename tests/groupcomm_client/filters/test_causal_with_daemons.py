"""The causal filter over real daemons: causes come first, with late, joining and leaving
members."""

import asyncio
import time
from collections.abc import Iterator, Sequence

import pytest
import trio

from groupcomm.events import GroupView, Message
from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, ConnectOptions, aio, connect
from groupcomm_client.filters import Factory, Unfiltered, causal, delay
from groupcomm_tools.running_cluster import RunningCluster

FIFO = ServiceLevel.FIFO
LATE_S = 0.5
PATIENCE_S = 20.0
TIMING = "[timing]\ntoken_timeout_s = 2.0\n"
"""On a busy machine no daemon is parted from others: messages sent meanwhile would be lost."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("abc", settings=TIMING) as running:
        yield running


async def until_members(connection: Connection, group: str, count: int) -> None:
    """Receive until a group has this many members."""
    with trio.fail_after(PATIENCE_S):
        while len(connection.groups[group].members) < count:
            await connection.receive()


async def messages(connection: Connection, count: int) -> list[bytes]:
    """The data of the next messages."""
    found: list[bytes] = []
    with trio.fail_after(PATIENCE_S):
        while len(found) < count:
            event = await connection.receive()
            assert not isinstance(event, Unfiltered), event
            if isinstance(event, Message):
                found.append(event.data)
    return found


async def cause_and_effect(cluster: RunningCluster, filters: Sequence[Factory]) -> list[bytes]:
    """Have ann ask and bob answer; return what cal receives, who hears ann late."""
    async with (
        connect(cluster.address("a"), user="ann", options=ConnectOptions(filters=filters)) as ann,
        connect(cluster.address("b"), user="bob", options=ConnectOptions(filters=filters)) as bob,
    ):
        late = [*filters, delay(LATE_S, sender=ann.name)]
        async with connect(
            cluster.address("c"), user="cal", options=ConnectOptions(filters=late)
        ) as cal:
            for each in (ann, bob, cal):
                await each.join("talk")
            for each in (ann, bob, cal):
                await until_members(each, "talk", 3)
            await ann.multicast("talk", b"question", level=FIFO)
            assert await messages(bob, 1) == [b"question"]
            await bob.multicast("talk", b"answer", level=FIFO)
            return await messages(cal, 2)


async def test_a_cause_that_is_late_still_comes_first(cluster: RunningCluster) -> None:
    assert await cause_and_effect(cluster, [causal]) == [b"question", b"answer"]


async def test_without_the_filter_the_effect_comes_first(cluster: RunningCluster) -> None:
    assert await cause_and_effect(cluster, []) == [b"answer", b"question"]


class Program:
    """Sends its last delivery with each message, and notes the times when all are busy."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.got: list[str] = []
        self.sent = 0

    async def receive_all(self) -> None:
        async for event in self.connection:
            assert not isinstance(event, Unfiltered), event
            if isinstance(event, Message):
                self.got.append(event.data.decode())

    async def chatter(self, group: str, times: int) -> None:
        for _ in range(times):
            others = [text for text in self.got if not text.startswith(self.name)]
            cause = others[-1].partition("<")[0] if others else "none"
            self.sent += 1
            text = f"{self.name}{self.sent}<{cause}"
            await self.connection.multicast(group, text.encode(), level=FIFO, self_discard=True)
            await trio.sleep(0.002)

    @property
    def name(self) -> str:
        return self.connection.member.user

    def effects_first(self) -> list[str]:
        """Messages that came before the one that they name as their cause."""
        names = [text.partition("<")[0] for text in self.got]
        causes = [text.partition("<")[2] for text in self.got]
        return [
            name
            for at, (name, cause) in enumerate(zip(names, causes, strict=True))
            if cause in names[at + 1 :]
        ]


async def settled(programs: Sequence[Program], senders: Sequence[Program]) -> None:
    """Wait until these programs have got all that these senders have sent."""
    with trio.fail_after(PATIENCE_S):
        for program in programs:
            for sender in senders:
                last = f"{sender.name}{sender.sent}<"
                while sender is not program and not any(t.startswith(last) for t in program.got):
                    await trio.sleep(0.01)


async def see_members(programs: Sequence[Program], group: str, count: int) -> None:
    """Wait until these programs, which receive all the time, see a group of this many members."""
    with trio.fail_after(PATIENCE_S):
        for program in programs:
            while len(program.connection.groups[group].members) != count:
                await trio.sleep(0.01)


def late_for(name: str, seconds: float) -> list[Factory]:
    """The causal filter, and below it a delay of what one sender sends."""
    return [causal, delay(seconds, sender=name, keep_order=True)]


async def test_causes_come_first_while_members_join_and_leave(cluster: RunningCluster) -> None:
    async with (
        connect(cluster.address("a"), user="ann", options=ConnectOptions(filters=[causal])) as ann,
        connect(cluster.address("b"), user="bob", options=ConnectOptions(filters=[causal])) as bob,
        connect(
            cluster.address("c"),
            user="cal",
            options=ConnectOptions(filters=late_for("#ann#a", 0.03)),
        ) as cal,
        trio.open_nursery() as nursery,
    ):
        programs = [Program(each) for each in (ann, bob, cal)]
        for program in programs:
            await program.connection.join("busy")
            nursery.start_soon(program.receive_all)
        async with trio.open_nursery() as senders:
            for program in programs:
                senders.start_soon(program.chatter, "busy", 150)
            for name in "vwxyz":
                async with (
                    connect(
                        cluster.address("b"), user=name, options=ConnectOptions(filters=[causal])
                    ) as guest,
                    trio.open_nursery() as visit,
                ):
                    await guest.join("busy")
                    visitor = Program(guest)
                    visit.start_soon(visitor.receive_all)
                    await visitor.chatter("busy", 10)
                    visit.cancel_scope.cancel()
        await settled(programs, programs)
        nursery.cancel_scope.cancel()
    assert [program.effects_first() for program in programs] == [[], [], []]
    assert all(len(program.got) >= 300 for program in programs)


HELD_S = 0.2


async def test_what_a_task_releases_as_it_sends_comes_to_the_task_that_waits(
    cluster: RunningCluster,
) -> None:
    """Its time is over before any task looks at the clock again, and the sender looks first."""
    async with (
        connect(cluster.address("a"), user="ann") as ann,
        connect(
            cluster.address("b"),
            user="bob",
            options=ConnectOptions(filters=[delay(HELD_S, sender=ann.name)]),
        ) as bob,
        trio.open_nursery() as nursery,
    ):
        await bob.join("held")
        received: list[bytes] = []

        async def receive() -> None:
            received.extend(await messages(bob, 1))
            nursery.cancel_scope.cancel()

        nursery.start_soon(receive)
        await ann.multicast("held", b"late")
        await trio.sleep(HELD_S / 2)
        time.sleep(HELD_S)  # no task runs meanwhile
        await bob.multicast("other", b"anything")
    assert received == [b"late"]


def test_with_asyncio_it_comes_too(cluster: RunningCluster) -> None:
    async def run() -> Message:
        async with (
            aio.connect(cluster.address("a"), user="ann") as ann,
            aio.connect(
                cluster.address("b"),
                user="bob",
                options=ConnectOptions(filters=[delay(HELD_S, sender=ann.name)]),
            ) as bob,
        ):
            await bob.join("held")
            while not isinstance(await bob.receive(), GroupView):
                pass
            receiving = asyncio.create_task(bob.receive())
            await ann.multicast("held", b"late")
            await asyncio.sleep(HELD_S / 2)
            time.sleep(HELD_S)
            await bob.multicast("other", b"anything")
            event = await asyncio.wait_for(receiving, PATIENCE_S)
            assert isinstance(event, Message)
            return event

    assert asyncio.run(run()).data == b"late"


async def test_a_daemon_that_is_killed_stops_nobody(cluster: RunningCluster) -> None:
    async with (
        connect(cluster.address("a"), user="ann", options=ConnectOptions(filters=[causal])) as ann,
        connect(
            cluster.address("b"),
            user="bob",
            options=ConnectOptions(filters=late_for("#ann#a", 0.02)),
        ) as bob,
        trio.open_nursery() as nursery,
    ):
        programs = [Program(ann), Program(bob)]
        async with connect(
            cluster.address("c"), user="cal", options=ConnectOptions(filters=[causal])
        ) as cal:
            for connection in (ann, bob, cal):
                await connection.join("killed")
            for program in programs:
                nursery.start_soon(program.receive_all)
            await Program(cal).chatter("killed", 20)
            cluster.kill("c")
            async with trio.open_nursery() as senders:
                for program in programs:
                    senders.start_soon(program.chatter, "killed", 100)
        await settled(programs, programs)
        await see_members(programs, "killed", 2)  # messages may come before the view without cal
        members = [program.connection.groups["killed"].members for program in programs]
        assert members == [(ann.member, bob.member)] * 2
        nursery.cancel_scope.cancel()
    cluster.start("c")
    cluster.settle()
    assert [program.effects_first() for program in programs] == [[], []]
