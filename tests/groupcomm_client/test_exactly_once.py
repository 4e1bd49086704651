"""Each message of a sender comes once, whatever daemons and sessions it had: all three kinds."""

import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest
import trio

from groupcomm.errors import CannotConnect, LocalProtocolError
from groupcomm.events import DaemonView, Message
from groupcomm.level import ServiceLevel
from groupcomm_client import Outbox, Reconnected, SharedSecret
from groupcomm_client.outbox import OutboxFile
from groupcomm_log.disk import Disk
from groupcomm_tools.local_cluster import LocalCluster
from tests.groupcomm_client.kinds import Kind, TrioKind, next_of, played
from tests.groupcomm_client.test_reconnecting import starting

PATIENCE_S = 20.0

LEVELS = (ServiceLevel.RELIABLE, ServiceLevel.FIFO, ServiceLevel.CAUSAL, ServiceLevel.AGREED)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with closing(LocalCluster("abc")) as running:
        for name in "abc":
            trio.run(running[name].start)
        trio.run(running.settle, "abc")
        yield running


def address(cluster: LocalCluster, names: str) -> str:
    return ",".join(str(cluster[name].unix) for name in names)


def restart(cluster: LocalCluster, names: str) -> None:
    """Start daemons, and wait until all are in one view."""
    for name in names:
        starting(cluster[name]).join()
    thread = threading.Thread(target=trio.run, args=(cluster.settle, "abc"))
    thread.start()
    thread.join()


@asynccontextmanager
async def receiver(kind: Kind, cluster: LocalCluster) -> AsyncIterator[Any]:
    async with kind.connect(str(cluster["c"].unix)) as connection:
        await connection.join("g")
        yield connection


async def received(kind: Kind, connection: Any, count: int) -> list[bytes]:
    """The data of so many messages, and of all others that come soon."""
    found: list[bytes] = []
    while (event := await kind.receive(connection, 0.3 if len(found) >= count else PATIENCE_S)) or (
        len(found) < count
    ):
        assert event is not None, f"{len(found)} of {count} messages have come"
        if isinstance(event, Message):
            found.append(event.data)
    return found


@played
async def test_messages_come_once_though_the_daemon_of_their_sender_is_killed(
    kind: Kind, cluster: LocalCluster
) -> None:
    sent = [b"%d" % number for number in range(60)]
    async with receiver(kind, cluster) as reader:
        where = address(cluster, "ab")
        async with kind.connect(where, reconnect=True, exactly_once=True) as ann:
            for number, data in enumerate(sent):
                if number == 30:
                    cluster["a"].kill()
                await ann.multicast("g", data, level=LEVELS[number % len(LEVELS)])
            await ann.flush()
            assert ann.in_doubt == 0
        assert await received(kind, reader, len(sent)) == sent
    restart(cluster, "a")


@played
async def test_the_place_of_a_message_is_told_in_the_next_session(
    kind: Kind, cluster: LocalCluster
) -> None:
    async with receiver(kind, cluster) as reader:
        where = address(cluster, "ab")
        async with kind.connect(where, reconnect=True, exactly_once=True) as ann:
            await ann.join("other")
            await ann.multicast("g", b"1")
            cluster["a"].kill()
            place = await ann.multicast_ordered("g", b"2")
            told = await kind.receive(ann, PATIENCE_S)
            while not isinstance(told, Reconnected):
                told = await kind.receive(ann, PATIENCE_S)
            assert told.in_doubt == 0
        found: list[Message] = []
        while len(found) < 2:
            event = await kind.receive(reader, PATIENCE_S)
            if isinstance(event, Message):
                found.append(event)
        assert [each.data for each in found] == [b"1", b"2"]
        assert found[1].position == place.position
    restart(cluster, "a")


@played
async def test_without_a_majority_nothing_is_sent(kind: Kind, cluster: LocalCluster) -> None:
    async with receiver(kind, cluster) as reader:
        where = str(cluster["c"].unix)
        async with kind.connect(where, reconnect=True, exactly_once=True) as ann:
            await ann.multicast("g", b"before")
            assert await received(kind, reader, 1) == [b"before"]
            await ann.flush()
            cluster["a"].kill()
            cluster["b"].kill()
            while (await next_of(kind, reader, DaemonView)).majority:
                pass
            with pytest.raises(CannotConnect, match="majority"):
                async with kind.connect(
                    where, reconnect=True, exactly_once=True, timeout_s=1.0
                ) as late:
                    await late.multicast("g", b"never")
            restart(cluster, "ab")
            await ann.multicast("g", b"after")
            assert await received(kind, reader, 1) == [b"after"]


@played
async def test_the_next_program_sends_what_is_in_the_outbox(
    kind: Kind, cluster: LocalCluster, tmp_path: Path
) -> None:
    async with receiver(kind, cluster) as reader:
        where, sent = address(cluster, "ab"), [b"%d" % number for number in range(20)]
        async with kind.connect(where, reconnect=True, exactly_once=Outbox(tmp_path)) as ann:
            for data in sent[:10]:
                await ann.multicast("g", data)
            await ann.multicast_many("g", sent[10:15])
            if isawaitable(ended := ann.close_socket()):  # as if the program was killed
                await ended
        again = Outbox(tmp_path)
        async with kind.connect(where, reconnect=True, exactly_once=again) as ann:
            assert again.stored == 15
            await ann.multicast_ordered("g", sent[15])
            await ann.multicast_many("g", sent[16:])
        assert await received(kind, reader, len(sent)) == sent


class SlowDisk(Disk):
    """A disk whose syncs take a while."""

    def sync(self, descriptor: int) -> None:
        time.sleep(0.3)
        super().sync(descriptor)


async def test_what_was_stored_is_sent_though_its_call_was_cancelled(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    kind = TrioKind()
    async with receiver(kind, cluster) as reader:
        outbox = Outbox(tmp_path)
        outbox.file = OutboxFile(tmp_path, disk=SlowDisk())
        where = str(cluster["c"].unix)
        async with kind.connect(where, reconnect=True, exactly_once=outbox) as ann:
            with trio.move_on_after(0.1):
                await ann.multicast("g", b"1")
            await ann.multicast("g", b"2")
            assert outbox.stored == 2
        assert await received(kind, reader, 2) == [b"1", b"2"]


@played
async def test_what_cannot_be_promised_is_refused(kind: Kind, cluster: LocalCluster) -> None:
    with pytest.raises(LocalProtocolError, match="reconnect"):
        async with kind.connect(str(cluster["a"].unix), exactly_once=True):
            pass
    async with kind.connect(str(cluster["a"].unix), reconnect=True, exactly_once=True) as ann:
        with pytest.raises(LocalProtocolError, match="secret"):
            await ann.join("g", secret=SharedSecret(b"x" * 32))
