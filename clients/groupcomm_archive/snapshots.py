"""The snapshot of a log: what stays of a part of its line, beside the rows.

The file ``_snapshot.parquet`` has the columns of a log, and two places: it stands for all events of
the line behind the first one, up to the second. It is replaced as a whole. It blocks.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from groupcomm.clocks.stamp import Position, format_position, parse_position
from groupcomm.events import Message
from groupcomm.level import LEVELS
from groupcomm_archive.archive import ReadStore
from groupcomm_archive.columns import EventBatch, to_rows
from groupcomm_archive.pieces import PieceReader
from groupcomm_archive.rows import READ, MessageRun, Part, parts_of, place_of_part
from groupcomm_client.history.frames import EncodedPiece
from groupcomm_client.history.places import Line
from groupcomm_log.disk import Disk
from groupcomm_log.errors import LogError, LogRemoved
from groupcomm_log.names import UNFINISHED
from groupcomm_log.schema import SCHEMA

SNAPSHOT: Final = "_snapshot.parquet"

_FIRST, _HORIZON = b"groupcomm-first", b"groupcomm-horizon"


@attrs.frozen
class Snapshot:
    """What stays of the events of the line behind one place, up to another."""

    first: Position
    horizon: Position
    rows: pa.Table


class SnapshotFile:
    """The snapshot of one log."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        """Begin with the folder of a log.

        Args:
            folder: the folder.
            disk: see `Disk`.
        """
        self._path = folder / SNAPSHOT
        self._disk = disk or Disk()
        self._pieces = PieceReader(self)
        self._snapshot: Snapshot | None = None

    @property
    def size(self) -> int:
        """Return the number of bytes of the file; 0 without one."""
        return self._path.stat().st_size if self._path.exists() else 0

    def load(self) -> Snapshot | None:
        """Return the snapshot; None if there is none.

        Raises:
            LogError: the file is damaged.
            OSError: it cannot be read.
        """
        if self._snapshot is None and self._path.exists():
            try:
                file = pq.ParquetFile(self._path, page_checksum_verification=True)
                rows = file.read()
                about: dict[bytes, bytes] = file.metadata.metadata
                first, horizon = (parse_position(about[key].decode()) for key in (_FIRST, _HORIZON))
            except (pa.ArrowException, KeyError, ValueError) as error:
                raise LogError(
                    f"{self._path} is damaged: {error}. Remove it: then this archive has no"
                    " compacted part, and gets that of another one if its log is removed, too"
                ) from None
            self._snapshot = Snapshot(first, horizon, rows)
        return self._snapshot

    def store(self, first: Position, horizon: Position, events: Sequence[Line], at_us: int) -> None:
        """Replace the snapshot; it is on disk then.

        Args:
            first, horizon: the part of the line for which it stands.
            events: what stays of that part, in order.
            at_us: the time that its rows have, in microseconds since 1970.

        Raises:
            OSError: it is not; the old one is as before.
        """
        rows = to_rows([EventBatch(at_us, list(events))])
        count = rows.num_rows
        numbers = [pa.array([0] * count, pa.int64()), pa.array(range(count), pa.int64())]
        places = {_FIRST: format_position(first), _HORIZON: format_position(horizon)}
        schema = SCHEMA.with_metadata({key: text.encode() for key, text in places.items()})
        table = pa.Table.from_arrays([*numbers, *rows.columns], schema=schema)
        temporary = self._path.with_name(f".{SNAPSHOT}{UNFINISHED}")
        with (
            self._disk.synced_file(temporary) as file,
            pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer,
        ):
            writer.add_key_value_metadata({key.decode(): text for key, text in places.items()})
            writer.write_table(table)
        self._disk.rename(temporary, self._path)
        self._snapshot = Snapshot(first, horizon, table)

    # ---- reading ----

    def read(self, action: ReadStore) -> EncodedPiece:
        """Return the next piece of a stream; see `PieceReader.read`.

        Raises:
            LogRemoved: the snapshot was replaced meanwhile.
        """
        snapshot = self.load()
        if snapshot is None or snapshot.horizon != action.upto:
            raise LogRemoved(f"{self._path}: it was replaced meanwhile")
        return self._pieces.read(action)

    def parts(self, after: Position, groups: Collection[str]) -> Iterator[Part]:
        """Yield the events of groups behind a place, in parts that are not too large."""
        snapshot = self.load()
        if snapshot is None:
            return
        for batch in snapshot.rows.select(list(READ)).to_batches(max_chunksize=10_000):
            for part in parts_of(batch, groups):
                place = place_of_part(part)
                if place is not None and place > after:
                    yield part
                elif isinstance(part, MessageRun) and part.last > after:
                    yield part.behind(after)

    def first_since(self, since_us: int, after: Position, upto: Position) -> Position:
        """Return where to begin for a time: a snapshot has none, so at its beginning."""
        return after

    def check_kept(self, after: Position) -> None:
        """Do nothing: a snapshot is replaced as a whole."""


def events_of(parts: Iterable[Part]) -> Iterator[Line]:
    """Yield the events of parts, one by one."""
    for part in parts:
        if not isinstance(part, MessageRun):
            yield part
            continue
        bundle, first = part.place._replace(message=0), part.place.message
        level = LEVELS[part.level]
        for count, (kind, data) in enumerate(zip(part.types, part.data, strict=True)):
            number, index = part.number + count, first + count
            yield Message(part.sender, number, part.groups, level, kind, data, bundle, index)
