"""Checks that the files of logs are as they were written; each is read by one worker."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from groupcomm_log.check import is_recorded
from groupcomm_log.errors import Damage
from groupcomm_log.live import read_frames
from groupcomm_log.names import DAMAGED, Segment
from groupcomm_log.reader import LogReader
from groupcomm_log.sealed import check_sealed
from groupcomm_spark.logs import name_logs
from groupcomm_spark.verify.verdict import DAMAGE, Violation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Files:
    """The result of the check.

    Attributes:
        violations: damaged files.
        damaged: the paths of files that cannot be trusted.
        lost: for each log, the first and the last row of their contents.
    """

    violations: list[Violation] = field(default_factory=list)
    damaged: list[Path] = field(default_factory=list)
    lost: dict[str, list[tuple[int, int]]] = field(default_factory=dict)


def check_files(spark: "SparkSession", folders: Sequence[Path]) -> Files:
    """Read all bytes of all files.

    Args:
        spark: the session whose workers read.
        folders: the folders of the logs, which all workers see at the same path.

    Raises:
        LogError: one of them is no log.
    """
    found = Files()
    sealed: list[tuple[str, Segment]] = []
    for folder, log in name_logs(folders).items():
        segments = LogReader(folder).segments()
        sealed += [(log, segment) for segment in segments if not segment.is_live]
        for segment in segments:
            if segment.is_live:
                _check_live(folder, log, segment, found)
        for path in sorted(folder.glob(f"{DAMAGED}*")):
            why = f"{path.name}: put aside; its readable rows are sealed"
            found.violations.append(Violation(DAMAGE, (log,), None, why))
    if sealed:
        parts = spark.sparkContext.parallelize(sealed, len(sealed))
        for log, damage in parts.map(_check).filter(_is_damaged).collect():
            assert damage is not None
            _add(log, damage, found)
            found.damaged.append(damage.path)
    return found


def _check(named: tuple[str, Segment]) -> tuple[str, Damage | None]:
    log, segment = named
    return log, check_sealed(segment)


def _is_damaged(checked: tuple[str, Damage | None]) -> bool:
    return checked[1] is not None


def _check_live(folder: Path, log: str, segment: Segment, found: Files) -> None:
    for each in read_frames(segment.path):
        if isinstance(each, Damage) and not (each.torn and is_recorded(folder)):
            _add(log, each, found)


def _add(log: str, damage: Damage, found: Files) -> None:
    found.violations.append(Violation(DAMAGE, (log,), damage.rows and damage.rows[0], str(damage)))
    if damage.rows is not None:
        found.lost.setdefault(log, []).append(damage.rows)
