"""The check of a whole log: every byte is as it was written, and no row is missing."""

import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from groupcomm_log.errors import Damage
from groupcomm_log.live import read_frames
from groupcomm_log.manifest import Manifest, read_manifest
from groupcomm_log.names import DAMAGED, LOCK, Segment
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import GAP, MESSAGE, Offset


@dataclass
class Overview:
    """The contents of a log.

    Attributes:
        files: number of sealed and live files.
        rows, messages: numbers of readable rows and messages.
        first, last: the first and last row.
        gaps: rows that mark possible losses, with their details.
        missing: ranges of rows that are missing, and that no gap explains.
        damage: unreadable parts.
        put_aside: names of damaged files whose readable rows were sealed.
        is_recorded: a recorder writes to it at this moment.
    """

    files: int = 0
    rows: int = 0
    messages: int = 0
    first: Offset | None = None
    last: Offset | None = None
    gaps: list[dict[str, Any]] = field(default_factory=list)
    missing: list[tuple[int, int]] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    put_aside: list[str] = field(default_factory=list)
    is_recorded: bool = False

    @property
    def is_whole(self) -> bool:
        """Return whether every acknowledged row is there."""
        return not (self.damage or self.missing or self.put_aside)


def check_log(folder: Path) -> Overview:
    """Read a whole log, and return the findings.

    Raises:
        LogError: there is no log.
        OSError: a file cannot be read.
    """
    found = Overview(is_recorded=is_recorded(folder))
    reader = LogReader(folder, found.damage.append)
    segments = reader.segments()
    found.files = len(segments)
    found.put_aside = sorted(path.name for path in folder.glob(f"{DAMAGED}*"))
    next_row, breaks = (read_manifest(folder) or Manifest()).kept_from, []
    for batch in reader.batches(columns=["epoch", "row", "kind", "cause", "received", "data"]):
        rows = batch["row"].to_pylist()
        found.rows += len(rows)
        found.messages += pc.sum(pc.equal(batch["kind"], MESSAGE)).as_py()
        found.gaps += _gaps(batch)
        breaks += [(a + 1, b - 1) for a, b in pairwise([next_row - 1, *rows]) if b > a + 1]
        next_row = rows[-1] + 1
        found.first = found.first or _offset(batch, 0)
        found.last = _offset(batch, -1)
    told = [each.rows for each in found.damage if each.rows is not None]
    told += [gap["rows"] for gap in found.gaps if "rows" in gap]
    found.missing = [
        (a, b) for a, b in breaks if not any(first <= a and b <= last for first, last in told)
    ]
    if not found.is_recorded:
        found.damage += _torn(segments)
    return found


def is_recorded(folder: Path) -> bool:
    """Return whether a recorder is writing to a folder."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _gaps(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    gaps = batch.filter(pc.equal(batch["kind"], GAP)).to_pylist()
    return [
        {"epoch": gap["epoch"], "row": gap["row"], "cause": gap["cause"], **json.loads(gap["data"])}
        for gap in gaps
    ]


def _torn(segments: Sequence[Segment]) -> list[Damage]:
    """Return the torn ends of live files that nobody writes any more."""
    return [
        each
        for segment in segments
        if segment.is_live
        for each in read_frames(segment.path)
        if isinstance(each, Damage) and each.torn
    ]


def _offset(batch: pa.RecordBatch, index: int) -> Offset:
    row = batch.num_rows + index if index < 0 else index
    return Offset(batch["epoch"][row].as_py(), batch["row"][row].as_py())
