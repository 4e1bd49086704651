"""The files of a log: their names say which rows are in them, so that no file has to be opened.

::

    000001-000000000000000-000000000099999-9f86d081.parquet   epoch, first and last row, CRC-32
    _live-000001-000000000100000.arrows                       epoch, first row
    _log.json                                                 the manifest: format and epochs
    _lock                                                     held by the recorder
    _damaged-...                                              kept for people who want to look at it

Readers of whole folders pass over names with ``_`` or ``.`` in front.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groupcomm_log.errors import LogError
from groupcomm_log.manifest import MANIFEST, check_format
from groupcomm_log.schema import Offset

LOCK: Final = "_lock"
DAMAGED: Final = "_damaged-"
UNFINISHED: Final = ".new"
"""The end of the names of unfinished files."""

_SEALED: Final = re.compile(r"(\d{6,})-(\d{15,})-(\d{15,})-([0-9a-f]{8})\.parquet")
_LIVE: Final = re.compile(r"_live-(\d{6,})-(\d{15,})\.arrows")


@dataclass(frozen=True)
class Segment:
    """A file with rows.

    Attributes:
        path: path of the file.
        first: its first row.
        last: its last row; None for a live file.
        crc: CRC-32 of a sealed file's bytes; 0 for a live file.
    """

    path: Path
    first: Offset
    last: Offset | None
    crc: int

    @property
    def is_live(self) -> bool:
        """Return whether rows may be added."""
        return self.last is None


def sealed_name(first: Offset, last: int, crc: int) -> str:
    """Return the name of a Parquet file with rows of one epoch."""
    return f"{first.epoch:06d}-{first.row:015d}-{last:015d}-{crc:08x}.parquet"


def live_name(first: Offset) -> str:
    """Return the name of a live file."""
    return f"_live-{first.epoch:06d}-{first.row:015d}.arrows"


OWN: Final = re.compile(rf"(_live-.*|{DAMAGED}.*|{LOCK}|{MANIFEST}|_cluster\.json)$")
"""The names of a log's files that begin with ``_``."""


def list_segments(folder: Path) -> list[Segment]:
    """Return the files with rows, ordered by their rows; a sealed file precedes a live one.

    Files that compaction is about to remove are left out.

    Raises:
        LogError: there is no log, or a later release has written it.
    """
    found = list_files(folder)
    old = superseded(found)
    return [segment for segment in found if segment not in old] if old else found


def superseded(segments: Sequence[Segment]) -> list[Segment]:
    """Return the sealed files all of whose rows are in another one, among files in order."""
    old: list[Segment] = []
    last: Offset | None = None
    for segment in segments:
        if segment.last is None:
            continue
        if last is not None and segment.last <= last:
            old.append(segment)
        else:
            last = segment.last
    return old


def list_files(folder: Path) -> list[Segment]:
    """Return all files with rows; see `list_segments` for order and errors.

    Of sealed files that begin with the same row, the one with the most rows comes first.
    """
    try:
        found = segments_of(folder.iterdir())
        is_log = bool(found) or (folder / MANIFEST).exists()
    except (FileNotFoundError, NotADirectoryError):
        is_log = False
    if not is_log:
        raise LogError(f"{folder}: there is no log; groupcomm record writes one")
    check_format(folder)
    return found


def segments_of(paths: Iterable[Path]) -> list[Segment]:
    """Return those of these paths whose names are those of files with rows, in their order."""
    found = (_segment(path) for path in paths)
    return sorted((segment for segment in found if segment is not None), key=_order)


def _order(segment: Segment) -> tuple[Offset, bool, int]:
    return segment.first, segment.is_live, 0 if segment.last is None else -segment.last.row


def _segment(path: Path) -> Segment | None:
    if match := _SEALED.fullmatch(path.name):
        epoch, first, last, crc = match.groups()
        return Segment(
            path, Offset(int(epoch), int(first)), Offset(int(epoch), int(last)), int(crc, 16)
        )
    if match := _LIVE.fullmatch(path.name):
        return Segment(path, Offset(int(match[1]), int(match[2])), None, 0)
    return None
