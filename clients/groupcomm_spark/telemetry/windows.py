"""From rows of a log to windows, and to alarms: DataFrames in and out, batch or streaming.

A stream gives a window once, when it is over: when the watermark has passed it.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from groupcomm_log.schema import MESSAGE
from groupcomm_spark.telemetry.judge import Flow, Window, judge
from groupcomm_spark.telemetry.kinds import Kinds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS: Final = ("kind", "received", "sender", "number", "type", "data")
"""What is needed of a log."""

_NS_PER_US: Final = 1000
_MICRO: Final = 1_000_000


def windows_of(rows: "DataFrame", kinds: Kinds) -> "DataFrame":
    """One row for each window: start, end, covered_s, and `flows`, an array of structs as `Flow`.

    Args:
        rows: of a log, with COLUMNS.
        kinds: what is counted; messages of other types are left out.
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


def _messages(rows: "DataFrame", kinds: Kinds) -> "DataFrame":
    """Messages of these kinds: name, sender, number, size, made, age_s and late."""
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
        # A message that is too short to tell when it was made, or of another kind, is not judged.
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
    """A number in the data, big-endian; null if there are not so many bytes."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    digits = fn.hex(fn.substring("data", byte + 1, count))
    whole = fn.length(digits) == 2 * count
    return fn.when(whole, fn.conv(digits, 16, 10).cast("decimal(20,0)"))


def alarms_of(windows: "DataFrame", kinds: Kinds) -> "DataFrame":
    """What is alarming, as rows for the sink: `data` is an `Alarm` as JSON.

    Args:
        windows: of `windows_of`.
        kinds: what is normal.
    """

    def judge_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [to_window(row) for batch in batches for row in batch.to_pylist()]
        alarms = [alarm for window in sorted(found) for alarm in judge(window, kinds)]
        data = [msgspec.json.encode(alarm) for alarm in alarms]
        yield pa.RecordBatch.from_arrays([pa.array(data, pa.binary())], ["data"])

    # Few windows end at a time; together they can be told in their order.
    return windows.repartition(1).mapInArrow(judge_all, "data binary")


def to_window(row: dict[str, Any]) -> Window:
    """A row of `windows_of` as Arrow gives it."""
    start, end = row["start"], row["end"]
    assert isinstance(start, datetime)
    return Window(start, end, row["covered_s"], [Flow(**flow) for flow in row["flows"]])
