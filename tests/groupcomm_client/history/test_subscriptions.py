"""Subscriptions on real daemons, with archives that are real programs."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from groupcomm.clocks.stamp import Position, ViewId, format_position
from groupcomm.errors import LocalProtocolError, PlaceAhead
from groupcomm.events import GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_archive.store import LogStore
from groupcomm_client import aio
from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_client.committed import committed
from groupcomm_client.connection import Connection
from groupcomm_client.history import (
    EARLIEST,
    LATEST,
    CaughtUp,
    Gap,
    channel_reader,
    subscription,
)
from groupcomm_client.history.cursors import CursorEntry, CursorExchange
from groupcomm_client.history.frames import ARCHIVES, Find, Piece, decode_untrusted, encode
from groupcomm_client.history.subscriber import Subscriber
from groupcomm_client.history.subscription import Begin
from groupcomm_log.cluster_mark import claim_folder
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import STEADY, ArchiveProcess, key_of
from tests.groupcomm_client.kinds import PATIENCE_S, Kind, played

AHEAD = Position(ViewId(2**60, "a", 1), 1, 0, 0, 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("abc", settings=STEADY) as running:
        yield running


@pytest.fixture(scope="module")
def archive(
    cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ArchiveProcess]:
    folder = tmp_path_factory.mktemp("archive")
    groups = ("trio", "asyncio", "blocking", "times", "next")
    with ArchiveProcess(cluster.address("a"), folder / "log", groups) as running:
        running.until_live()
        yield running
        assert running.end() == 0


def awaited(connection: Any) -> Connection:
    """The connection behind one of threads, whose calls are awaited."""
    found: Connection = connection.wrapped.awaited if hasattr(connection, "wrapped") else connection
    return found


@played
async def test_history_and_live_events_in_three_loops(
    kind: Kind, cluster: RunningCluster, archive: ArchiveProcess
) -> None:
    def texts(count: int) -> list[bytes]:
        return [b"%d" % number for number in range(count)]

    async def read(
        sender: Any, start: Begin, count: int, then: list[bytes]
    ) -> tuple[list[Message], Position]:
        """Return some messages; once there are no more, others are sent."""
        found: list[Message] = []
        async with (
            kind.connect(cluster.address("c")) as connection,
            awaited(connection).subscribe(kind.name, start=start) as reading,
        ):
            while len(found) < count:
                for event in await reading.receive_batch(PATIENCE_S):
                    assert not isinstance(event, Gap)
                    if isinstance(event, Message):
                        found.append(event)
                    elif isinstance(event, CaughtUp):
                        await sender.multicast_many(kind.name, then)
            assert reading.is_live
            position = reading.position
            assert position is not None
            return found, position

    async with kind.connect(cluster.address("b")) as sender:
        await sender.multicast_many(kind.name, texts(300))
        found, position = await read(sender, EARLIEST, 400, texts(400)[300:])
        assert [message.data for message in found] == texts(400)
        await sender.multicast(kind.name, b"missed")
        found, _ = await read(sender, position, 2, [b"live"])
        assert [message.data for message in found] == [b"missed", b"live"]


def test_a_subscription_that_is_cancelled_twice_leaves_all_its_groups(
    cluster: RunningCluster,
) -> None:
    async def scenario() -> None:
        async with aio.connect(cluster.address("a")) as connection:
            inside = asyncio.Event()

            async def read() -> None:
                async with connection.subscribe(["one", "two", "three"], start=LATEST):
                    inside.set()
                    await asyncio.Event().wait()

            task = asyncio.ensure_future(read())
            await inside.wait()
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()  # while it leaves the first one
            await asyncio.wait([task])
            assert task.cancelled()
            assert not connection.groups

    aio.run(scenario)


def test_events_come_one_by_one_too(cluster: RunningCluster, archive: ArchiveProcess) -> None:
    with (
        connect(cluster.address("b")) as sender,
        connect(cluster.address("c")) as connection,
        connection.subscribe("times", start=LATEST) as reading,
    ):
        caught_up, view = reading.receive(PATIENCE_S), reading.receive(PATIENCE_S)
        assert isinstance(caught_up, CaughtUp)
        assert isinstance(view, GroupView)
        assert connection.member in view.members
        sender.multicast("times", b"x")
        assert getattr(next(reading), "data") == b"x"  # noqa: B009
        with pytest.raises(TimeoutError):
            reading.receive(0.01)


def test_a_subscription_begins_at_a_time(cluster: RunningCluster, archive: ArchiveProcess) -> None:
    with connect(cluster.address("b")) as sender, connect(cluster.address("c")) as connection:
        sender.multicast_ordered("times", b"before")
        time.sleep(0.3)
        middle = datetime.now(UTC)
        time.sleep(0.3)
        sender.multicast_ordered("times", b"after")
        with connection.subscribe("times", start=middle) as reading:
            found = until_caught_up(reading)
        assert [event.data for event in found if isinstance(event, Message)] == [b"after"]
        later = datetime.now(UTC) + timedelta(hours=1)
        with connection.subscribe("times", start=later) as reading:
            assert not [e for e in until_caught_up(reading) if isinstance(e, Message)]


def until_caught_up(reading: Any) -> list[Any]:
    found = []
    while not isinstance(event := reading.receive(PATIENCE_S), CaughtUp):
        found.append(event)
    return found


def test_without_an_archive_an_error_names_the_remedy(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "FOUND_S", 0.3)
    with connect(cluster.address("b")) as connection:
        with (
            connection.subscribe("nobody", start=EARLIEST) as reading,
            pytest.raises(LocalProtocolError, match="groupcomm history serve"),
        ):
            reading.receive(PATIENCE_S)
        with connection.subscribe("nobody", start=LATEST) as reading:
            assert isinstance(reading.receive(PATIENCE_S), CaughtUp)


@pytest.mark.parametrize("listen", ["none", "local", "127.0.0.1"])
def test_history_comes_by_a_channel_or_through_the_daemons(
    cluster: RunningCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listen: str
) -> None:
    by_channel: list[Piece] = []
    handle = Subscriber.handle_piece

    def counting(self: Subscriber, piece: Piece, *rest: Any) -> None:
        by_channel.append(piece)
        handle(self, piece, *rest)

    monkeypatch.setattr(Subscriber, "handle_piece", counting)
    if listen == "127.0.0.1":  # as on another host
        monkeypatch.setattr(channel_reader, "LOCAL", "not @")
    group = f"by-{listen}"
    with (
        ArchiveProcess(cluster.address("a"), tmp_path, [group], "--listen", listen) as running,
        connect(cluster.address("b")) as sender,
        connect(cluster.address("c")) as connection,
    ):
        running.until_live()
        sender.multicast_many(group, [b"%d" % number for number in range(500)])
        sender.multicast_ordered(group, b"last")
        with connection.subscribe(group, start=EARLIEST) as reading:
            found = until_caught_up(reading)
    assert [event.data for event in found if isinstance(event, Message)][:500] == [
        b"%d" % number for number in range(500)
    ]
    assert bool(by_channel) is (listen != "none")


def test_late_answers_to_an_earlier_subscription_have_other_numbers(
    cluster: RunningCluster,
) -> None:
    asked = []
    with connect(cluster.address("b")) as archive, connect(cluster.address("a")) as connection:
        archive.join(ARCHIVES)
        for _ in range(2):
            with connection.subscribe("elsewhere", start=EARLIEST):
                frame = None
                while not isinstance(frame, Find):
                    event = archive.receive(PATIENCE_S)
                    frame = decode_untrusted(getattr(event, "data", b""))
                asked.append(frame.number)
    assert abs(asked[0] - asked[1]) > 1_000, "both begin at the same number"


@pytest.mark.parametrize(
    ("start", "groups", "why"), [(7, ["g"], "it must be EARLIEST"), (LATEST, [], "no group")]
)
def test_a_wrong_call_is_refused(
    cluster: RunningCluster, start: Any, groups: list[str], why: str
) -> None:
    with (
        connect(cluster.address("b")) as connection,
        pytest.raises(LocalProtocolError, match=why),
        connection.subscribe(groups, start=start),
    ):
        pass


@played
async def test_a_place_ahead_of_the_line_is_told_in_three_loops(
    kind: Kind, cluster: RunningCluster, archive: ArchiveProcess
) -> None:
    """Also to receivers of batches, and to a program whose cursor archives have there already."""
    async with kind.connect(cluster.address("c")) as connection:
        reading = awaited(connection)
        for options in ({"start": AHEAD}, {"start": AHEAD, "stable": True}):
            async with reading.subscribe(kind.name, **options) as found:
                with pytest.raises(PlaceAhead, match="it is a place of another cluster, or"):
                    await found.receive(PATIENCE_S)
                with pytest.raises(PlaceAhead, match="connect to the right one, or begin"):
                    await committed(found, [kind.name]).receive(PATIENCE_S)
        # An archive whose store is of another cluster has brought the cursor.
        name = f"of-{kind.name}"
        entry = CursorEntry(name, (kind.name,), 0, AHEAD)
        exchange = CursorExchange(AHEAD, (), (entry,))
        async with reading.group(ARCHIVES):
            await reading.multicast(ARCHIVES, encode(exchange), level=ServiceLevel.AGREED)
        async with reading.subscribe(kind.name, start=name) as found:
            remedy = f"cursor {name}: .*groupcomm history cursors move {name} earliest"
            with pytest.raises(PlaceAhead, match=remedy):
                await found.receive(PATIENCE_S)


def test_an_archive_whose_store_is_of_another_cluster_ends(
    cluster: RunningCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It would record nothing, and say that it is live."""
    store = LogStore(tmp_path / "log")
    member = MemberId("#ann#a", 1)
    store.append([(1, [Message(member, 1, ("g",), ServiceLevel.SAFE, 0, b"x", AHEAD)])])
    store.close()
    with ArchiveProcess(cluster.address("a"), tmp_path / "log", ("g",)) as running:
        assert running.wait() == 1
    (tmp_path / "other").mkdir()
    claim_folder(tmp_path / "other", "plant")
    with ArchiveProcess(cluster.address("a"), tmp_path / "other", ("g*",)) as running:
        assert running.wait() == 1
    told = capfd.readouterr().err
    assert f"{tmp_path}/log ends at {format_position(AHEAD)}, ahead of the history" in told
    assert "name another folder" in told
    assert f"{tmp_path}/other is of cluster plant, and the daemon is of cluster " in told
    assert not any(each["event"] == "live" for each in running.reported)


