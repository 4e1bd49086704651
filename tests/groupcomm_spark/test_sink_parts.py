"""The parts of the sink without Spark: options, columns, staged files, sending."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest
import trio
from msgspec import structs
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from groupcomm.clocks.stamp import ViewId
from groupcomm.errors import ConfigError
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, connect
from groupcomm_client.committed import Batch, committed
from groupcomm_log.disk import Disk
from groupcomm_spark.sink.options import (
    STAGED,
    SinkOptions,
    check_columns,
    parse_options,
    to_staged,
)
from groupcomm_spark.sink.staging import Manifest, Part, Published, Staging, StagingDamaged
from groupcomm_spark.sink.writer import SinkError, publish
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_log.make import QuickDisk

OPTIONS = SinkOptions(staging=Path("/nowhere"), group="g", timeout_s=5)

# ---- options ----


X = {"staging": "/x"}


def test_options_are_read() -> None:
    found = parse_options(
        {"checkpointLocation": "file:///a%20b/c", "Group": "g", "level": "safe", "timeout": "2.5"}
    )
    assert found == SinkOptions(
        staging=Path("/a b/c/groupcomm"),
        group="g",
        level=ServiceLevel.SAFE,
        timeout_s=2.5,
    )
    assert parse_options({"staging": "/x", "checkpointLocation": "s3://y"}).staging == Path("/x")
    assert parse_options({"staging": "x"}).staging == Path.cwd() / "x", "executors are elsewhere"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"staging": ""}, "staging and checkpointLocation"),
        ({"checkpointLocation": "hdfs://host/x"}, "hdfs://host/x is not a folder"),
        ({"group": "#x"}, "option group: '#x' is not a private name"),
        ({"level": "reliable"}, "one of fifo, causal, agreed, safe"),
        ({"type": "65535"}, "must be 0 to 65534"),
        ({"timeout": "nan"}, "option timeout is 'nan'"),
        ({"levle": "safe"}, "no option 'levle' for writing; there are: address, group"),
    ],
)
def test_wrong_options_are_reported(given: dict[str, str], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        parse_options(given if given.keys() & {"staging", "checkpointLocation"} else X | given)


# ---- columns ----

TYPES = {"string": StringType(), "int": IntegerType(), "array": ArrayType(StringType())}


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"value": "string"}, "no column data among value"),
        ({"data": "int"}, "data is of type int; it must be binary or string"),
        ({"data": "string", "key": "string"}, "the sink does not know the column key"),
        ({"data": "string", "group": "string", "groups": "array"}, "columns group and groups"),
        ({"data": "string"}, "the rows have no destination"),
    ],
)
def test_wrong_columns_are_reported(columns: dict[str, str], what: str) -> None:
    schema = StructType([StructField(name, TYPES[kind]) for name, kind in columns.items()])
    with pytest.raises(ConfigError, match=what):
        check_columns(schema, SinkOptions(staging=Path("/x")))


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"data": [b"x", None]}, "data is null"),
        ({"data": [b"x"], "type": [65535]}, "type is 65535 in a row"),
        ({"data": [b"x"], "type": [-1]}, "type is -1 in a row"),
        ({"data": [b"x"], "groups": [[]]}, "names no group"),
        ({"data": [b"x"], "groups": [["a", None]]}, "a group that is null"),
        ({"data": [b"x"], "groups": [["a\n"]]}, "contains a control character"),
        ({"data": [b"x"], "groups": [[f"g{at}" for at in range(256)]]}, "more than 255 groups"),
        ({"data": [bytes(64 * 1024 * 1024 + 1)]}, "67108865 bytes of data"),
    ],
)
def test_rows_that_cannot_be_sent_are_reported(columns: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        to_staged(pa.RecordBatch.from_pydict(columns), OPTIONS)


def test_rows_without_group_or_type_get_those_of_the_options() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"data": ["x", "y"], "group": [None, "h"], "type": [None, 3]}
    )
    assert to_staged(batch, OPTIONS).to_pylist() == [
        {"groups": ["g"], "type": 0, "data": b"x"},
        {"groups": ["h"], "type": 3, "data": b"y"},
    ]


# ---- staging ----


def some(*data: bytes, group: str = "g") -> Iterator[pa.RecordBatch]:
    rows = [{"groups": [group], "type": 0, "data": each} for each in data]
    yield pa.RecordBatch.from_pylist(rows, STAGED)


def data_in(staging: Staging, manifest: Manifest) -> list[bytes]:
    return [data for rows in staging.rows(manifest) for data in rows["data"].to_pylist()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_decided_stays_and_goes_with_the_next_batch(tmp_path: Path) -> None:
    staging = Staging(tmp_path, "q", QuickDisk())
    parts = [staging.write(0, 1, some(b"c")), staging.write(0, 0, some(b"a", b"b"))]
    manifest = staging.decide(0, parts)
    assert data_in(staging, manifest) == [b"a", b"b", b"c"]
    assert manifest.groups == {"g": 3}
    again = staging.write(0, 0, some(b"changed"))
    other = Staging(tmp_path, "q", QuickDisk())
    assert other.decide(0, [again]) == manifest
    assert (staging.folder / again.name).exists()
    staging.note(manifest)
    assert not (staging.folder / again.name).exists()
    assert staging.published() == Published(0, {"g": 0})
    second = staging.decide(4, [staging.write(4, 0, some(b"d")), staging.write(4, 1, iter(()))])
    assert second.after == {"g": 0}
    assert data_in(staging, manifest) == [b"a", b"b", b"c"]
    staging.note(second)
    assert names(staging.folder) == [
        f"{4:012}-{0:06}-{second.parts[0].name[20:]}",
        f"{4:012}.json",
        "published.json",
    ]


def test_a_driver_that_is_late_takes_nothing_back(tmp_path: Path) -> None:
    staging = Staging(tmp_path, "q", QuickDisk())
    old = staging.decide(0, [staging.write(0, 0, some(b"a", group="old"))])
    new = staging.decide(1, [staging.write(1, 0, some(b"b"))])
    staging.note(new)
    staging.note(old)
    assert staging.published() == Published(1, {"g": 1, "old": 0})
    assert data_in(staging, new) == [b"b"]


def test_of_two_drivers_that_decide_at_once_both_have_the_same(tmp_path: Path) -> None:
    other = Staging(tmp_path, "q", QuickDisk())
    theirs = other.write(0, 0, some(b"theirs"))

    class Slow(QuickDisk):
        """Another driver decides while this one writes its manifest."""

        @contextmanager
        def synced_file(self, path: Path) -> Iterator[BinaryIO]:
            with super().synced_file(path) as file:
                yield file
            if "json" in path.name:
                other.decide(0, [theirs])

    staging = Staging(tmp_path, "q", Slow())
    ours = staging.write(0, 0, some(b"ours"))
    assert data_in(staging, staging.decide(0, [ours])) == [b"theirs"]


@pytest.mark.parametrize("change", ["remove", "cut", "flip"])
def test_staged_rows_that_are_damaged_are_reported(tmp_path: Path, change: str) -> None:
    staging = Staging(tmp_path, "q", QuickDisk())
    manifest = staging.decide(3, [staging.write(3, 0, some(*(b"%d" % at for at in range(99))))])
    path = staging.folder / manifest.parts[0].name
    data = bytearray(path.read_bytes())
    if change == "remove":
        path.unlink()
    else:
        data[60] ^= 1
        path.write_bytes(data[:60] if change == "cut" else data)
    with pytest.raises(StagingDamaged, match="batch 3 of query q cannot be published"):
        data_in(staging, manifest)


def test_a_batch_for_too_many_groups_is_reported(tmp_path: Path) -> None:
    parts = [Part("x", at, 1, {f"g{at}": 1}) for at in range(256)]
    with pytest.raises(ConfigError, match="batch 7 has rows for 256 groups; at most 255"):
        Staging(tmp_path, "q", Disk()).decide(7, parts)


# ---- sending ----


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster(1) as running:
        yield running


def staged(folder: Path, batch: int, data: Sequence[bytes]) -> tuple[Staging, Manifest]:
    staging = Staging(folder, "q", QuickDisk())
    return staging, staging.decide(batch, [staging.write(batch, 0, some(*data))])


async def receive(receiver: Any, count: int) -> list[Batch[Message]]:
    found: list[Batch[Message]] = []
    with trio.fail_after(20):
        while len(found) < count:
            event = await receiver.receive()
            assert not isinstance(event, Message)
            found += [event] if isinstance(event, Batch) else []
    return found


async def test_a_session_that_ends_in_the_middle_is_followed_by_another(
    tmp_path: Path, cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon ends the first, the view of daemons the second; receivers have it once."""
    data = [b"%d" % at for at in range(3000)]
    staging, manifest = staged(tmp_path, 0, data)
    options = SinkOptions(staging=tmp_path, address=cluster.address("a"), timeout_s=20)
    send, many = Connection.multicast_ordered, Connection.multicast_many
    ends = calls = 0

    async def ends_in_a_transition(self: Connection, *args: Any, **kwargs: Any) -> Any:
        nonlocal ends
        ordered = await send(self, *args, **kwargs)
        is_end = kwargs["level"] is ServiceLevel.SAFE
        ends += is_end
        return structs.replace(ordered, transitional=is_end and ends == 1)

    async def is_broken_off(self: Connection, *args: Any, **kwargs: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            self.close_socket()
        return await many(self, *args, **kwargs)

    async with connect(options.address) as connection, connection.group("g"):
        receiver = committed(connection, ["g"])
        monkeypatch.setattr(Connection, "multicast_ordered", ends_in_a_transition)
        monkeypatch.setattr(Connection, "multicast_many", is_broken_off)
        await publish(manifest, partial(staging.rows, manifest), options)
        staging.note(manifest)
        assert ends == 2
        _, last = staged(tmp_path, 1, [b"end"])
        await publish(last, partial(staging.rows, last), options)
        first, second = await receive(receiver, 2)
    assert [row.message.data for row in first.rows] == data
    assert [row.index for row in first.rows] == [*range(3000)]
    assert [row.message.data for row in second.rows] == [b"end"]
    assert second.missed == ()


async def test_a_batch_that_a_new_view_divides_is_sent_again(
    tmp_path: Path, cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Daemons that came with the view in which it ended lack what was sent before."""
    staging, manifest = staged(tmp_path, 0, [b"x"])
    options = SinkOptions(staging=tmp_path, address=cluster.address("a"), timeout_s=20)
    send = Connection.multicast_ordered
    levels: list[ServiceLevel] = []

    async def begins_before_the_view(self: Connection, *args: Any, **kwargs: Any) -> Any:
        ordered = await send(self, *args, **kwargs)
        levels.append(kwargs["level"])
        before = ordered.position._replace(view=ViewId(0, "before", 0))
        return ordered if len(levels) > 1 else structs.replace(ordered, position=before)

    monkeypatch.setattr(Connection, "multicast_ordered", begins_before_the_view)
    await publish(manifest, partial(staging.rows, manifest), options)
    assert levels == [ServiceLevel.AGREED, ServiceLevel.SAFE] * 2


async def test_after_some_attempts_the_query_fails(
    tmp_path: Path, cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_broken_off(self: Connection, *args: Any, **kwargs: Any) -> None:
        self.close_socket()

    staging, manifest = staged(tmp_path, 0, [b"x"])
    options = SinkOptions(staging=tmp_path, address=cluster.address("a"), timeout_s=20)
    monkeypatch.setattr(Connection, "multicast_many", is_broken_off)
    with pytest.raises(SinkError, match="batch 0 was not published: after 3 attempts: "):
        await publish(manifest, partial(staging.rows, manifest), options)


async def test_a_daemon_that_accepts_nothing_is_reported(
    tmp_path: Path, cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def waits(self: Connection, *args: Any, **kwargs: Any) -> None:
        await trio.sleep_forever()

    staging, manifest = staged(tmp_path, 0, [b"x"])
    options = SinkOptions(staging=tmp_path, address=cluster.address("a"), timeout_s=0.5)
    monkeypatch.setattr(Connection, "multicast_many", waits)
    with pytest.raises(SinkError, match=r"the daemon has accepted nothing for 0.5 s"):
        await publish(manifest, partial(staging.rows, manifest), options)
