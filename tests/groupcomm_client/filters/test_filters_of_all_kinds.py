"""Filters on connections of all kinds: trio, asyncio, blocking, staying, Spread's functions."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from groupcomm.errors import LocalProtocolError
from groupcomm.events import GroupView, Message, Undeliverable
from groupcomm.level import ServiceLevel
from groupcomm_client import ConnectOptions, blocking, spread_api
from groupcomm_client.filters import (
    Unfiltered,
    Way,
    causal,
    compression,
    delay,
    set_default,
    traced,
)
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.kinds import PATIENCE_S, Kind, next_of, played

FIFO, SAFE = ServiceLevel.FIFO, ServiceLevel.SAFE
SHORT_S = 0.05
FILTERS = [causal, compression]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab") as running:
        yield running


@played
async def test_whatever_is_sent_and_however_it_is_received(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with (
        kind.connect(cluster.address("a"), "ann", filters=FILTERS) as ann,
        kind.connect(cluster.address("b"), "bob", filters=FILTERS) as bob,
    ):
        for each in (ann, bob):
            await each.join("kinds")
        long = b"x" * 300_000
        await ann.multicast("kinds", long, level=FIFO, type=7)
        await ann.multicast_many("kinds", [b"1", b"2"], level=FIFO)
        place = await ann.multicast_ordered("kinds", b"3", level=SAFE)
        found = [await next_of(kind, bob, Message) for _ in range(4)]
        assert [message.data for message in found] == [long, b"1", b"2", b"3"]
        assert (found[0].type, found[-1].position) == (7, place.position)
        assert found[-1].number == place.number
        await ann.multicast(bob.member.name, b"private", level=FIFO)
        await ann.multicast("kinds", b"end", level=FIFO, self_discard=True)
        batch: list[Any] = []
        while len(batch) < 2:
            batch += await bob.receive_batch()
        assert [event.data for event in batch] == [b"private", b"end"]
        assert [(await next_of(kind, ann, Message)).data[:1] for _ in range(4)] == [
            *(b"x", b"1", b"2", b"3")
        ]
        await ann.multicast("#nobody#a", b"lost")
        assert (await next_of(kind, ann, Undeliverable)).target == "#nobody#a"


@played
async def test_a_delay_passes_while_others_wait(kind: Kind, cluster: RunningCluster) -> None:
    out = [delay(SHORT_S, way=Way.OUT)]
    async with (
        kind.connect(cluster.address("a"), "ann", filters=out) as ann,
        kind.connect(cluster.address("b"), "bob", filters=[delay(SHORT_S)]) as bob,
    ):
        for each in (ann, bob):
            await each.join("delays")
        place = await ann.multicast_ordered("delays", b"later")
        assert (await next_of(kind, bob, Message)).position == place.position


@played
async def test_what_is_sent_while_a_task_waits_is_not_forgotten(
    kind: Kind, cluster: RunningCluster
) -> None:
    """The one who waits began to before there was a time to wait for."""
    async with kind.connect(cluster.address("a"), filters=[delay(SHORT_S, way=Way.OUT)]) as ann:
        await ann.join("alone")
        await next_of(kind, ann, GroupView)
        got: list[Any] = []

        async def receive() -> None:
            got.append(await next_of(kind, ann, Message))

        async def send() -> None:
            await ann.multicast("alone", b"x")

        await kind.together(receive, send)
        assert [message.data for message in got] == [b"x"]


@played
async def test_members_change_their_filters_with_a_view(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with (
        kind.connect(cluster.address("a"), "ann") as ann,
        kind.connect(cluster.address("b"), "bob") as bob,
    ):
        for each in (ann, bob):
            await each.join("change")
        while len(ann.groups["change"].members) < 2:
            await next_of(kind, ann, GroupView)
        for each in (ann, bob):
            await (each.set_filters(FILTERS) or nothing())
        await ann.multicast("change", b"before", level=FIFO)
        async with kind.connect(cluster.address("a")) as visitor:
            await visitor.join("change")
            while len(ann.groups["change"].members) < 3:
                await next_of(kind, ann, GroupView)
            await ann.multicast("change", b"after", level=FIFO)
            assert (await next_of(kind, visitor, Message)).data.startswith(b"\xff")
        found = [(await next_of(kind, bob, Message)).data for _ in range(2)]
        assert found == [b"before", b"after"]


async def nothing() -> None:
    """Return the awaited result where a call is a coroutine."""


@played
async def test_a_connection_that_comes_back_has_its_filters(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with (
        kind.connect(cluster.address("a"), "ann", filters=[causal], reconnect=True) as ann,
        kind.connect(cluster.address("b"), "bob", filters=[compression]) as bob,
    ):
        for each in (ann, bob):
            await each.join("stays")
        await (ann.set_filters([compression]) or nothing())
        await bob.multicast("stays", b"x" * 200)
        assert (await next_of(kind, ann, (Message, Unfiltered))).data == b"x" * 200  # type: ignore[arg-type]


def test_default_filters_are_on_every_connection(cluster: RunningCluster, tmp_path: Path) -> None:
    set_default([compression, traced(tmp_path)])
    try:
        with (
            blocking.connect(cluster.address("a"), options=ConnectOptions(filters=())) as plain,
            plain.group("default"),
            blocking.connect(cluster.address("a")) as other,
            other.group("default"),
        ):
            box, name = spread_api.SP_connect(cluster.address("b"))
            spread_api.SP_multicast(box, spread_api.FIFO_MESS, "default", 3, b"x" * 200)
            data = {each: message_of(each).data for each in (plain, other)}
            spread_api.SP_disconnect(box)
    finally:
        set_default([])
    assert data[other] == b"x" * 200
    assert data[plain].startswith(b"\xffGF\x01\x04zlib")
    assert any(quote(name, safe="") in path.name for path in tmp_path.iterdir())


def message_of(connection: blocking.BlockingConnection) -> Message:
    """The next message."""
    while not isinstance(event := connection.receive(PATIENCE_S), Message):
        continue
    return event


def test_what_the_filters_refuse_is_not_sent(cluster: RunningCluster) -> None:
    with (
        blocking.connect(cluster.address("a"), options=ConnectOptions(filters=FILTERS)) as ann,
        ann.group("refused"),
    ):
        with pytest.raises(LocalProtocolError, match="it must be 0 to 65535"):
            ann.multicast("refused", b"", type=-1)
        with pytest.raises(LocalProtocolError, match="only AGREED and SAFE"):
            ann.multicast_ordered("refused", b"", level=FIFO)
        with pytest.raises(LocalProtocolError, match="group name"):
            ann.multicast("", b"")
        threads = [
            threading.Thread(target=ann.multicast, args=("refused", b"%d" % n)) for n in range(4)
        ]
        for thread in threads:
            thread.start()
        found = [message_of(ann) for _ in threads]
        for thread in threads:
            thread.join()
        assert sorted(message.data for message in found) == [b"0", b"1", b"2", b"3"]
