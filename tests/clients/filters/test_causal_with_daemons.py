"""The causal filter over real daemons: causes come first, whoever is late, joins or goes."""

from collections.abc import Iterator, Sequence

import pytest
import trio

from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, connect
from groupcomm_client.filters import Factory, Unfiltered, causal, delay
from groupcomm_client.running_cluster import RunningCluster

FIFO = ServiceLevel.FIFO
LATE_S = 0.5
PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("abc") as running:
        yield running


async def until_members(connection: Connection, group: str, count: int) -> None:
    """Receive until a group has so many members."""
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
    """Ann asks, bob answers what he was asked; what cal gets, who hears ann late."""
    async with (
        connect(cluster.address("a"), user="ann", filters=filters) as ann,
        connect(cluster.address("b"), user="bob", filters=filters) as bob,
    ):
        late = [*filters, delay(LATE_S, sender=ann.name)]
        async with connect(cluster.address("c"), user="cal", filters=late) as cal:
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
