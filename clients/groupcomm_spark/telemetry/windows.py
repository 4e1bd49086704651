"""Windows and alarms of the rows of a log: DataFrames, batch or streaming, and their queries.

A stream yields a window once, when it is over: when the watermark has passed it.
"""

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
import pyarrow as pa

from groupcomm_log.schema import MESSAGE
from groupcomm_spark.telemetry.alarms import Flow, MessageKinds, Window, check_window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


COLUMNS: Final = ("kind", "received", "sender", "number", "type", "data")
"""The columns of a log that are needed."""

_NS_PER_US: Final = 1000
_MICRO: Final = 1_000_000


def windows_of(rows: "DataFrame", kinds: MessageKinds) -> "DataFrame":
    """Return one row for each window: start, end, covered_s, and `flows`, an array of `Flow`
    structs.

    Args:
        rows: rows of a log, with COLUMNS.
        kinds: kinds to count; messages of other types are left out.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    length = f"{round(kinds.window_s * _MICRO)} microseconds"
    delay = f"{round(kinds.watermark_s * _MICRO)} microseconds"
    made = _messages(rows, kinds).withWatermark("made", delay)
    by_sender = (
        made.groupBy(fn.window("made", length), "name", "sender")
        .agg(
            fn.count("*").alias("messages"),
            fn.sum("size").alias("bytes"),
            (fn.max("number") - fn.min("number") + 1 - fn.count("*")).alias("missing"),
            fn.count_if("late").alias("late"),
            fn.max("age_s").alias("worst_s"),
            fn.min("made").alias("first"),
            fn.max("made").alias("last"),
        )
        .select("*", fn.window_time("window").alias("time"))
    )
    flow = fn.struct(fn.col("name").alias("kind"), *Flow._fields[1:])
    covered_us = fn.unix_micros(fn.max("last")) - fn.unix_micros(fn.min("first"))
    return (
        by_sender.groupBy(fn.window("time", length))
        .agg(fn.sort_array(fn.collect_list(flow)).alias("flows"), covered_us.alias("covered_us"))
        .select(
            "window.start",
            "window.end",
            (fn.col("covered_us") / _MICRO).alias("covered_s"),
            "flows",
        )
    )


def _messages(rows: "DataFrame", kinds: MessageKinds) -> "DataFrame":
    """Return the messages of these kinds: name, sender, number, size, made, age_s and late."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    names = _by_type({kind.type: name for name, kind in kinds.kinds.items()})
    limits = _by_type({kind.type: kind.late_s for kind in kinds.kinds.values()})
    number = fn.col("number") if kinds.number_at is None else _unsigned(kinds.number_at, 4)
    made_us = (
        fn.unix_micros("received")
        if kinds.made_at is None
        else (_unsigned(kinds.made_at, 8) / _NS_PER_US).cast("long")
    )
    age_s = (fn.unix_micros("received") - fn.col("made_us")) / _MICRO
    return (
        rows.where(fn.col("kind") == MESSAGE)
        .select(
            names.alias("name"),
            "sender",
            number.cast("long").alias("number"),
            fn.octet_length("data").cast("long").alias("size"),
            made_us.alias("made_us"),
            "received",
            limits.alias("limit"),
        )
        # A message that is too short to hold its time, or of another kind, is not judged.
        .where(fn.col("name").isNotNull() & fn.col("made_us").isNotNull())
        .select(
            *("name", "sender", "number", "size"),
            fn.timestamp_micros("made_us").alias("made"),
            age_s.alias("age_s"),
            (age_s > fn.col("limit")).alias("late"),
        )
    )


def _by_type(values: dict[int, Any]) -> "Column":
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    pairs = [fn.lit(each) for pair in values.items() for each in pair]
    return fn.try_element_at(fn.create_map(*pairs), fn.col("type").cast("int"))


