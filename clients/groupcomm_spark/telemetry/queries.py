"""The streaming queries of telemetry: windows to whoever looks on, alarms into a group."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from groupcomm_spark.telemetry.judge import Window
from groupcomm_spark.telemetry.kinds import Kinds
from groupcomm_spark.telemetry.windows import COLUMNS, alarms_of, to_window, windows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

LOOK_S: Final = 1

Show = Callable[[Window], None]


@attrs.frozen(kw_only=True)
class Alarms:
    """Where alarms go.

    Attributes:
        group: that they are multicast to, AGREED.
        address: of the daemon; None for the default one.
    """

    group: str
    address: str | None = None


@attrs.frozen(kw_only=True)
class Pace:
    """When a query looks for new rows.

    Attributes:
        every_s: seconds between two looks.
        available_now: it takes what is there, and ends.
    """

    every_s: float = 1.0
    available_now: bool = False


def start_queries(
    spark: "SparkSession",
    log: Path,
    kinds: Kinds,
    checkpoint: Path,
    show: Show,
    *,
    alarms: Alarms | None = None,
    pace: Pace | None = None,
) -> list["StreamingQuery"]:
    """Start them; with the same checkpoint they go on where they were.

    Args:
        spark: the session.
        log: that is read, while it is written.
        kinds: what is counted, and what is normal.
        checkpoint: a folder of their own, which executors reach, too.
        show: is given each window that is over.
        alarms: where alarms go; None: nowhere.
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
    """Wait until all have ended, or until the time is over; then they are stopped.

    Args:
        queries: of `start_queries`.
        duration_s: at most so long; None: for ever.
        tell_dropped: is told how many messages more came too late for their window.

    Raises:
        StreamingQueryException: one has failed.
    """
    until = None if duration_s is None else time.monotonic() + duration_s
    dropped = _Dropped(tell_dropped)
    try:
        while any(query.isActive for query in queries):
            for query in queries:  # it raises what has ended it
                query.awaitTermination(LOOK_S)
            dropped.look(queries[0])
            if until is not None and time.monotonic() > until:
                return
        for query in queries:
            query.awaitTermination(LOOK_S)
    finally:
        for query in queries:
            query.stop()


class _Dropped:
    """Counts what is dropped, once for each batch."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._seen = -1

    def look(self, query: "StreamingQuery") -> None:
        for progress in query.recentProgress:
            if progress.batchId <= self._seen:
                continue
            self._seen = progress.batchId
            count = sum(each.numRowsDroppedByWatermark for each in progress.stateOperators)
            if count:
                self._tell(count)
