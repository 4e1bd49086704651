"""The two readers that Spark uses: for a log as it is, and for a log as it grows.

The offset of a stream is that of the first row that it has not read, such as
``{"epoch": 2863311530, "row": 4711}``. Spark keeps it in the query's checkpoint as text.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from groupcomm.errors import ConfigError
from groupcomm_log.errors import LogRemoved
from groupcomm_log.schema import Offset
from groupcomm_spark.reading.options import LATEST, Place, ReadOptions
from groupcomm_spark.reading.planning import Planner, Task
from groupcomm_spark.reading.rows import read_parts

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """A reader that plans on the driver, and reads on the workers.

    It takes no filters (`pushFilters`): Spark 4.3 keeps those of one query of a frame for later
    queries of the same frame that have none, which would then lack rows.

    Args:
        options: the rows to read.
        columns: the names of columns, in this order.
    """

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)

    def partitions(self) -> list[InputPartition]:
        """Return tasks of nearly the same number of rows, each of one log."""
        tasks: list[Task] = []
        for folder in self._options.logs:
            planner = Planner(folder, self._options.first, self._options.stop)
            tasks += planner.tasks(planner.parts(), self._options.rows_per_task)
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Return the rows of a task; for a log without rows Spark passes one whose value is
        None.
        """
        return read_parts(partition.value or (), self._options, self._columns)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that reports new rows to Spark on the driver, and reads them on the workers.

    Args:
        options: the rows to read.
        columns: the names of columns, in this order.
    """

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._target: Offset | None = None
        self._known: Planner | None = None

    @property
    def _planner(self) -> Planner:
        """Return the planner of the log, which lives as long as the query, in one process.

        Raises:
            ConfigError: there are several logs; Spark would show no error of `__init__`.
        """
        if self._known is None:
            options = self._options
            if len(options.logs) > 1:
                told = "a stream reads one log; begin a query for each, and unite them"
                raise ConfigError(f"path: {told}")
            self._known = Planner(options.folder, options.first, options.stop)
        return self._known

    # ---- offsets ----

    def initialOffset(self) -> dict[str, int]:
        """Return the offset at which a query without a checkpoint begins.

        Raises:
            LogError: there is no log.
            LogRemoved, LogReplaced: the requested row was removed, or is of another log.
        """
        start, planner = self._options.start, self._planner
        if start == LATEST:
            return planner.end()._asdict()
        if not isinstance(start, Place):
            return planner.begin()._asdict()
        self._check_kept(Offset(start.epoch or 0, start.row))
        behind = Planner(self._options.folder, start).parts()
        return (behind[0].begin if behind else planner.end())._asdict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of each batch, from the option maxRowsPerBatch."""
        rows = self._options.rows_per_batch
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return the end of the next batch.

        Raises:
            LogRemoved: rows were removed before they were read.
            LogReplaced: the checkpoint belongs to another log, or to rows that this one has lost.
        """
        begin, end = Offset(**start), self._end()
        self._check_same(begin)
        self._check_kept(begin)
        if end <= begin:
            return start
        if isinstance(limit, ReadMaxRows):
            end = self._planner.limited(begin, end, limit.max_rows)
        return end._asdict()

    def reportLatestOffset(self) -> dict[str, int]:
        """Return the end of the log, so that the progress of a query shows its lag."""
        return self._planner.end()._asdict()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the log from now on."""
        self._target = self._planner.end()

    def _end(self) -> Offset:
        return self._planner.end() if self._target is None else self._target

    def _check_same(self, *offsets: Offset) -> None:
        """Check that offsets of the checkpoint are of this log, and of rows that it still has."""
        for offset in offsets:
            self._planner.check(offset, may_lack=not self._options.fail_on_loss)

    def _check_kept(self, begin: Offset) -> None:
        kept = self._planner.begin()
        if self._options.fail_on_loss and begin < kept and begin.row < kept.row:
            raise LogRemoved(
                f"{self._options.folder}: rows {begin.row} to {kept.row - 1} were removed before"
                " they were read; have the recorder keep more, or go on with row"
                f" {kept.row} by the option failOnDataLoss=false"
            )

    # ---- rows ----

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return the tasks of a batch; after a crash those of the last batch come again.

        Raises:
            LogRemoved, LogReplaced: see `latestOffset`.
        """
        begin, stop = Offset(**start), Offset(**end)
        self._check_same(begin, stop)
        self._check_kept(begin)
        parts = self._planner.parts(begin, stop)
        most = self._rows_of_task(sum(part.count for part in parts))
        return [InputPartition(task) for task in self._planner.tasks(parts, most)]

    def _rows_of_task(self, rows: int) -> int:
        """Return about how many rows each task of a batch reads."""
        return self._options.rows_per_task

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Return the rows of a task."""
        return read_parts(partition.value or (), self._options, self._columns)
