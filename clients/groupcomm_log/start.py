"""From where a log is read: ``begin``, ``-100``, ``row:N``, ``row:E:N`` or ``@time``."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from groupcomm_log.errors import LogError
from groupcomm_log.reader import BEGIN, LogReader
from groupcomm_log.schema import MESSAGE, Offset

HELP: Final = (
    "begin, -100 (the last 100 messages), row:N, row:EPOCH:N, or @TIME (ISO 8601, in UTC unless it"
    " says otherwise, or seconds since 1970)"
)

_ROW: Final = re.compile(r"row:(?:(\d+):)?(\d+)")


@dataclass(frozen=True)
class Start:
    """A place in a log, as asked for: one of these, or all are None for its begin.

    Attributes:
        messages: so many before the end.
        row: this one, whatever its epoch.
        offset: this one.
        time: the first row received then or later.
    """

    messages: int | None = None
    row: int | None = None
    offset: Offset | None = None
    time: datetime | None = None


def parse_start(text: str) -> Start:
    """What a text asks for.

    Raises:
        LogError: nothing that can be asked for.
    """
    if text == "begin":
        return Start()
    if re.fullmatch(r"-\d+", text):
        return Start(messages=int(text[1:]))
    if match := _ROW.fullmatch(text):
        epoch, row = match.groups()
        return Start(row=int(row)) if epoch is None else Start(offset=Offset(int(epoch), int(row)))
    if text.startswith("@"):
        try:
            return Start(time=_time(text[1:]))
        except (ValueError, OverflowError, OSError):
            pass  # told below
    raise LogError(f"{text}: it must be {HELP}")


def _time(text: str) -> datetime:
    try:
        return datetime.fromtimestamp(float(text), UTC)
    except ValueError:
        time = datetime.fromisoformat(text)
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def find_start(reader: LogReader, start: Start) -> Offset:
    """The first row of what is asked for; the end of the log if there is none.

    Raises:
        LogError, OSError: see `LogReader.batches`.
    """
    if start.offset is not None:
        return start.offset
    if start.row is not None:
        return _first(reader, "row", pa.scalar(start.row, pa.int64()))
    if start.time is not None:
        return _first(reader, "received", pa.scalar(start.time, pa.timestamp("us", tz="UTC")))
    if start.messages is not None:
        return _last_messages(reader, start.messages)
    return BEGIN


def _first(reader: LogReader, column: str, least: pa.Scalar) -> Offset:
    names = list(dict.fromkeys(["epoch", "row", column]))
    for batch in reader.batches(columns=names):
        found = pc.index(pc.greater_equal(batch[column], least), pa.scalar(True)).as_py()
        if found >= 0:
            return _offset(batch, found)
    return reader.end()


def _last_messages(reader: LogReader, count: int) -> Offset:
    """Looks at the files from the end on, until there are enough."""
    if count == 0:
        return reader.end()
    end = None
    for segment in reversed(reader.segments()):
        batches = [*reader.batches(segment.first, end, ["epoch", "row", "kind"])]
        for batch in reversed(batches):
            messages = pc.indices_nonzero(pc.equal(batch["kind"], MESSAGE))
            if len(messages) >= count:
                return _offset(batch, messages[-count].as_py())
            count -= len(messages)
        end = segment.first
    return BEGIN


def _offset(batch: pa.RecordBatch, index: int) -> Offset:
    return Offset(batch["epoch"][index].as_py(), batch["row"][index].as_py())
