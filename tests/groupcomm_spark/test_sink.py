"""The sink: real Spark, a real daemon, receivers that want each row once, and others."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from groupcomm.events import Message
from groupcomm_client.blocking import connect
from groupcomm_client.committed import Batch, BlockingCommitted, Incomplete
from groupcomm_client.committed.markers import TYPE, is_publisher
from groupcomm_spark.errors import plain
from groupcomm_spark.source import GroupCommDataSource
from groupcomm_tools.running_cluster import RunningCluster

PATIENCE_S = 120
QUIET_S = 0.5
EPOCH_S = 1_700_000_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster(1) as running:
        yield running


@pytest.fixture(autouse=True)
def _format(spark: SparkSession) -> None:
    spark.dataSource.register(GroupCommDataSource)


class Pipeline:
    """Lines of files, a file a batch, into groups; each line begins with its group."""

    def __init__(self, spark: SparkSession, folder: Path, address: str, **options: str) -> None:
        self._spark = spark
        self.source = folder / "source"
        self.checkpoint = folder / "checkpoint"
        self._options = {"address": address, "timeout": "3", **options}
        self.source.mkdir()

    def add(self, *lines: str) -> None:
        """One more batch."""
        number = len(list(self.source.iterdir()))
        path = self.source / f"{number}.txt"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (EPOCH_S + number, EPOCH_S + number))  # Spark reads the files in this order

    def run(self, *columns: str) -> None:
        """Have all that is there sent; raises what Spark does."""
        lines = self._spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.source))
        self.send(
            lines.selectExpr(*(columns or ("split(value, ' ')[0] AS group", "value AS data")))
        )

    def send(self, rows: DataFrame) -> None:
        query = (
            rows.writeStream.format("groupcomm")
            .options(**self._options)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(PATIENCE_S)
            assert not query.isActive
        finally:
            query.stop()

    def staged(self) -> list[str]:
        """Return the files in the folder of the query."""
        (folder,) = (self.checkpoint / "groupcomm").iterdir()
        return sorted(path.name for path in folder.iterdir())

    def forget(self, batch: int) -> None:
        """Behave as if the driver had died before it noted that the last batch is published."""
        (folder,) = (self.checkpoint / "groupcomm").iterdir()
        (folder / "published.json").unlink()
        self.forget_commit(batch)

    def forget_commit(self, batch: int) -> None:
        for name in (str(batch), f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)


@contextmanager
def receiving(cluster: RunningCluster, *groups: str) -> Iterator[BlockingCommitted]:
    with connect(cluster.address("a")) as connection:
        for group in groups:
            connection.join(group)
        yield BlockingCommitted(connection, groups)


def batches(receiver: BlockingCommitted, count: int) -> list[Batch[Message]]:
    """The next ones; nothing may come behind them soon."""
    found: list[Batch[Message]] = []
    while True:
        try:
            event = receiver.receive(PATIENCE_S if len(found) < count else QUIET_S)
        except TimeoutError:
            assert len(found) == count
            return found
        assert not isinstance(event, Message | Incomplete), event
        if isinstance(event, Batch):
            found.append(event)


def rows(found: list[Batch[Message]]) -> list[tuple[int, int, str]]:
    return [
        (row.batch, row.index, row.message.data.decode()) for each in found for row in each.rows
    ]


@pytest.mark.long
def test_a_frame_is_written_once(
    spark: SparkSession, tmp_path: Path, cluster: RunningCluster
) -> None:
    frame = spark.sql("select explode(array('x', 'y')) as data, 'g' as group")
    writer = frame.write.format("groupcomm").option("address", cluster.address("a"))
    writer = writer.option("staging", str(tmp_path / "staging")).option("timeout", "3")
    with receiving(cluster, "g") as receiver:
        writer.mode("append").save()
        assert rows(batches(receiver, 1)) == [(0, 0, "x"), (0, 1, "y")]
    assert list((tmp_path / "staging").iterdir()) == []
    with pytest.raises(Exception) as caught:  # noqa: PT011 - pyspark's own classes
        writer.option("address", str(tmp_path / "none")).mode("append").save()
    assert plain(caught.value).endswith("write the frame again, as a new query")
    assert list((tmp_path / "staging").iterdir()) == []


@pytest.mark.long
def test_rows_come_once_over_restarts_and_replays(
    spark: SparkSession, tmp_path: Path, cluster: RunningCluster
) -> None:
    pipeline = Pipeline(spark, tmp_path, cluster.address("a"))
    with (
        receiving(cluster, "g", "h") as receiver,
        receiving(cluster, "h") as of_h,
        connect(cluster.address("a")) as plain_receiver,
    ):
        plain_receiver.join("g")
        pipeline.add("g 0", "h 1", "g 2")
        pipeline.add("h 3")
        pipeline.run()
        found = batches(receiver, 2)
        assert rows(found) == [(0, 0, "g 0"), (0, 1, "h 1"), (0, 2, "g 2"), (1, 0, "h 3")]
        assert len({each.query for each in found}) == 1
        assert rows(batches(of_h, 2)) == [(0, 1, "h 1"), (1, 0, "h 3")]
        (manifest, parquet, noted) = pipeline.staged()
        assert (manifest[:12], parquet[:12], noted) == (f"{1:012}", f"{1:012}", "published.json")

        pipeline.forget_commit(1)  # Spark plays batch 1 again; its rows are known to be sent
        pipeline.add("g 4")
        pipeline.run()
        assert rows(batches(receiver, 1)) == [(2, 0, "g 4")]
        assert len(pipeline.staged()) == 3

        pipeline.forget(2)  # its rows are sent again
        pipeline.run()
        assert batches(receiver, 0) == []
        told: list[Message] = []
        with suppress(TimeoutError):
            while True:
                events = plain_receiver.receive_batch(QUIET_S)
                told += [event for event in events if isinstance(event, Message)]
        assert [m.data for m in told if m.type != TYPE] == [b"g 0", b"g 2", b"g 4", b"g 4"]
        markers = [json.loads(m.data)["marker"] for m in told if m.type == TYPE]
        assert markers == ["begin", "end"] * 3
        assert all(is_publisher(m.sender.name) for m in told)


@pytest.mark.long
def test_what_is_staged_counts_and_not_what_is_computed_anew(
    spark: SparkSession, tmp_path: Path, cluster: RunningCluster
) -> None:
    """A batch that was sent in part is sent again as it was, though the source has changed."""
    pipeline = Pipeline(spark, tmp_path, "/nowhere/socket", timeout="0.2")
    pipeline.add("r 0", "r 1")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - pyspark's own classes
        pipeline.run()
    told = plain(caught.value)
    assert told.startswith("batch 0 was not published: ")
    assert "/nowhere/socket" in told
    assert told.endswith("it stays staged, and is sent when the query is started again")
    pipeline._options["address"] = cluster.address("a")
    (pipeline.source / "0.txt").write_text("r changed\n")
    with receiving(cluster, "r") as receiver:
        pipeline.run()
        assert rows(batches(receiver, 1)) == [(0, 0, "r 0"), (0, 1, "r 1")]
    assert len(pipeline.staged()) == 3


def test_types_and_several_groups_are_taken_from_columns(
    spark: SparkSession, tmp_path: Path, cluster: RunningCluster
) -> None:
    pipeline = Pipeline(spark, tmp_path, cluster.address("a"), group="t", type="7", level="fifo")
    pipeline.add("a", "b", "c")
    with receiving(cluster, "t", "u") as receiver:
        pipeline.run(
            "CASE value WHEN 'b' THEN array('t', 'u') END AS groups",
            "CASE value WHEN 'c' THEN 9S END AS type",
            "CAST(value AS BINARY) AS data",
        )
        (batch,) = batches(receiver, 1)
    told = [(m.data, m.groups, m.type, m.level.name) for m in (row.message for row in batch.rows)]
    assert told == [
        (b"a", ("t",), 7, "FIFO"),
        (b"b", ("t", "u"), 7, "FIFO"),
        (b"c", ("t",), 9, "FIFO"),
    ]


@pytest.mark.parametrize(
    ("options", "columns", "what"),
    [
        ({}, ["value AS data"], "give the option group"),
        pytest.param(
            *({"group": "g"}, ["CAST(NULL AS STRING) AS data"], "the column data is null in a row"),
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_cannot_be_sent_is_one_sentence(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], columns: list[str], what: str
) -> None:
    pipeline = Pipeline(spark, tmp_path, "/nowhere", **options)
    pipeline.add("x")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - pyspark's own classes
        pipeline.run(*columns)
    assert what in plain(caught.value)
