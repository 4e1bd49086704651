"""The whole proof, stage by stage."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from groupcomm_spark.reading.options import LOG
from groupcomm_spark.verify.comparing import (
    WHOLE,
    Views,
    by_view,
    compare_cells,
    complete,
    cut_cells,
    plan_cells,
)
from groupcomm_spark.verify.events import read_events
from groupcomm_spark.verify.files import check_files
from groupcomm_spark.verify.groups import check_daemons, check_groups
from groupcomm_spark.verify.numbers import code_of
from groupcomm_spark.verify.periods import LogPeriod, Lost
from groupcomm_spark.verify.receivers import Joined, examine_rows, join, make_plan
from groupcomm_spark.verify.sources import Source, open_source, source_of
from groupcomm_spark.verify.verdict import DUPLICATE, ROW_NUMBERS, Verdict, Violation, report_broken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_doubles(history: "History", verdict: Verdict, most: int) -> None:
    """Check that UNRELIABLE and RELIABLE messages come at most once in a session.

    The numbers of other messages show whether they come twice (see `blocks`). Tasks name the
    numbers that may occur twice; Spark is asked about these only.
    """
    from pyspark.sql.functions import col, count, lit, max, min, xxhash64  # noqa: PLC0415

    ranges = history.joined.doubled_numbers
    if not ranges:
        return
    periods = history.periods
    by_log = {log: ranges.get(code, []) for log, code in history.codes.items()}
    frame = history.logs.frame.filter(col("level").isin("UNRELIABLE", "RELIABLE"))
    rows = _in_ranges(frame, by_log)
    hashes = rows.select("row", xxhash64(LOG, "sender", "number").alias("hash"))
    found = (
        hashes.groupBy("hash")
        .agg(count(lit(1)).alias("count"), min("row").alias("first"), max("row").alias("last"))
        .filter(col("count") > 1)
        .join(rows.select(LOG, "row", "sender", "number", "level"), col("last") == col("row"))
        .filter(col("hash") == xxhash64(LOG, "sender", "number"))
        .orderBy(LOG, "row")
        .collect()
    )
    told: Counter[str] = Counter()
    for row in found:
        log, first, last = row[LOG], row["first"], row["last"]
        if _session(periods, log, first) != _session(periods, log, last):
            continue  # two sessions may each receive it
        why = (
            f"{row['level']} of {row['sender']} number {row['number']} came {row['count']} times,"
            f" in rows {first} to {last}"
        )
        told[log] += 1
        if told[log] <= most:
            verdict.add(Violation(DUPLICATE, (log,), last, why))
        else:
            verdict.counts[DUPLICATE] += 1


_RANGES: Final = 100
"""The most ranges of numbers of a log that Spark looks for."""


def _in_ranges(rows: "DataFrame", ranges: Mapping[str, Sequence[tuple[int, int]]]) -> "DataFrame":
    from pyspark.sql.functions import broadcast, col  # noqa: PLC0415 - an extra

    table = [(log, *span) for log, of_log in ranges.items() for span in _disjoint(of_log)]
    wanted = rows.sparkSession.createDataFrame(table, f"{LOG} string, least long, most long")
    found = rows.join(broadcast(wanted), LOG)
    return found.filter(col("number").between(col("least"), col("most"))).drop("least", "most")


def _disjoint(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges that have the same numbers and do not overlap; one if there are too many."""
    found: list[tuple[int, int]] = []
    for least, most in sorted(ranges):
        if found and least <= found[-1][1]:
            found[-1] = found[-1][0], max(most, found[-1][1])
        else:
            found.append((least, most))
    return found if len(found) <= _RANGES else [(found[0][0], found[-1][1])]


def _session(periods: Sequence[LogPeriod], log: str, row: int) -> int:
    of_log = [period for period in periods if period.log == log]
    at = bisect_right([period.first for period in of_log], row) - 1
    return of_log[at].session if of_log else 0


MOST: Final = 20
"""The violations of one name that are reported for the same logs; all are counted."""

Stage = Callable[[str], AbstractContextManager[None]]
"""A function that returns a context for each stage of the work, from its name."""


def quiet(_: str) -> AbstractContextManager[None]:
    """Return the context of a stage that is not reported."""
    return nullcontext()


