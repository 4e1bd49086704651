"""A log as a frame that grows, the fast way: a source names what is to be read, tasks read it.

Spark copies each row of a source in Python twice, and each row that a function of `mapInArrow`
returns once. So the source here yields one small row for each task, with the parts of files that
the task reads, and such a function reads them, in the same task. Offsets, limits and the detection
of lost rows are those of the format `groupcomm`.
"""

import pickle
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType

from groupcomm_spark.reading.options import ReadOptions, parse_options, spark_schema
from groupcomm_spark.reading.readers import StreamReader
from groupcomm_spark.reading.rows import read_parts
from groupcomm_spark.source import GroupCommDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASK: Final = "task"

_CORES: Final = "cores"
"""An option between `read_stream` and the source: how many tasks run at a time."""

MOST_ROWS: Final = 2_000_000
"""The most rows of a task whose size nobody chose: a failed task is repeated as a whole."""


def read_stream(
    spark: "SparkSession", path: str | Path, **options: str | int | bool
) -> "DataFrame":
    """Return the rows that a log has and gets, with a column `log` in front.

    Rows, offsets and errors are those of ``spark.readStream.format("groupcomm")``, and it continues
    such checkpoints. Only the progress of a query counts tasks as input rows.

    Args:
        spark: session of Spark.
        path: folder of the log.
        options: those of the format for streams: ``maxRowsPerBatch=500_000``.

    Raises:
        ConfigError: an option is unknown or wrong.
    """
    texts = {name: _text(value) for name, value in options.items()}
    asked = parse_options({**texts, "path": str(path)})
    if not any(name.lower() == "rowspertask" for name in texts):
        texts[_CORES] = str(spark.sparkContext.defaultParallelism)
    spark.dataSource.register(TaskSource)
    tasks = spark.readStream.format(TaskSource.name()).options(**texts).load(str(asked.folder))
    read = partial(read_tasks, options=asked, columns=asked.columns)
    return tasks.mapInArrow(read, spark_schema(asked.columns))


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class TaskSource(GroupCommDataSource):
    """The format "groupcomm", with what each task has to read in place of the rows."""

    @classmethod
    def name(cls) -> str:
        """Return the name under which `read_stream` registers it."""
        return "groupcomm-tasks"

    def schema(self) -> StructType:
        """Return the only column."""
        return StructType([StructField(_TASK, BinaryType())])

    def streamReader(self, schema: StructType) -> StreamReader:
        """Return the reader of ``spark.readStream``.

        Raises:
            ConfigError: an option is wrong.
        """
        given = {name.lower(): text for name, text in self.options.items()}
        cores = given.pop(_CORES, None)
        options = parse_options(given)
        return TaskReader(options, options.columns, None if cores is None else int(cores))


class TaskReader(StreamReader):
    """A reader of a stream that leaves the rows to others.

    Each task costs 0.1 s of processors, so there are no more of them than run at a time, unless
    they would be too large.

    Args:
        options: the rows to read.
        columns: the names of columns, in this order.
        cores: how many tasks run at a time; None if the options say how large they are.
    """

    def __init__(
        self, options: ReadOptions, columns: Sequence[str], cores: int | None = None
    ) -> None:
        super().__init__(options, columns)
        self._cores = cores

    def _rows_of_task(self, rows: int) -> int:
        least = super()._rows_of_task(rows)
        return least if self._cores is None else max(least, min(MOST_ROWS, -(-rows // self._cores)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the task itself."""
        task = pa.array([pickle.dumps(partition.value)] if partition.value else [], pa.binary())
        yield pa.RecordBatch.from_arrays([task], names=[_TASK])


def read_tasks(
    batches: Iterator[pa.RecordBatch], *, options: ReadOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of tasks, in a task of Spark; see `read_parts` for errors."""
    for batch in batches:
        for task in batch[_TASK].to_pylist():
            # It comes from `TaskReader`, as Spark's own tasks do, by the same way.
            yield from read_parts(pickle.loads(task), options, columns)
