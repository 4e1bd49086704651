"""Checks that the files of logs are as they were written; each is read by one worker."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from groupcomm_log.check import is_recorded
from groupcomm_log.errors import Damage
from groupcomm_log.live import read_frames
from groupcomm_log.names import DAMAGED, Segment, list_segments
from groupcomm_log.reader import LogReader
from groupcomm_log.sealed import check_sealed
from groupcomm_spark.logs import find_all
from groupcomm_spark.stores import StoredLog, damages
from groupcomm_spark.urls import is_url
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


_FOUND: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("log", "path", "text")),
        *(pa.field(name, pa.int64()) for name in ("first", "last")),
        pa.field("torn", pa.bool_()),
    ]
)


def check_files(spark: "SparkSession", folders: Sequence[str | Path]) -> Files:
    """Read all bytes of all files, each in a task.

    Args:
        spark: the session whose workers read.
        folders: the folders of the logs, which all workers see at the same path, or their URLs.

    Raises:
        LogError: one of them is no log.
    """
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - an extra

    found = Files()
    segments: list[tuple[str, Segment]] = []
    recorded: set[str] = set()
    for log, folder in find_all(spark, *folders).items():
        if isinstance(folder, StoredLog):
            for url, damage in damages(spark, folder).items():
                _add({**_row(log, damage), "path": url}, found)
            continue
        segments += [(log, segment) for segment in LogReader(folder).segments()]
        if is_recorded(folder):
            recorded.add(log)
        for path in sorted(folder.glob(f"{DAMAGED}*")):
            why = f"{path.name}: put aside; its readable rows are sealed"
            found.violations.append(Violation(DAMAGE, (log,), None, why))
    tasks = spark.range(0, len(segments), 1, max(1, len(segments)))
    for each in tasks.mapInArrow(_checker(segments), from_arrow_schema(_FOUND)).collect():
        if not (each["torn"] and each["log"] in recorded):
            _add(each, found)
    return found


Batches = Iterable[pa.RecordBatch]


def _checker(
    segments: Sequence[tuple[str, Segment]],
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def check(numbers: Batches) -> Iterator[pa.RecordBatch]:
        for log, segment in (segments[at] for batch in numbers for at in batch["id"].to_pylist()):
            rows = [_row(log, damage) for damage in _damages(segment)]
            yield pa.RecordBatch.from_pylist(rows, _FOUND)

    return check


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


def _row(log: str, damage: Damage) -> dict[str, Any]:
    first, last = damage.rows or (None, None)
    found = {"log": log, "path": str(damage.path), "first": first, "last": last}
    return {**found, "text": str(damage), "torn": damage.torn}


def _add(row: Any, found: Files) -> None:
    found.violations.append(Violation(DAMAGE, (row["log"],), row["first"], row["text"]))
    found.damaged.append(row["path"] if is_url(row["path"]) else Path(row["path"]))
    if row["first"] is not None:
        found.lost.setdefault(row["log"], []).append((row["first"], row["last"]))