class History:
    """Logs, and what their rows that are not messages say.

    Attributes:
        logs: the logs.
        events: what their events say.
        codes: the code of each log, by its name.
        periods: periods of all logs.
        views: periods that can be compared with each other.
        cells: the parts of periods that are compared.
    """

    def __init__(self, logs: "DataFrame | Source", lost: Lost | None = None) -> None:
        """Read the events.

        Args:
            logs: all logs in one frame, with all columns. Rows may come in any order, and are
                processed fastest in that of the files.
            lost: for each log, first and last of rows that are known to be missing.
        """
        self.logs = source_of(logs)
        self.events = read_events(self.logs, lost or {})
        self.periods = self.events.periods
        self.codes = {period.log: code_of(period.log) for period in self.periods}
        complete(self.logs, self.periods)
        self.views: Views = by_view(self.periods)
        self.cells = cut_cells(self.views)

    @cached_property
    def joined(self) -> Joined:
        """Return what all rows say; they are read once."""
        plan = make_plan(self.periods, self.codes, plan_cells(self.cells))
        return join(examine_rows(self.logs, plan))


def verify(
    logs: "DataFrame | Source", *, lost: Lost | None = None, most: int = MOST, stage: Stage = quiet
) -> Verdict:
    """Prove FIFO, causal, agreed and safe delivery and virtual synchrony over logs.

    Args:
        logs: logs of many receivers, as `groupcomm_spark.read` returns them.
        lost: for each log, first and last of rows that are known to be missing.
        most: violations of one name that are reported for the same logs.
        stage: see Stage.

    Returns:
        the verdict; docs/spark.md describes the names of violations.
    """
    verdict = Verdict()
    with stage("views"):
        history = History(logs, lost)
        verdict.logs = sorted(history.codes)
        check_views(history, verdict)
    with stage("receivers"):
        check_receivers(history, verdict, most)
    with stage("doubles"):
        check_doubles(history, verdict, most)
    with stage("comparing"):
        compare(history, verdict, most)
    verdict.violations.sort(key=lambda each: (each.name, each.logs, each.row or 0))
    return verdict


def compare_agreed(logs: "DataFrame", *, most: int = MOST) -> Verdict:
    """Check only that all logs have the same AGREED and SAFE messages at the same positions.

    `check_receivers` checks that positions increase in each log.
    """
    verdict = Verdict()
    history = History(logs)
    verdict.logs = sorted(history.codes)
    compare(history, verdict, most, only_agreed=True)
    return verdict


def check_views(history: History, verdict: Verdict) -> None:
    """Check views of groups and daemons: of each log, and of each two that were members
    together.
    """
    for violation in check_daemons(history.periods):
        verdict.add(violation)
    for name, log, row, why in history.events.broken:
        verdict.add(Violation(name, (log,), row, why))
    check_groups(history.logs, history.events, history.views, verdict)


def check_receivers(history: History, verdict: Verdict, most: int = MOST) -> None:
    """Check each log by itself: FIFO, causal and agreed order; views of messages; row numbers."""
    codes = history.codes
    names = {code: log for log, code in codes.items()}
    joined = history.joined
    verdict.rows = joined.rows
    verdict.causal_checked = joined.causal_checked
    verdict.causal_unknown = joined.causal_unknown
    report_broken(lambda: history.logs.frame, joined.broken, names, verdict, most)
    for code, doubled in joined.doubled.items():
        for first, last in doubled:
            why = f"rows {first} to {last} occur twice"
            verdict.add(Violation(ROW_NUMBERS, (names[code],), first, why))
    for code, holes in joined.holes.items():
        told = history.events.lost.get(names[code], [])
        for first, last in holes:
            if not any(begin <= first and last <= end for begin, end in told):
                why = f"rows {first} to {last} are missing, and no gap explains it"
                verdict.add(Violation(ROW_NUMBERS, (names[code],), first, why))


def compare(
    history: History, verdict: Verdict, most: int = MOST, *, only_agreed: bool = False
) -> None:
    """Compare logs with each other: agreed order, SAFE, and the promises for whole views."""
    cells = [cell for cell in history.cells if not only_agreed or cell.number != WHOLE]
    if cells:
        compare_cells(history.logs, history.periods, cells, history.joined.sums, verdict, most)


def verify_folders(
    spark: "SparkSession", folders: Sequence[str | Path], *, most: int = MOST, stage: Stage = quiet
) -> Verdict:
    """Verify logs where they are written; see `verify`.

    Damaged files are reported and left out; their rows are then known to be missing.

    Raises:
        LogError: one of the folders is no log.
        OSError: a file cannot be read.
    """
    with stage("files"):
        files = check_files(spark, folders)
    logs = open_source(spark, folders, files.damaged)
    verdict = verify(logs, lost=files.lost, most=most, stage=stage)
    for violation in files.violations:
        verdict.add(violation)
    verdict.violations.sort(key=lambda each: (each.name, each.logs, each.row or 0))
    return verdict