def _unsigned(byte: int, count: int) -> "Column":
    """Return a big-endian number in the data; null if there are too few bytes."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    digits = fn.hex(fn.substring("data", byte + 1, count))
    whole = fn.length(digits) == 2 * count
    return fn.when(whole, fn.conv(digits, 16, 10).cast("decimal(20,0)"))


def alarms_of(windows: "DataFrame", kinds: MessageKinds) -> "DataFrame":
    """Return the alarms as rows for the sink: `data` is an `Alarm` as JSON.

    Args:
        windows: the frame of `windows_of`.
        kinds: the normal properties of each kind.
    """

    def check_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [to_window(row) for batch in batches for row in batch.to_pylist()]
        alarms = [alarm for window in sorted(found) for alarm in check_window(window, kinds)]
        data = [msgspec.json.encode(alarm) for alarm in alarms]
        yield pa.RecordBatch.from_arrays([pa.array(data, pa.binary())], ["data"])

    # Few windows end at a time, so their reports can be sorted together.
    return windows.repartition(1).mapInArrow(check_all, "data binary")


def to_window(row: dict[str, Any]) -> Window:
    """Return the window of a row of `windows_of`, as Arrow passes it."""
    start, end = row["start"], row["end"]
    assert isinstance(start, datetime)
    return Window(start, end, row["covered_s"], [Flow(**flow) for flow in row["flows"]])


LOOK_S: Final = 1

Show = Callable[[Window], None]


@attrs.frozen(kw_only=True)
class Alarms:
    """The destination of alarms.

    Attributes:
        group: group to which they are multicast, AGREED.
        address: address of the daemon; None for the default one.
    """

    group: str
    address: str | None = None


@attrs.frozen(kw_only=True)
class Pace:
    """The intervals at which a query looks for new rows.

    Attributes:
        every_s: the seconds between two looks.
        available_now: whether to read the present rows only, and end.
    """

    every_s: float = 1.0
    available_now: bool = False


def start_queries(
    spark: "SparkSession",
    log: Path,
    kinds: MessageKinds,
    checkpoint: Path,
    show: Show,
    *,
    alarms: Alarms | None = None,
    pace: Pace | None = None,
) -> list["StreamingQuery"]:
    """Start the queries; with the same checkpoint they continue where they were.

    Args:
        spark: session of Spark.
        log: the folder of the log, which may be written meanwhile.
        kinds: the kinds to count, with their normal properties.
        checkpoint: a folder of the queries' own, which executors can reach, too.
        show: is called with each window that is over.
        alarms: destination of alarms; None for none.
        pace: see `Pace`.
    """
    pace = pace or Pace()

    def show_all(batch: "DataFrame", _: int) -> None:
        for window in sorted(map(to_window, batch.toArrow().to_pylist())):
            show(window)

    windows = windows_of(_rows(spark, log), kinds)
    writers = [("windows", windows.writeStream.foreachBatch(show_all))]
    if alarms is not None:
        to_group = alarms_of(windows_of(_rows(spark, log), kinds), kinds).writeStream
        to_group = to_group.format("groupcomm").option("group", alarms.group)
        if alarms.address is not None:
            to_group = to_group.option("address", alarms.address)
        writers.append(("alarms", to_group))
    return [
        _paced(writer, pace)
        .queryName(name)
        .option("checkpointLocation", str(checkpoint / name))
        .start()
        for name, writer in writers
    ]


def _rows(spark: "SparkSession", log: Path) -> "DataFrame":
    reader = spark.readStream.format("groupcomm").option("columns", ",".join(COLUMNS))
    return reader.option("kinds", "message").load(str(log))


def _paced(writer: "DataStreamWriter", pace: Pace) -> "DataStreamWriter":
    if pace.available_now:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{pace.every_s * 1000:.0f} milliseconds")


def await_queries(
    queries: list["StreamingQuery"], duration_s: float | None, tell_dropped: Callable[[int], None]
) -> None:
    """Wait until all queries have ended, or until the time is over; then stop them.

    Args:
        queries: result of `start_queries`.
        duration_s: maximum time; None for no limit.
        tell_dropped: is called with the number of further messages that came too late for their
            window.

    Raises:
        StreamingQueryException: one has failed.
    """
    until = None if duration_s is None else time.monotonic() + duration_s
    dropped = _Dropped(tell_dropped)
    try:
        while any(query.isActive for query in queries):
            for query in queries:  # raises the error that has ended the query
                query.awaitTermination(LOOK_S)
            dropped.count(queries[0])
            if until is not None and time.monotonic() > until:
                return
        for query in queries:
            query.awaitTermination(LOOK_S)
    finally:
        for query in queries:
            query.stop()


class _Dropped:
    """A counter of dropped messages, once for each batch."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._seen = -1

    def count(self, query: "StreamingQuery") -> None:
        for progress in query.recentProgress:
            if progress.batchId <= self._seen:
                continue
            self._seen = progress.batchId
            count = sum(each.numRowsDroppedByWatermark for each in progress.stateOperators)
            if count:
                self._tell(count)
