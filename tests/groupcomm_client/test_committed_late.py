"""Batches from a subscription: a receiver joins late, and goes on between two batches or in one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupcomm.level import ServiceLevel
from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_client.committed import Batch, BlockingCommitted, Committed, committed
from groupcomm_client.committed.markers import TYPE, Begin, End, encode_marker, publisher_user
from groupcomm_client.history import EARLIEST, CaughtUp
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import ArchiveProcess
from tests.groupcomm_client.history.test_subscriptions import awaited
from tests.groupcomm_client.kinds import PATIENCE_S, Kind, played


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    store: Path = tmp_path_factory.mktemp("archive") / "log"
    with (
        RunningCluster(1) as running,
        ArchiveProcess(running.address("a"), store, ("g", "trio", "asyncio", "blocking")) as one,
    ):
        one.until_live()
        yield running


def begin(sender: BlockingConnection, group: str, batch: int, rows: list[bytes]) -> None:
    sender.multicast(group, encode_marker(Begin("q", batch)), type=TYPE)
    sender.multicast_many(group, rows)


def end(sender: BlockingConnection, group: str, batch: int, count: int) -> None:
    marker = End("q", batch, {group: count}, {group: batch - 1} if batch else {})
    sender.multicast_ordered(group, encode_marker(marker), level=ServiceLevel.SAFE, type=TYPE)


@played
async def test_a_receiver_joins_late_in_three_loops(kind: Kind, cluster: RunningCluster) -> None:
    group = kind.name
    with connect(cluster.address("a"), user=publisher_user()) as sender:
        for batch in range(3):
            begin(sender, group, batch, [b"%d" % batch] * 2)
            end(sender, group, batch, 2)
    async with (
        kind.connect(cluster.address("a")) as connection,
        awaited(connection).subscribe(group, start=EARLIEST) as subscription,
    ):
        receiver = committed(subscription, [group])
        found: list[int] = []
        while len(found) < 3:
            event = await receiver.receive(PATIENCE_S)
            if isinstance(event, Batch):
                assert not event.missed
                found.append(event.number)
        assert found == [0, 1, 2]
        while not isinstance(await receiver.receive(PATIENCE_S), CaughtUp):
            pass
        with pytest.raises(TimeoutError):
            await until_nothing_comes(receiver)


async def until_nothing_comes(receiver: Committed) -> None:
    while True:
        await receiver.receive(0.05)


def test_a_receiver_goes_on_in_the_middle_of_a_batch(cluster: RunningCluster) -> None:
    saved: Any = None
    position: Any = EARLIEST
    address = cluster.address("a")
    with connect(address, user=publisher_user()) as sender:
        begin(sender, "g", 0, [b"a"])
        end(sender, "g", 0, 1)
        begin(sender, "g", 1, [b"b", b"c"])
        with connect(address) as connection, connection.subscribe("g", start=position) as reading:
            receiver = BlockingCommitted(reading, ["g"], saved)
            assert receiver.position is None
            while not isinstance(event := receiver.receive(PATIENCE_S), Batch):
                pass
            assert event.number == 0
            connection.multicast("g", b"ready")
            while getattr(receiver.receive(PATIENCE_S), "data", b"") != b"ready":
                pass
            saved, position = receiver.state, receiver.position
            assert position < reading.position, "a batch is not whole yet"
        end(sender, "g", 1, 2)
        with connect(address) as connection, connection.subscribe("g", start=position) as reading:
            receiver = BlockingCommitted(reading, ["g"], saved)
            while not isinstance(event := receiver.receive(PATIENCE_S), Batch):
                pass
            assert (event.number, [row.message.data for row in event.rows]) == (1, [b"b", b"c"])
            assert receiver.position == reading.position


def test_a_connection_has_no_position(cluster: RunningCluster) -> None:
    with connect(cluster.address("a")) as connection:
        assert BlockingCommitted(connection, ["g"]).position is None
