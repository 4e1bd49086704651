"""``spark.readStream.format("groupcomm")``: a log as it grows, and where a query goes on."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.streaming.query import StreamingQuery

from groupcomm_log.compaction import compact
from groupcomm_log.errors import LogRemoved, LogReplaced
from groupcomm_log.names import list_segments
from groupcomm_log.writer import LogWriter
from groupcomm_spark.errors import plain
from groupcomm_spark.reading.options import parse_options
from groupcomm_spark.reading.readers import StreamReader
from groupcomm_spark.streams import TaskReader, read_stream, read_tasks
from tests.groupcomm_log.make import QuickDisk, contents, crash, without_a_column
from tests.groupcomm_spark.test_source import make_epoch, write

STARTS = 12
NOT_STARTED = "Spark's Python process has not started in time, however often it was tried"


class Query:
    """A query that keeps the numbers of the rows of each batch."""

    def __init__(
        self, spark: SparkSession, folder: Path, *, by_tasks: bool = False, **options: str
    ) -> None:
        self.batches: list[list[int]] = []
        self.rows: list[Row] = []
        self._folder = folder
        log = str(folder / "log")
        if by_tasks:
            self._log = read_stream(spark, log, **options)
        else:
            self._log = spark.readStream.format("groupcomm").options(**options).load(log)

    def _take(self, batch: DataFrame, number: int) -> None:
        rows = batch.orderBy("row").collect()
        self.rows += rows
        self.batches.append([row["row"] for row in rows])

    def start(self, *, available_now: bool = False) -> StreamingQuery:
        writer = self._log.writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        return writer.trigger(availableNow=True).start() if available_now else writer.start()

    def follow(self) -> StreamingQuery:
        """Run the query to the present end of the log; it goes on from there."""
        for _ in range(STARTS):
            query = self.start()
            with starting():
                query.processAllAvailable()
                return query
        raise AssertionError(NOT_STARTED)

    def run(self) -> list[list[int]]:
        """Run the query to the present end of the log; return its batches."""
        for _ in range(STARTS):
            with starting():
                assert self.start(available_now=True).awaitTermination(120)
                return self.batches
        raise AssertionError(NOT_STARTED)


@contextmanager
def starting() -> Iterator[None]:
    """Go on where Spark's Python process did not start: 10 s are not enough on a busy machine."""
    try:
        yield
    except StreamingQueryException as error:
        if "failed to connect back" not in str(error):
            raise


def test_a_query_follows_a_log_and_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "log"
    writer = make_epoch(folder, [3, 4], live=2)
    query = Query(spark, tmp_path, maxRowsPerBatch="4")
    running = query.follow()
    assert query.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    write(writer, 2)
    running.processAllAvailable()
    assert query.batches[3:] == [[9, 10]]
    progress = running.lastProgress
    assert progress is not None
    assert json.loads(progress.sources[0].latestOffset) == {"epoch": 1, "row": 11}
    running.stop()

    writer.close()
    make_epoch(folder, [2], live=3).close()
    assert Query(spark, tmp_path, maxRowsPerBatch="3").run() == [[11, 12, 13], [14, 15]]
    offsets = (tmp_path / "checkpoint" / "offsets" / "5").read_text().splitlines()
    assert json.loads(offsets[-1]) == {"epoch": 2, "row": 16}


@pytest.mark.long
def test_streams_of_tasks_and_of_rows_go_on_where_the_other_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "log"
    writer = make_epoch(folder, [9], live=2)
    options = {"maxRowsPerBatch": "6", "kinds": "message", "rowsPerTask": "2"}
    messages = [row for row in range(13) if row % 8 in (3, 4, 5, 7)]
    query = Query(spark, tmp_path, by_tasks=True, **options)
    assert query.run() == [messages[:3], messages[3:4]]
    write(writer, 2)
    writer.close()
    assert Query(spark, tmp_path, by_tasks=False, **options).run() == [messages[4:]]
    make_epoch(folder, [8]).close()
    query = Query(spark, tmp_path, by_tasks=True)
    query.run()
    assert [row["row"] for row in query.rows] == [*range(13, 21)]


