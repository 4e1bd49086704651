"""Recovery: the contents of a log that is opened again, and the sealing of live files, even
damaged ones.
"""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from groupcomm_log.disk import Disk
from groupcomm_log.errors import Damage
from groupcomm_log.live import Frame, read_frames
from groupcomm_log.names import DAMAGED, Segment, list_segments
from groupcomm_log.schema import GAP, SCHEMA, Offset
from groupcomm_log.sealed import seal


@dataclass(frozen=True)
class Unsealed:
    """A live file to which nothing is appended any more.

    Attributes:
        path: path of the file.
        first: its first row.
        stop: rows from this one on do not count, because they are in the next file; None if all
            count.
    """

    path: Path
    first: Offset
    stop: int | None


@dataclass(frozen=True)
class Found:
    """The contents of a folder.

    Attributes:
        epoch: last epoch; 0 in a new folder.
        next_row: number after the last row.
        unsealed: live files, in order.
        damage: damage of the live files; readers check sealed files.
    """

    epoch: int
    next_row: int
    unsealed: list[Unsealed]
    damage: list[Damage]


def find_contents(segments: Sequence[Segment]) -> Found:
    """Return the contents; live files are read to their ends."""
    ends = {segment.path: _Ends(segment) for segment in segments if segment.is_live}
    # A file without rows supersedes nothing: its recorder ended before it had written any.
    filled = [s for s in segments if s.is_live and ends[s.path].next_row > s.first.row]
    stops = {
        old.path: new.first.row
        for old, new in pairwise(filled)
        if old.first.epoch == new.first.epoch
    }
    after = [s.last.row + 1 for s in segments if s.last is not None]
    return Found(
        epoch=max((segment.first.epoch for segment in segments), default=0),
        next_row=max([*after, *(end.next_row for end in ends.values())], default=0),
        unsealed=[Unsealed(s.path, s.first, stops.get(s.path)) for s in segments if s.is_live],
        damage=[each for end in ends.values() for each in end.damage],
    )


class _Ends:
    """The end of a live file, and its damage."""

    def __init__(self, segment: Segment) -> None:
        self.next_row = segment.first.row
        self.damage: list[Damage] = []
        for each in read_frames(segment.path):
            if isinstance(each, Frame):
                self.next_row = max(self.next_row, each.first + each.count)
                continue
            self.damage.append(each)
            if each.rows is not None and not each.torn:
                self.next_row = max(self.next_row, each.rows[1] + 1)


def seal_live(disk: Disk, live: Unsealed) -> Path | None:
    """Seal the rows of a live file, and remove it; return the sealed file, if there were any rows.

    A gap row takes the place of damaged rows, and the damaged file is kept under another name.

    Raises:
        OSError: it failed; another call continues.
    """
    folder = live.path.parent
    damage: list[Damage] = []
    rows = _readable(live, damage)
    if any(s.first == live.first and not s.is_live for s in list_segments(folder)):
        written = None  # the file was sealed before a crash
        deque(rows, maxlen=0)
    else:
        written = seal(disk, folder, rows)
    if damage:
        disk.rename(live.path, folder / (DAMAGED + live.path.name.lstrip("_")))
    else:
        disk.remove(live.path)
    return written


def _readable(live: Unsealed, damage: list[Damage]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that count, with gap rows in place of damaged ones; note the damage."""
    next_row = live.first.row
    for each in read_frames(live.path):
        if isinstance(each, Damage):
            if not each.torn:
                damage.append(each)
                if each.rows is not None:
                    yield from lost_rows(live.first.epoch, next_row, each.rows[1], each)
                    next_row = max(next_row, each.rows[1] + 1)
            continue
        if not each.count or (live.stop is not None and each.first >= live.stop):
            continue
        if damage:
            yield from lost_rows(live.first.epoch, next_row, each.first - 1, damage[-1])
        yield each.batch()
        next_row = each.first + each.count


def lost_rows(epoch: int, first: int, last: int, damage: Damage) -> Iterator[pa.RecordBatch]:
    """Yield a gap row in place of lost rows, if there are any.

    Args:
        epoch: the epoch of all these rows.
        first: the first lost row, whose number the gap row has.
        last: the last lost row.
        damage: why they are lost.
    """
    if first > last:
        return
    told = {"rows": [first, last], "file": damage.path.name, "at": damage.at, "why": damage.why}
    row = {
        "epoch": epoch,
        "row": first,
        "kind": GAP,
        "cause": "damage",
        "data": json.dumps(told).encode(),
    }
    yield pa.RecordBatch.from_pylist([row], schema=SCHEMA)
