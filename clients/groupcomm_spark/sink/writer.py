"""The writer of the sink: `write` runs on executors, `commit` beside the driver.

Spark makes a new writer for each batch, and another one for each commit, which sends the batch
until all daemons of the view have it.
"""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import trio
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from groupcomm.errors import CannotConnect, ConfigError, GroupCommError, SessionEnded
from groupcomm.events import Ordered
from groupcomm.level import ServiceLevel
from groupcomm_client import ConnectOptions, connect
from groupcomm_client.committed.markers import (
    TYPE,
    Begin,
    End,
    Marker,
    encode_marker,
    publisher_user,
)
from groupcomm_client.connection import Connection
from groupcomm_client.reconnecting import FOR_GOOD
from groupcomm_spark.sink.options import SinkOptions, check_columns, parse_options, to_staged
from groupcomm_spark.sink.staging import Manifest, Part, Staging

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


ATTEMPTS: Final = 3
"""Attempts to send a batch while the driver lives; a restarted query makes as many again."""

AGAIN_S: Final = 0.2
"""Seconds after a failure to connect until the next attempt."""

Rows = Callable[[], Iterator[pa.RecordBatch]]


class SinkError(GroupCommError):
    """A batch could not be sent."""


async def publish(manifest: Manifest, rows: Rows, options: SinkOptions) -> None:
    """Multicast a batch between its markers; on return all daemons of the view have it.

    Args:
        manifest: manifest of the batch, which has rows.
        rows: returns the rows, from the first one each time.
        options: options of the query.

    Raises:
        SinkError: the daemon does not answer, or accepts nothing for `timeout_s`, or the session
            has ended again and again.
        StagingDamaged: the rows cannot be read.
    """
    why = ""
    for _ in range(ATTEMPTS):
        async with _connected(manifest, options) as connection:
            try:
                if await _send(connection, manifest, rows(), options):
                    return
                why = "the view of daemons ended before all of them had it"
            except SessionEnded as error:
                why = str(error)
            except trio.TooSlowError:
                raise SinkError(
                    _text(manifest, f"the daemon has accepted nothing for {options.timeout_s:g} s")
                ) from None
    raise SinkError(_text(manifest, f"after {ATTEMPTS} attempts: {why}"))


def _text(manifest: Manifest, why: str) -> str:
    return f"batch {manifest.batch} was not published: {why}"


@asynccontextmanager
async def _connected(manifest: Manifest, options: SinkOptions) -> AsyncIterator[Connection]:
    """Yield a session; wait up to `timeout_s` for a daemon that does not answer."""
    end = trio.current_time() + options.timeout_s
    while True:
        left_s = max(AGAIN_S, end - trio.current_time())
        try:
            async with connect(
                options.address, user=publisher_user(), options=ConnectOptions(timeout_s=left_s)
            ) as connection:
                yield connection
                return
        except (CannotConnect, SessionEnded) as error:
            if error.code in FOR_GOOD or trio.current_time() + AGAIN_S > end:
                raise SinkError(_text(manifest, str(error))) from None
        await trio.sleep(AGAIN_S)


async def _send(
    connection: Connection, manifest: Manifest, rows: Iterator[pa.RecordBatch], options: SinkOptions
) -> bool:
    """Send the batch; return whether all daemons of the view have it.

    They have it if begin and end have their places in the regular part of one view. In a view that
    began in between are daemons that lack what was sent before.
    """
    groups = manifest.groups
    begin = await _mark(connection, manifest, Begin(manifest.query, manifest.batch), options)
    for batch in rows:
        columns = [batch[name].to_pylist() for name in batch.schema.names]
        for (names, type_), run in groupby(zip(*columns, strict=True), key=_destination):
            with trio.fail_after(options.timeout_s):
                await connection.multicast_many(
                    names, [data for *_, data in run], level=options.level, type=type_
                )
    last = End(manifest.query, manifest.batch, groups, manifest.after)
    end = await _mark(connection, manifest, last, options, ServiceLevel.SAFE)
    return not end.transitional and end.position.view == begin.position.view


def _destination(row: tuple[Any, ...]) -> tuple[list[str], int]:
    return row[0], row[1]


async def _mark(
    connection: Connection,
    manifest: Manifest,
    marker: Marker,
    options: SinkOptions,
    level: ServiceLevel = ServiceLevel.AGREED,
) -> Ordered:
    """Send a marker; return its place."""
    with trio.fail_after(options.timeout_s):
        return await connection.multicast_ordered(
            tuple(manifest.groups), encode_marker(marker), level=level, type=TYPE
        )


QUERY: Final = "sql.streaming.queryId"
BATCH: Final = "streaming.sql.batchId"
"""Properties of a task of a streaming query that Spark sets, though its documentation omits
them.
"""


@dataclass(frozen=True)
class StagedPart(WriterCommitMessage):
    """The result of a task.

    Attributes:
        query: identity of the query, which is kept in its checkpoint.
        part: the staged rows.
    """

    query: str
    part: Part


class GroupCommStreamWriter(DataSourceStreamArrowWriter):
    """A writer that stages batches, and publishes them when they are committed.

    Args:
        options: options of the query.
    """

    def __init__(self, options: SinkOptions) -> None:
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
        return _stage(iterator, self._options, query, int(batch))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Publish a batch, unless it is noted as published."""
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
        try:
            trio.run(publish, manifest, partial(staging.rows, manifest), self._options)
        except SinkError as error:
            again = "it stays staged, and is sent when the query is started again"
            raise SinkError(f"{error}; {again}") from None
        staging.note(manifest)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Keep the staged batch: the query publishes it when it is started again."""


def _stage(
    rows: Iterator[pa.RecordBatch], options: SinkOptions, query: str, batch: int
) -> StagedPart:
    context = TaskContext.get()
    assert context is not None, "Spark calls this in a task"
    staged = (to_staged(each, options) for each in rows if each.num_rows)
    part = Staging(options.staging, query).write(batch, context.partitionId(), staged)
    return StagedPart(query, part)


class GroupCommBatchWriter(DataSourceArrowWriter):
    """A writer of a frame: the only batch of a query of its own.

    Args:
        options: options of the query.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._query = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage a partition."""
        return _stage(iterator, self._options, self._query, 0)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the rows."""
        parts = [each.part for each in messages if isinstance(each, StagedPart)]
        staging = Staging(self._options.staging, self._query)
        if any(part.rows for part in parts):
            manifest = staging.decide(0, parts)
            try:
                trio.run(publish, manifest, partial(staging.rows, manifest), self._options)
            except SinkError as error:
                raise SinkError(f"{error}; write the frame again, as a new query") from None
        staging.discard()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged."""
        Staging(self._options.staging, self._query).discard()


def open_batch_writer(
    options: Mapping[str, str], schema: "StructType", *, overwrite: bool
) -> GroupCommBatchWriter:
    """Return a writer for a frame; see `open_writer`."""
    if overwrite:
        raise ConfigError('mode("overwrite") would have to take sent messages back; use append')
    parsed = parse_options(options)
    check_columns(schema, parsed)
    return GroupCommBatchWriter(parsed)


def open_writer(
    options: Mapping[str, str], schema: "StructType", *, overwrite: bool
) -> GroupCommStreamWriter:
    """Return a writer for a query.

    Raises:
        ConfigError: an option or a column is wrong.
    """
    if overwrite:
        raise ConfigError(
            'outputMode("complete") would have to take sent messages back; use append or update'
        )
    parsed = parse_options(options)
    check_columns(schema, parsed)
    return GroupCommStreamWriter(parsed)