@pytest.mark.long
@pytest.mark.parametrize("by_tasks", [False, True])
def test_a_query_goes_on_after_compaction_retention_and_a_new_column(
    spark: SparkSession, tmp_path: Path, by_tasks: bool
) -> None:
    """A batch that a crash interrupted comes again with the same rows, from other files."""
    folder = tmp_path / "log"
    make_epoch(folder, [3, 4]).close()
    for segment in list_segments(folder):
        without_a_column(segment)

    def run(**options: str) -> list[list[int]]:
        return Query(spark, tmp_path, by_tasks=by_tasks, **options).run()

    def forget(*names: str) -> None:
        for path in (tmp_path / "checkpoint" / name for name in names):
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink()

    assert run(maxRowsPerBatch="5") == [[0, 1, 2, 3, 4], [5, 6]]
    make_epoch(folder, [2, 3]).close()
    assert run() == [[7, 8, 9, 10, 11]]
    forget("commits/2")
    compact(folder, disk=QuickDisk(), wait=lambda: None)
    make_epoch(folder, [2]).close()
    assert len(list_segments(folder)) == 3
    assert run() == [[7, 8, 9, 10, 11], [12, 13]]
    for segment in list_segments(folder)[:2]:
        segment.path.unlink()
    assert run() == []
    forget("commits/2", "commits/3", "offsets/3")
    with pytest.raises(StreamingQueryException, match="rows 7 to 11 were removed before they"):
        run()


@pytest.mark.long
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_both_streams_and_the_folder_have_the_same_rows(
    spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    make_epoch(tmp_path / "log", [9, 30], live=3).close()
    wanted = spark.read.format("groupcomm").load(str(tmp_path / "log")).orderBy("row").collect()
    found: dict[bool, list[Row]] = {}
    before = spark.conf.get("spark.sql.session.timeZone") or ""
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for by_tasks in (False, True):
            query = Query(spark, tmp_path, by_tasks=by_tasks)
            query.run()
            found[by_tasks] = query.rows
            shutil.rmtree(tmp_path / "checkpoint")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert found == {False: wanted, True: wanted}


def test_a_task_is_one_row_and_stands_for_its_rows(tmp_path: Path) -> None:
    make_epoch(tmp_path, [9, 3]).close()
    options = parse_options({"path": str(tmp_path), "columns": "row,log", "rowsPerTask": "8"})
    stream = TaskReader(options, options.columns)
    partitions = stream.partitions(offset(1, 2), offset(1, 11))
    tasks = [batch for partition in partitions for batch in stream.read(partition)]
    assert [task.num_rows for task in tasks] == [1, 1]
    rows = [
        row
        for batch in read_tasks(iter(tasks), options=options, columns=options.columns)
        for row in batch.to_pylist()
    ]
    assert rows == [{"row": row, "log": tmp_path.name} for row in range(2, 11)]
    (nothing,) = stream.read(InputPartition(None))
    assert [*read_tasks(iter([nothing]), options=options, columns=options.columns)] == []


@pytest.mark.parametrize(
    ("cores", "tasks"), [(None, 6), (1, 2), (2, 2), (3, 3), (4, 4), (6, 6), (100, 6)]
)
def test_a_batch_has_no_more_tasks_than_run_at_a_time_unless_they_are_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int | None, tasks: int
) -> None:
    """12 rows in 6 files, by tasks of 2 to 6 rows."""
    make_epoch(tmp_path, [2] * 6).close()
    monkeypatch.setattr("groupcomm_spark.streams.MOST_ROWS", 6)
    options = parse_options({"path": str(tmp_path), "rowsPerTask": "2"})
    partitions = TaskReader(options, ["row"], cores).partitions(offset(1, 0), offset(1, 12))
    assert len(partitions) == tasks
    starts = [part.start for partition in partitions for part in partition.value]
    assert starts == [0, 2, 4, 6, 8, 10]


