"""Delivered messages as Parquet files, in the order in which they were delivered.

A file is there whole or not at all: it is written under a temporary name, synced, then renamed. Its
name has the numbers of its first and last row, so readers choose files without opening them.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from groupcomm.errors import GroupCommError
from groupcomm.events import Message

SCHEMA: Final = pa.schema(
    [
        pa.field("row", pa.int64()),  # from 0, in the order of delivery
        pa.field("received", pa.timestamp("us", tz="UTC")),  # by the recorder's wall clock
        pa.field("view", pa.string()),  # of the daemons; null for UNRELIABLE, as are the next four
        pa.field("stamp", pa.int64()),  # microseconds
        pa.field("ring", pa.int64()),
        pa.field("bundle", pa.int64()),
        pa.field("message", pa.int64()),
        pa.field("groups", pa.list_(pa.string())),
        pa.field("sender", pa.string()),  # private name and number of connection
        pa.field("level", pa.string()),
        pa.field("type", pa.int64()),
        pa.field("data", pa.binary()),
    ]
)
"""docs/recorder.md describes it; columns are only ever added."""

_NAME: Final = re.compile(r"(\d{15})-(\d{15})\.parquet")


class RecordError(GroupCommError):
    """What was delivered cannot be written down; the text says which rows are missing."""


class SegmentWriter:
    """Writes one folder; it must be the only one that does.

    Attributes:
        next_row: the number of the next row.
    """

    def __init__(self, folder: Path) -> None:
        """Go on behind what the folder holds already.

        Raises:
            OSError: the folder cannot be made or read.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        for left_over in folder.glob(".*.parquet.new"):
            left_over.unlink()
        self.next_row = max((last for _, last in segments(folder)), default=-1) + 1

    def write(self, received_us: Sequence[int], messages: Sequence[Message]) -> Path:
        """Write one file, and return once it is on disk; it blocks.

        Args:
            received_us: per message, microseconds since 1970.
            messages: at least one.

        Raises:
            RecordError: they are not on disk.
        """
        first, last = self.next_row, self.next_row + len(messages) - 1
        table = _table(range(first, last + 1), received_us, messages)
        path = self._folder / f"{first:015d}-{last:015d}.parquet"
        temporary = self._folder / f".{path.name}.new"
        try:
            with temporary.open("wb") as file:
                pq.write_table(table, file, compression="zstd", write_page_checksum=True)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(path)
            _sync_folder(self._folder)
        except OSError as error:
            raise RecordError(
                f"{len(messages)} messages from row {first} on are not on disk: {error}"
            ) from None
        self.next_row = last + 1
        return path


def segments(folder: Path) -> list[tuple[int, int]]:
    """First and last row of each whole file of a folder, in order."""
    found = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return sorted((int(match[1]), int(match[2])) for match in found if match)


def _table(rows: Iterable[int], received_us: Sequence[int], messages: Sequence[Message]) -> Any:
    places = [message.position or (None,) * 5 for message in messages]
    views, stamps, rings, bundles, indices = zip(*places, strict=True)
    columns = [
        list(rows),
        list(received_us),
        [None if view is None else str(view) for view in views],
        stamps,
        rings,
        bundles,
        indices,
        [message.groups for message in messages],
        [str(message.sender) for message in messages],
        [message.level.name for message in messages],
        [message.type for message in messages],
        [message.data for message in messages],
    ]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
