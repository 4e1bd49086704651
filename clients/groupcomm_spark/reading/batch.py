"""``spark.read.format("groupcomm")``: all rows of a log that are there now."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from groupcomm_spark.reading.options import ReadOptions
from groupcomm_spark.reading.planning import Planner, to_tasks
from groupcomm_spark.reading.rows import read_parts

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Plans on the driver, and reads on the workers.

    Args:
        options: which rows.
        columns: which of their columns, in this order.
    """

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)

    def partitions(self) -> list[InputPartition]:
        """A task for each large file, and for small ones together."""
        options = self._options
        parts = Planner(options.folder, options.first, options.stop).parts()
        return [InputPartition(task) for task in to_tasks(parts, self._options.rows_per_task)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of a task; for a log without rows Spark makes one whose value is None."""
        return read_parts(partition.value or (), self._options, self._columns)