@pytest.mark.long
def test_a_query_tells_that_rows_were_removed_or_passes_over_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The same without Spark: where a query begins, and files that are removed after planning."""
    folder = tmp_path / "log"
    make_epoch(folder, [9, 7]).close()
    assert Query(spark, tmp_path).run() == [[*range(16)]]
    assert Query(spark, tmp_path).run() == []

    make_epoch(folder, [2, 3]).close()
    for segment in list_segments(folder):
        if segment.first.row <= 16:
            segment.path.unlink()
    with pytest.raises(Exception) as caught:  # noqa: PT011 - pyspark's own classes
        Query(spark, tmp_path).run()
    assert plain(caught.value) == (
        f"{folder}: rows 16 to 17 were removed before they were read; have the recorder keep more,"
        " or go on with row 18 by the option failOnDataLoss=false"
    )
    assert Query(spark, tmp_path, failOnDataLoss="false").run() == [[18, 19, 20]]


# ---- without Spark ----


def reader(folder: Path, **options: str) -> StreamReader:
    return StreamReader(parse_options({"path": str(folder), **options}), ["row"])


def batch(stream: StreamReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    return [
        row
        for partition in stream.partitions(start, end)
        for rows in stream.read(partition)
        for row in rows["row"].to_pylist()
    ]


def offset(epoch: int, row: int) -> dict[str, int]:
    return {"epoch": epoch, "row": row}


@pytest.mark.parametrize(
    ("start", "rows"),
    [
        ("earliest", [2, 3, 4, 5, 6, 7]),
        ("latest", [7]),
        ("5", [5, 6, 7]),
        ("1:3", [3, 4, 5, 6, 7]),
        ("2:0", [4, 5, 6, 7]),
        ("9", [7]),
    ],
)
def test_a_query_begins_where_it_is_asked_to(tmp_path: Path, start: str, rows: list[int]) -> None:
    make_epoch(tmp_path, [2, 2]).close()
    writer = make_epoch(tmp_path, [1], live=2)
    list_segments(tmp_path)[0].path.unlink()
    stream = reader(tmp_path, startingOffset=start)
    begin = stream.initialOffset()
    write(writer, 1)
    end = stream.latestOffset(begin, ReadAllAvailable())
    assert batch(stream, begin, end) == rows
    assert stream.reportLatestOffset() == offset(2, 8)
    writer.close()


def test_a_query_begins_with_no_row_that_was_removed(tmp_path: Path) -> None:
    make_epoch(tmp_path, [2, 2]).close()
    list_segments(tmp_path)[0].path.unlink()
    for start in ("1", "1:1"):
        with pytest.raises(LogRemoved, match="rows 1 to 1 were removed"):
            reader(tmp_path, startingOffset=start).initialOffset()
        lenient = reader(tmp_path, startingOffset=start, failOnDataLoss="false")
        assert batch(lenient, lenient.initialOffset(), offset(1, 4)) == [2, 3]


@pytest.mark.parametrize(
    ("limit", "ends"),
    [
        (ReadMaxRows(1), [1, 2, 3, 4, 5, 6, 7]),
        (ReadMaxRows(3), [3, 6, 7]),
        (ReadMaxRows(4), [4, 7]),
        (ReadMaxRows(100), [7]),
        (ReadAllAvailable(), [7]),
    ],
)
def test_batches_have_as_many_rows_as_they_may(
    tmp_path: Path, limit: ReadLimit, ends: list[int]
) -> None:
    make_epoch(tmp_path, [2, 2]).close()
    writer = make_epoch(tmp_path, [1], live=2)
    stream = reader(tmp_path)
    at, found, rows = stream.initialOffset(), [], []
    while (end := stream.latestOffset(at, limit)) != at:
        rows += batch(stream, at, end)
        found.append(end["row"])
        at = end
    assert found == ends
    assert rows == [*range(7)]
    writer.close()


def test_rows_that_come_later_are_not_available_now(tmp_path: Path) -> None:
    writer = make_epoch(tmp_path, [2], live=1)
    stream = reader(tmp_path)
    stream.prepareForTriggerAvailableNow()
    write(writer, 3)
    assert stream.latestOffset(offset(1, 0), ReadMaxRows(2)) == offset(1, 2)
    assert stream.latestOffset(offset(1, 2), ReadMaxRows(2)) == offset(1, 3)
    assert stream.latestOffset(offset(1, 3), ReadMaxRows(2)) == offset(1, 3)
    assert stream.latestOffset(offset(1, 5), ReadMaxRows(2)) == offset(1, 5)
    writer.close()


def test_rows_that_were_read_and_lost_are_reported(tmp_path: Path) -> None:
    """A power failure took them before they were synced, or the log is an older copy."""
    crash(make_epoch(tmp_path, [2], live=3))
    stream = reader(tmp_path)
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert end == offset(1, 5)
    live = next(each.path for each in list_segments(tmp_path) if each.is_live)
    live.write_bytes(live.read_bytes()[:-10])
    assert reader(tmp_path).latestOffset(end, ReadAllAvailable()) == end
    make_epoch(tmp_path, [], live=2).close()
    with pytest.raises(LogReplaced, match="epoch 1 ends before row 4, and rows up to 4 were read"):
        stream.latestOffset(end, ReadAllAvailable())
    lenient = reader(tmp_path, failOnDataLoss="false")
    after = lenient.latestOffset(end, ReadAllAvailable())
    assert after == offset(2, 6)
    assert batch(lenient, end, after) == [4, 5]
    assert contents(tmp_path, "epoch", "row")[-3:] == [(1, 3), (2, 4), (2, 5)]


@pytest.mark.parametrize("rows", [1, 5, 20])
def test_a_checkpoint_of_a_log_that_was_recorded_anew_is_refused(tmp_path: Path, rows: int) -> None:
    """However many rows the new log has: at the end of a batch, and in one that is repeated."""
    with closing(LogWriter(tmp_path / "log", disk=QuickDisk())) as writer:
        write(writer, 5)
        stream = reader(tmp_path / "log")
        begin = stream.initialOffset()
        end = stream.latestOffset(begin, ReadAllAvailable())
    shutil.rmtree(tmp_path / "log")
    with closing(LogWriter(tmp_path / "log", disk=QuickDisk())) as writer:
        write(writer, rows)
        for lenient in ("true", "false"):
            again = reader(tmp_path / "log", failOnDataLoss=lenient)
            for read in (stream, again):
                with pytest.raises(LogReplaced, match="is of another log: this one was recorded"):
                    read.latestOffset(end, ReadAllAvailable())
                for start in (begin, offset(0, 0)):
                    with pytest.raises(LogReplaced, match="is of another log"):
                        read.partitions(start, end)
        place = f"{end['epoch']}:3"
        for option in ("fromRow", "toRow"):
            with pytest.raises(LogReplaced, match="row 3 of epoch"):
                reader(tmp_path / "log", **{option: place}).reportLatestOffset()
        with pytest.raises(LogReplaced, match="row 3 of epoch"):
            reader(tmp_path / "log", startingOffset=place).initialOffset()


def test_a_live_file_is_read_from_where_a_batch_begins(tmp_path: Path) -> None:
    writer = make_epoch(tmp_path, [], live=5)
    stream = reader(tmp_path)
    (partition,) = stream.partitions(offset(1, 3), offset(1, 5))
    (part,) = partition.value
    assert (part.start, part.stop) == (3, 5)
    assert part.at > 0
    assert batch(stream, offset(1, 3), offset(1, 5)) == [3, 4]
    writer.close()
