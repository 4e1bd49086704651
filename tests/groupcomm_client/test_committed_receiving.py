"""Batches from connections of all three kinds."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from typing import Any

import pytest
import trio

from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm_client.committed import Batch, BlockingCommitted, committed
from groupcomm_client.committed.markers import TYPE, Begin, End, encode_marker, publisher_user
from groupcomm_tools.local_cluster import LocalCluster
from tests.groupcomm_client.kinds import BlockingKind, Kind, played

PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with closing(LocalCluster("a")) as running:
        trio.run(running["a"].start)
        yield running


async def publish(sender: Any, batch: int, rows: list[bytes]) -> None:
    begin, end = Begin("q", batch), End("q", batch, {"g": len(rows)}, {})
    await sender.multicast("g", encode_marker(begin), type=TYPE)
    await sender.multicast_many("g", rows, level=ServiceLevel.FIFO)
    await sender.multicast_ordered("g", encode_marker(end), level=ServiceLevel.SAFE, type=TYPE)


class Receiving:
    """One face for all kinds."""

    def __init__(self, kind: Kind, connection: Any, state: Any) -> None:
        self._kind = kind
        self.blocking = (
            BlockingCommitted(connection.wrapped, ["g"], state)
            if isinstance(kind, BlockingKind)
            else None
        )
        self.committed = committed(connection, ["g"], state)

    @property
    def state(self) -> Any:
        return self.committed.state if self.blocking is None else self.blocking.state

    async def next(self, kind: type, seconds: float) -> Any:
        """The next event of a class; None if none comes in time."""
        while True:
            if self.blocking is not None:
                found: Any = None
                with suppress(TimeoutError):
                    found = self.blocking.receive(seconds)
            else:
                found = await self._kind.receive(self.committed, seconds)
            if found is None or isinstance(found, kind):
                return found

    async def rest(self) -> list[Any]:
        """All up to the end of the session."""
        if self.blocking is not None:
            return list(self.blocking)
        return [event async for event in self.committed]


@asynccontextmanager
async def member(
    kind: Kind, cluster: LocalCluster, state: Any = None
) -> AsyncIterator[tuple[Any, Receiving]]:
    async with kind.connect(str(cluster["a"].unix)) as connection:
        await connection.join("g")
        yield connection, Receiving(kind, connection, state)


@played
async def test_batches_come_whole_and_a_receiver_goes_on_behind_its_state(
    kind: Kind, cluster: LocalCluster
) -> None:
    async with kind.connect(str(cluster["a"].unix), publisher_user()) as sender:
        async with member(kind, cluster) as (_, receiving):
            await sender.multicast("g", encode_marker(Begin("q", 0)), type=TYPE)
            assert await receiving.next(Batch, 0.05) is None
            await publish(sender, 0, [b"a", b"b"])
            batch = await receiving.next(Batch, PATIENCE_S)
            assert [(row.index, row.message.data) for row in batch.rows] == [
                (0, b"a"),
                (1, b"b"),
            ]
            saved = receiving.state
        async with member(kind, cluster, saved) as (_, receiving):
            await publish(sender, 0, [b"a", b"b"])
            await publish(sender, 1, [b"c"])
            batch = await receiving.next(Batch, PATIENCE_S)
            assert (batch.number, [row.message.data for row in batch.rows]) == (1, [b"c"])


@played
async def test_other_messages_pass_and_an_orderly_end_ends_the_loop(
    kind: Kind, cluster: LocalCluster
) -> None:
    async with member(kind, cluster) as (connection, receiving):
        await connection.multicast("g", b"hello")
        assert (await receiving.next(Message, PATIENCE_S)).data == b"hello"
        await connection.aclose()
        assert await receiving.rest() == []
