"""The writer that Spark is given: `write` runs on executors, `commit` beside the driver.

Spark makes a new one for each batch, and another one for each commit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import trio
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from groupcomm.errors import ConfigError
from groupcomm_spark.sink.columns import check_columns, to_staged
from groupcomm_spark.sink.options import Options, parse_options
from groupcomm_spark.sink.publishing import publish
from groupcomm_spark.sink.staging import Part, Staging

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

QUERY: Final = "sql.streaming.queryId"
BATCH: Final = "streaming.sql.batchId"
"""What Spark tells each task of a streaming query, though its documentation does not say so."""


@dataclass(frozen=True)
class StagedPart(WriterCommitMessage):
    """What a task has written.

    Attributes:
        query: the identity of the query, which is kept in its checkpoint.
        part: the file.
    """

    query: str
    part: Part


class GroupCommStreamWriter(DataSourceStreamArrowWriter):
    """Stages batches, and publishes them when they are committed.

    Args:
        options: of the query.
    """

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage a partition."""
        context = TaskContext.get()
        assert context is not None, "Spark calls this in a task"
        query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
        if query is None or batch is None:
            raise ConfigError(
                "this version of Spark does not tell tasks their query and batch; see"
                " groupcomm spark doctor for versions that do"
            )
        rows = (to_staged(each, self._options) for each in iterator if each.num_rows)
        staging = Staging(self._options.staging, query)
        return StagedPart(query, staging.write(int(batch), context.partitionId(), rows))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Publish a batch, unless that is noted to be done."""
        staged = [each for each in messages if isinstance(each, StagedPart)]
        if not staged:
            return  # the batch has no partitions
        parts = [each.part for each in staged]
        staging = Staging(self._options.staging, staged[0].query)
        if batchId <= staging.published().batch:
            staging.remove(parts)
            return
        if not staging.is_decided(batchId) and not any(part.rows for part in parts):
            return
        manifest = staging.decide(batchId, parts)
        trio.run(publish, manifest, partial(staging.rows, manifest), self._options)
        staging.note(manifest)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Keep what is staged: the query publishes it when it is started again."""


def open_writer(
    options: Mapping[str, str], schema: "StructType", *, overwrite: bool
) -> GroupCommStreamWriter:
    """A writer for a query.

    Raises:
        ConfigError: an option or a column is wrong.
    """
    if overwrite:
        raise ConfigError(
            'outputMode("complete") would have to take back what was sent; use append or update'
        )
    parsed = parse_options(options)
    check_columns(schema, parsed)
    return GroupCommStreamWriter(parsed)
