"""Checks that the files of logs are as they were written; each is read by one worker."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from groupcomm_log.check import is_recorded
from groupcomm_log.errors import Damage
from groupcomm_log.live import read_frames
from groupcomm_log.names import DAMAGED, Segment, list_segments
from groupcomm_log.reader import LogReader
from groupcomm_log.sealed import check_sealed
from groupcomm_spark.logs import find_all
from groupcomm_spark.stores import StoredLog, damages
from groupcomm_spark.verify.sources import in_tasks
from groupcomm_spark.verify.verdict import DAMAGE, Violation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Files:
    """The result of the check.

    Attributes:
        violations: damaged files.
        damaged: the paths of files that cannot be trusted, URLs on a store.
        lost: for each log, the first and the last row of their contents.
    """

    violations: list[Violation] = field(default_factory=list)
    damaged: list[Path | str] = field(default_factory=list)
    lost: dict[str, list[tuple[int, int]]] = field(default_factory=dict)


def check_files(spark: "SparkSession", folders: Sequence[str | Path]) -> Files:
    """Read all bytes of all files, each in a task.

    Args:
        spark: the session whose workers read.
        folders: the folders of the logs, which all workers see at the same path, or their URLs.

    Raises:
        LogError: one of them is no log.
    """
    found = Files()
    segments: list[tuple[str, Segment]] = []
    recorded: set[str] = set()
    for log, folder in find_all(spark, *folders).items():
        if isinstance(folder, StoredLog):
            for url, damage in damages(spark, folder).items():
                _add(log, url, damage, found)
            continue
        segments += [(log, segment) for segment in LogReader(folder).segments()]
        if is_recorded(folder):
            recorded.add(log)
        for path in sorted(folder.glob(f"{DAMAGED}*")):
            why = f"{path.name}: put aside; its readable rows are sealed"
            found.violations.append(Violation(DAMAGE, (log,), None, why))
    for log, damage in in_tasks(spark, segments, _damaged):
        if not (damage.torn and log in recorded):
            _add(log, damage.path, damage, found)
    return found


def _damaged(segments: Iterable[tuple[str, Segment]]) -> Iterator[tuple[str, Damage]]:
    return ((log, damage) for log, segment in segments for damage in _damages(segment))


def _damages(segment: Segment) -> Iterator[Damage]:
    if segment.last is not None:
        damage = check_sealed(segment)
        yield from () if damage is None else (damage,)
        return
    try:
        yield from (each for each in read_frames(segment.path) if isinstance(each, Damage))
    except FileNotFoundError:  # it was sealed in between
        for other in list_segments(segment.path.parent):
            if other.first == segment.first:
                yield from _damages(other)


def _add(log: str, path: Path | str, damage: Damage, found: Files) -> None:
    first = None if damage.rows is None else damage.rows[0]
    found.violations.append(Violation(DAMAGE, (log,), first, str(damage)))
    found.damaged.append(path)
    if damage.rows is not None:
        found.lost.setdefault(log, []).append(damage.rows)
