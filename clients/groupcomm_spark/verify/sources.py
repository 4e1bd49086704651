"""The rows of logs for functions of Python that run in tasks of Spark.

Tasks read the files of folders themselves: names come as codes, payloads do not pass through
Java, and nothing has to be compiled before the first row. Rows that only Java reaches, those of
stores and of any frame, come through Spark. The functions cannot tell the difference.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from groupcomm_log.schema import KINDS, MESSAGE
from groupcomm_spark.logs import find_all, read
from groupcomm_spark.reading.options import LOG, ReadOptions
from groupcomm_spark.reading.planning import Part, Planner
from groupcomm_spark.reading.rows import read_coded, read_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS: Final = tuple(kind for kind in KINDS if kind != MESSAGE)
"""The kinds of rows that are not messages."""

Batches = Iterable[tuple[str, pa.RecordBatch]]
"""Rows of one log each, with its name; names in them may be dictionaries and codes."""

Work = Callable[[Batches], Iterator[pa.RecordBatch]]
"""A function that runs in tasks. It returns few rows, all of one schema."""

Ranges = Mapping[str, Sequence[tuple[int, int]]]
"""For each log, first rows and the rows after the last ones."""

_SHARE: Final = 250_000
"""Rows of a task."""


class Source(Protocol):
    """Logs whose rows can be read in tasks."""

    @property
    def frame(self) -> "DataFrame":
        """Return all rows, for questions about few of them; see `groupcomm_spark.read`."""

    def rows(
        self, columns: Sequence[str], work: Work, schema: pa.Schema, ranges: Ranges | None = None
    ) -> pa.Table:
        """Return the result of a function for all rows; each row is in one task.

        Args:
            columns: columns of a log, in this order.
            work: the function.
            schema: the schema of its result.
            ranges: the only rows that are needed; others may come, too.
        """

    def events(self, columns: Sequence[str], work: Work, schema: pa.Schema) -> pa.Table:
        """Return the result for all rows that are not messages; a task has all those of a log, in
        the order of their numbers.
        """


def source_of(logs: "DataFrame | Source") -> Source:
    """Return the source of a frame."""
    from pyspark.sql import DataFrame  # noqa: PLC0415 - an extra

    return Frame(logs) if isinstance(logs, DataFrame) else logs


@dataclass(frozen=True)
class Frame:
    """The logs in a frame, whose rows may come in any order."""

    frame: "DataFrame"

    def rows(
        self, columns: Sequence[str], work: Work, schema: pa.Schema, ranges: Ranges | None = None
    ) -> pa.Table:
        """Return the result for all rows; see `Source`."""
        from pyspark.sql.functions import col  # noqa: PLC0415 - an extra

        rows = self.frame
        if ranges is not None:
            spans = [span for of_log in ranges.values() for span in of_log]
            first, stop = min(first for first, _ in spans), max(stop for _, stop in spans)
            rows = rows.filter((col("row") >= first) & (col("row") < stop))
        return _run(rows.select(LOG, *columns), partial(_of_frame, work=work), schema)

    def events(self, columns: Sequence[str], work: Work, schema: pa.Schema) -> pa.Table:
        """Return the result for events, which Spark exchanges and sorts; see `Source`."""
        from pyspark.sql.functions import col  # noqa: PLC0415 - an extra

        rows = self.frame.filter(col("kind") != MESSAGE).select(LOG, *columns)
        ordered = rows.repartition(LOG).sortWithinPartitions(LOG, "row")
        return _run(ordered, partial(_of_frame, work=work), schema)


def _of_frame(batches: Iterable[pa.RecordBatch], *, work: Work) -> Iterator[pa.RecordBatch]:
    return work(part for batch in batches for part in _by_log(batch))


def _by_log(batch: pa.RecordBatch) -> Batches:
    names = batch[LOG].dictionary_encode()
    rows = batch.drop_columns([LOG])
    for code, name in enumerate(names.dictionary.to_pylist()):
        is_only = len(names.dictionary) == 1
        yield name, rows if is_only else rows.filter(pc.equal(names.indices, code))


class Folders:
    """Logs in folders, which all workers see at the same paths.

    Args:
        spark: session of Spark.
        folders: the folders, by the names of the logs.
        without: sealed files to leave out. All others were checked.
    """

    def __init__(
        self, spark: "SparkSession", folders: Mapping[str, Path], without: Collection[Path]
    ) -> None:
        self._spark = spark
        self._without = frozenset(without)
        names = {folder: log for log, folder in folders.items()}
        self._options = ReadOptions(names, (), is_checked=True, skip_damage=True)
        self._planners = {log: Planner(folder) for log, folder in folders.items()}
        self._parts = {
            log: [part for part in planner.parts() if not self._is_hidden(part)]
            for log, planner in self._planners.items()
        }

    def _is_hidden(self, part: Part) -> bool:
        return not part.segment.is_live and part.segment.path in self._without

    @cached_property
    def frame(self) -> "DataFrame":
        """Return all rows; see `Source`."""
        folders = self._options.logs
        return read(self._spark, *folders, skip_damage=True, without=self._without)

    def rows(
        self, columns: Sequence[str], work: Work, schema: pa.Schema, ranges: Ranges | None = None
    ) -> pa.Table:
        """Return the result for all rows; see `Source`."""
        tasks = [
            (log, task)
            for log, parts in self._parts.items()
            for task in self._planners[log].tasks(_within(parts, log, ranges), _SHARE)
        ]
        return self._run(tasks, partial(_coded, self._options, columns), work, schema)

    def events(self, columns: Sequence[str], work: Work, schema: pa.Schema) -> pa.Table:
        """Return the result for events: only parts of files that have some are read."""
        tasks = [(log, tuple(parts)) for log, parts in self._parts.items()]
        return self._run(tasks, partial(_events, self._options, columns), work, schema)

    def _run(
        self, tasks: "Sequence[_Task]", read: "_Read", work: Work, schema: pa.Schema
    ) -> pa.Table:
        run = partial(_of_tasks, read=read, work=work, schema=schema)
        return pa.concat_tables([schema.empty_table(), *in_tasks(self._spark, tasks, run)])


_Task = tuple[str, tuple[Part, ...]]
_Read = Callable[[_Task], Batches]


def _within(parts: list[Part], log: str, ranges: Ranges | None) -> list[Part]:
    if ranges is None:
        return parts
    cut = [part.within(*span) for part in parts for span in ranges.get(log, ())]
    return [part for part in cut if part.count > 0]


def _of_tasks(
    tasks: Iterable[_Task], *, read: _Read, work: Work, schema: pa.Schema
) -> Iterator[pa.Table]:
    parts = (part for task in tasks for part in read(task))
    yield pa.Table.from_batches(work(parts), schema).combine_chunks()


def _coded(options: ReadOptions, columns: Sequence[str], task: _Task) -> Batches:
    log, parts = task
    return ((log, batch) for part in parts for batch in read_coded(part, options, columns))


def _events(options: ReadOptions, columns: Sequence[str], task: _Task) -> Batches:
    log, parts = task
    wanted = replace(options, kinds=EVENTS)
    return ((log, batch) for batch in read_parts(parts, wanted, columns))


_In = TypeVar("_In")
_Out = TypeVar("_Out")


def in_tasks(
    spark: "SparkSession", items: Sequence[_In], function: Callable[[Iterable[_In]], Iterable[_Out]]
) -> list[_Out]:
    """Return the results of a function, which gets each item in a task of its own.

    Objects of Python go to the tasks and come from them; Java plans and compiles nothing.
    """
    if not items:
        return []
    return spark.sparkContext.parallelize(items, len(items)).mapPartitions(function).collect()


def open_source(
    spark: "SparkSession", paths: Sequence[str | Path], without: Collection[Path | str] = ()
) -> Source:
    """Return the source of logs that were checked; see `groupcomm_spark.read` for paths and errors.

    Args:
        spark: session of Spark.
        paths: folders, patterns and URLs.
        without: sealed files to leave out, by path or URL.
    """
    places = find_all(spark, *paths)
    folders = {log: place for log, place in places.items() if isinstance(place, Path)}
    if len(folders) == len(places):
        return Folders(spark, folders, [path for path in without if isinstance(path, Path)])
    return Frame(read(spark, *paths, skip_damage=True, without=without))


def _run(
    frame: "DataFrame",
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> pa.Table:
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - an extra

    return frame.mapInArrow(function, from_arrow_schema(schema)).toArrow()
