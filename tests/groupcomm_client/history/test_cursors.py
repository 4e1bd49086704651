"""Cursors on real daemons, with archives that are real programs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupcomm.errors import LocalProtocolError
from groupcomm.events import Message
from groupcomm_archive.cursor_file import NAME
from groupcomm_client.blocking import connect
from groupcomm_client.history import EARLIEST, LATEST, CaughtUp, Cursor, subscription
from groupcomm_client.history.blocking import BlockingSubscription
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import STEADY, ArchiveProcess
from tests.groupcomm_client.history.test_subscriptions import awaited
from tests.groupcomm_client.kinds import PATIENCE_S, Kind, played

GROUPS = ("trio", "asyncio", "blocking", "late", "two", "moved")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab", settings=STEADY) as running:
        yield running


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("archives")
    return folder / "one", folder / "two"


@pytest.fixture(scope="module")
def archives(
    cluster: RunningCluster, folders: tuple[Path, Path]
) -> Iterator[tuple[ArchiveProcess, ArchiveProcess]]:
    one, two = folders
    with (
        ArchiveProcess(cluster.address("a"), one, GROUPS) as first,
        ArchiveProcess(cluster.address("b"), two, GROUPS) as second,
    ):
        first.until_live()
        second.until_live()
        yield first, second
        assert (first.end(), second.end()) == (0, 0)


@played
async def test_a_program_goes_on_where_it_has_acknowledged_in_three_loops(
    kind: Kind, cluster: RunningCluster, archives: Any, folders: tuple[Path, Path]
) -> None:
    async def read(first: Any, last: bytes) -> list[bytes]:
        """Acknowledge each message, up to the one with these data."""
        found: list[bytes] = []
        async with (
            kind.connect(cluster.address("a")) as connection,
            awaited(connection).subscribe(
                kind.name, start=Cursor(f"bills of {kind.name}", first)
            ) as reading,
        ):
            while not found or found[-1] != last:
                event = await reading.receive(PATIENCE_S)
                if isinstance(event, Message):
                    found.append(event.data)
                    await reading.acknowledge()
            await reading.acknowledge(wait=True)
            assert reading.acknowledged == reading.position
        return found

    async with kind.connect(cluster.address("b")) as sender:
        await sender.multicast_many(kind.name, [b"%d" % number for number in range(10)])
        assert await read(EARLIEST, b"4") == [b"%d" % number for number in range(5)]
        found = await read(LATEST, b"9")
        assert found == [b"%d" % number for number in range(5, 10)], "the cursor counts"
    for folder in folders:
        assert f'"bills of {kind.name}"' in (folder / NAME).read_text()


def messages(reading: BlockingSubscription, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        event = reading.receive(PATIENCE_S)
        if isinstance(event, Message):
            found.append(event.data)
    return found


def test_a_new_cursor_is_held_before_the_first_event(
    cluster: RunningCluster, archives: Any
) -> None:
    """Else a program that is ended before it acknowledges misses what comes meanwhile."""
    start = Cursor("new", LATEST)
    with connect(cluster.address("b")) as sender, connect(cluster.address("a")) as connection:
        with connection.subscribe("late", start=start) as reading:
            assert isinstance(reading.receive(PATIENCE_S), CaughtUp)
            sender.multicast("late", b"1")
            assert messages(reading, 1) == [b"1"]
        sender.multicast_ordered("late", b"2")
        with connection.subscribe("late", start=start) as reading:
            assert messages(reading, 2) == [b"1", b"2"]
            reading.acknowledge()
        with connection.subscribe("late", start="new") as reading:
            sender.multicast("late", b"3")
            assert messages(reading, 1) == [b"3"], "the end of the block has waited"


def test_of_two_programs_the_highest_acknowledgement_counts(
    cluster: RunningCluster, archives: Any
) -> None:
    with (
        connect(cluster.address("b")) as sender,
        connect(cluster.address("a")) as one,
        connect(cluster.address("b")) as two,
    ):
        sender.multicast_many("two", [b"1", b"2", b"3"])
        with (
            one.subscribe("two", start="shared") as first,
            two.subscribe("two", start="shared") as second,
        ):
            messages(first, 1)
            behind = first.position
            messages(second, 2)
            second.acknowledge(wait=True)
            first.acknowledge(behind, wait=True)
        with one.subscribe("two", start="shared") as reading:
            assert messages(reading, 1) == [b"3"]


@pytest.mark.long
def test_cursors_survive_the_end_of_all_archives(cluster: RunningCluster, tmp_path: Path) -> None:
    """One archive is away when the cursor is acknowledged, and gets it from the other one."""
    stores = tmp_path / "one", tmp_path / "two"

    def archive(place: int) -> ArchiveProcess:
        return ArchiveProcess(cluster.address("ab"[place]), stores[place], ["kept"])

    def read(count: int) -> list[bytes]:
        with (
            connect(cluster.address("a")) as connection,
            connection.subscribe("kept", start="kept") as reading,
        ):
            found = messages(reading, count)
            reading.acknowledge()
        return found

    with connect(cluster.address("b")) as sender, archive(0) as one:
        one.until_live()
        sender.multicast_many("kept", [b"1", b"2", b"3"])
        assert read(1) == [b"1"]
        with archive(1) as two:
            two.until_live()
            one.kill()
            assert read(1) == [b"2"]
    with archive(0) as one, archive(1) as two:
        one.until_live()
        two.until_live()
        assert read(1) == [b"3"]
    (stores[0] / NAME).write_bytes(b"junk")
    with archive(0) as one, pytest.raises(AssertionError, match="has ended"):
        one.until_live()
    (stores[0] / NAME).unlink()
    with archive(1) as two:
        two.until_live()
        with archive(0) as one:
            one.until_live()
    assert read_file(stores[0]) == read_file(stores[1])


def read_file(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / NAME).read_text().splitlines()[1:]]


def test_wrong_calls_are_refused(
    cluster: RunningCluster, archives: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(cluster.address("a")) as connection, connect(cluster.address("b")) as other:
        with connection.subscribe("moved", start=LATEST) as reading:
            reading.receive(PATIENCE_S)
            position = reading.position
            with pytest.raises(LocalProtocolError, match="has no cursor"):
                reading.acknowledge()
        other.multicast_ordered("moved", b"1")
        with connection.subscribe("moved", start=Cursor("mine", LATEST)) as reading:
            reading.receive(PATIENCE_S)
            assert position is not None
            beyond = position._replace(time=2**63)
            with pytest.raises(LocalProtocolError, match="not given as much"):
                reading.acknowledge(beyond)
        with (
            pytest.raises(LocalProtocolError, match="belongs to moved, not late"),
            other.subscribe("late", start="mine"),
        ):
            pass


def test_a_cursor_needs_an_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "FOUND_S", 0.3)
    with (
        RunningCluster("a") as alone,
        connect(alone.address("a")) as connection,
        pytest.raises(LocalProtocolError, match="groupcomm history serve"),
        connection.subscribe("g", start="mine"),
    ):
        pass