def test_an_archive_serves_on_once_its_daemon_is_there_again(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    with (
        ArchiveProcess(cluster.address("a"), tmp_path / "stays", ["on"]) as other,
        ArchiveProcess(cluster.address("c"), tmp_path / "returns", ["on"]) as archive,
        connect(cluster.address("b")) as connection,
    ):
        other.until_live()
        archive.until_live()
        cluster.kill("c")
        archive.until(lambda: archive.reported[-1]["event"] == "reconnecting")
        connection.multicast("on", b"meanwhile")
        cluster.start("c")
        begun = len(archive.reported)
        archive.until(
            lambda: any(each["event"] == "caught up" for each in archive.reported[begun:])
        )
        other.kill()
        with connection.subscribe("on", start=EARLIEST) as reading:
            while getattr(reading.receive(PATIENCE_S), "data", b"") != b"meanwhile":
                pass


@pytest.mark.long
def test_killed_archives_and_subscribers_cost_nothing(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    """A subscriber that is killed again and again gives what a member that stayed has delivered."""
    observed: list[Any] = []
    given: list[Any] = []
    with (
        connect(cluster.address("c")) as observer,
        connect(cluster.address("c")) as sender,
        ArchiveProcess(cluster.address("a"), tmp_path / "one", ["orders"]) as first,
        ArchiveProcess(cluster.address("b"), tmp_path / "two", ["orders"]) as two,
        ExitStack() as stack,
    ):
        observer.join("orders")
        first.until_live()
        two.until_live()
        archives = [first]
        position: Begin = LATEST
        sent = 0
        for turn in range(6):
            for _ in range(20):
                sender.multicast_many("orders", [b"%d" % (sent + n) for n in range(50)])
                sent += 50
            with connect(cluster.address("abc"[turn % 3])) as connection:
                position = read_on(connection, position, given, sent, turn, first)
            if turn == 3:
                again = ArchiveProcess(cluster.address("a"), tmp_path / "one", ["orders"])
                archives.append(stack.enter_context(again))
        archives[-1].until_live()
        assert (archives[-1].end(), two.end()) == (0, 0)
        sender.multicast("orders", b"last")
        while not (observed and getattr(observed[-1], "data", b"") == b"last"):
            observed += observer.receive_batch(PATIENCE_S)
    keys = [key for event in given if (key := key_of(event)) is not None]
    expected = [key for event in observed if (key := key_of(event)) is not None]
    views = [key for key in expected if key[1].startswith("orders:")]
    expected = expected[expected.index(keys[0]) :][: len(keys)]
    assert keys == expected
    assert len(views) > 12
    assert len([event for event in given if isinstance(event, Message)]) > 4000


def read_on(
    connection: BlockingConnection,
    start: Begin,
    given: list[Any],
    sent: int,
    turn: int,
    archive: ArchiveProcess,
) -> Position:
    """Read some, kill an archive in between, and break off; return the position."""
    last = b"%d" % (sent - 200)
    with connection.subscribe("orders", start=start) as reading:
        seen = 0
        while turn:
            event = reading.receive(PATIENCE_S)
            assert not isinstance(event, Gap)
            given.append(event)
            seen += 1
            if turn == 2 and seen == 300:
                archive.kill()
            if getattr(event, "data", b"") == last:
                break
        else:
            assert isinstance(reading.receive(PATIENCE_S), CaughtUp)
        position = reading.position
        assert position is not None
        connection.close_socket()
    return position


def test_a_subscription_goes_on_in_the_next_session(
    cluster: RunningCluster, archive: ArchiveProcess
) -> None:
    """Kill the daemon of a subscriber, which goes on at another one, and misses nothing."""
    both = f"{cluster.address('c')},{cluster.address('b')}"
    with (
        connect(cluster.address("a")) as observer,
        connect(cluster.address("b")) as sender,
        connect(both, reconnect=True) as connection,
    ):
        observer.join("next")
        given: list[Any] = []
        observed: list[Any] = []
        with connection.subscribe("next", start=LATEST, stable=True) as reading:
            for turn in range(4):
                sender.multicast_many("next", [b"%d" % n for n in range(200)])
                if turn == 1:
                    cluster.kill("c")
                while len([e for e in given if isinstance(e, Message)]) < 100 * (turn + 1):
                    given += reading.receive_batch(PATIENCE_S)
            sender.multicast_ordered("next", b"last")
            while not any(getattr(event, "data", b"") == b"last" for event in given):
                given += reading.receive_batch(PATIENCE_S)
        while not any(getattr(event, "data", b"") == b"last" for event in observed):
            observed += observer.receive_batch(PATIENCE_S)
        assert not [event for event in given if isinstance(event, Gap)]
        keys = [key for event in given if (key := key_of(event)) is not None]
        expected = [key for event in observed if (key := key_of(event)) is not None]
        assert keys == expected[expected.index(keys[0]) :][: len(keys)]
        assert connection.name.endswith("#b"), "it has another session"
    cluster.start("c")
    cluster.settle()
