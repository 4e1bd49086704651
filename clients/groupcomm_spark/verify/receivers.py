"""The rules that a single log can break, checked on all rows of all logs.

Blocks of rows are examined by themselves (see `blocks`); the ends that their pieces leave are then
compared in the order of their rows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from groupcomm_log.schema import MESSAGE, VIEW
from groupcomm_log.view_periods import KEY
from groupcomm_spark.reading.options import LOG
from groupcomm_spark.verify.blocks import (
    CODES,
    GROUP_VIEW,
    LINE,
    NONE,
    NUMBERS,
    OTHER,
    Ints,
    LogPlan,
    Plan,
    What,
    examine,
)
from groupcomm_spark.verify.periods import LogPeriod

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


BROKEN: Final = {
    What.FIFO: What.BROKEN_FIFO,
    What.AGREED: What.BROKEN_AGREED,
    What.CAUSES: What.BROKEN_CAUSES,
    What.AGREED_CAUSES: What.BROKEN_CAUSES,
}
"""The violation of each series, where a value is not above the bounds before it."""


@dataclass(frozen=True, order=True)
class Broken:
    """A rule that one log breaks.

    Attributes:
        what: the broken rule.
        log: the code of the log.
        row: row that should not be there.
        earlier: earlier row that it contradicts; NONE if there is none.
        count: number of violations that it represents.
    """

    what: What
    log: int
    row: int
    earlier: int = NONE
    count: int = 1


@dataclass
class Joined:
    """The result of all lines together.

    Attributes:
        broken: broken rules.
        holes: ranges of missing rows, by the code of the log.
        doubled: ranges of rows that occur twice, by the code of the log.
        rows: number of examined rows.
        causal_checked, causal_unknown: see Verdict.
    """

    broken: list[Broken]
    holes: dict[int, list[tuple[int, int]]]
    doubled: dict[int, list[tuple[int, int]]]
    rows: int
    causal_checked: int
    causal_unknown: int


def join(lines: pa.Table) -> Joined:
    """Return the result of the lines of all blocks.

    Args:
        lines: rows of `blocks.LINES`.
    """
    table = np.stack([column.to_numpy() for column in lines.columns], axis=1)
    what = table[:, 0]
    counts = table[what == What.COUNTS]
    holes, doubled = _join_spans(table[what == What.SPAN])
    broken = [
        Broken(What(line[0]), int(line[1]), int(line[4]), int(line[9]), int(line[5]))
        for line in table[what >= What.BROKEN_FIFO]
        if line[0] != What.COUNTS
    ]
    for series in BROKEN:
        broken += _join_series(series, table[what == series])
    return Joined(
        sorted(broken),
        holes,
        doubled,
        *(int(counts[:, column].sum()) for column in (4, 5, 6)),
    )


def _join_spans(
    spans: Ints,
) -> tuple[dict[int, list[tuple[int, int]]], dict[int, list[tuple[int, int]]]]:
    holes: dict[int, list[tuple[int, int]]] = {}
    doubled: dict[int, list[tuple[int, int]]] = {}
    spans = spans[np.lexsort((spans[:, 4], spans[:, 1]))]
    log, first, last = spans[:, 1], spans[:, 4], spans[:, 9]
    same = log[1:] == log[:-1]
    for at in np.flatnonzero(same & (first[1:] != last[:-1] + 1)).tolist():
        end, begin = int(last[at]), int(first[at + 1])
        if begin > end:
            holes.setdefault(int(log[at]), []).append((end + 1, begin - 1))
        else:
            doubled.setdefault(int(log[at]), []).append((begin, end))
    return holes, doubled


def _join_series(what: What, ends: Ints) -> list[Broken]:
    """Return the values that are not above all bounds of pieces before theirs."""
    if len(ends) < 2:
        return []
    ends = ends[np.lexsort((np.maximum(ends[:, 4], ends[:, 9]), *ends[:, [3, 2, 1]].T))]
    same = (ends[1:, 1:4] == ends[:-1, 1:4]).all(axis=1)
    if what in (What.FIFO, What.AGREED):  # each bound is below the next, or it was reported already
        above = np.zeros(len(same), bool)
        for column in (8, 7, 6, 5):
            value, bound = ends[1:, column], ends[:-1, column + 5]
            above = (value > bound) | ((value == bound) & above)
        wrong = np.flatnonzero(same & ~above)
        return [_broken(what, ends[at + 1], ends[at]) for at in wrong.tolist()]
    found = []
    highest: Ints | None = None
    for at, end in enumerate(ends):
        if at and not same[at - 1]:
            highest = None
        if highest is not None and end[4] != NONE and tuple(end[5:7]) <= tuple(highest[10:12]):
            found.append(_broken(what, end, highest))
        if end[9] != NONE and (highest is None or tuple(end[10:12]) > tuple(highest[10:12])):
            highest = end
    return found


def _broken(what: What, end: Ints, before: Ints) -> Broken:
    return Broken(BROKEN[what], int(end[1]), int(end[4]), int(before[9]))


def count(broken: list[Broken]) -> Counter[What]:
    """Return the number of violations of each rule."""
    found: Counter[What] = Counter()
    for each in broken:
        found[each.what] += each.count
    return found


BLOCK: Final = 200_000
"""Rows that are examined together: enough for arrays, and some 20 MB."""


def make_plan(periods: Iterable[LogPeriod], log_codes: dict[str, int]) -> Plan:
    """Return the facts about periods that blocks need."""
    by_log: dict[str, list[LogPeriod]] = {}
    for period in periods:
        by_log.setdefault(period.log, []).append(period)
    return {
        log_codes[log]: LogPlan(
            first=np.array([period.first for period in of_log], np.int64),
            session=[period.session for period in of_log],
            era=[period.era for period in of_log],
            view=[period.view_code for period in of_log],
            is_known=[_is_known(period) for period in of_log],
            daemons=[
                None if period.daemons is None else np.array(period.daemon_codes, np.int64)
                for period in of_log
            ],
        )
        for log, of_log in by_log.items()
    }


def _is_known(period: LogPeriod) -> bool:
    """Return whether it is known which view the period is in, if any."""
    return period.view_code is not None or (bool(period.member) and not period.is_behind_gap)


def examine_rows(logs: "DataFrame", plan: Plan) -> pa.Table:
    """Examine all rows; return the lines of all blocks (see `blocks`)."""
    schema = ", ".join(f"{field} long" for field in LINE)
    return _numbers(logs).mapInArrow(_examiner(plan), schema).toArrow()


def _examiner(plan: Plan) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= BLOCK:
                yield examine(pa.Table.from_batches(waiting), plan)
                waiting, rows = [], 0
        if rows:
            yield examine(pa.Table.from_batches(waiting), plan)

    return run


def _numbers(logs: "DataFrame") -> "DataFrame":
    """Return the numbers of each row that rules use; names become hashes."""
    from pyspark.sql.functions import coalesce, col, lit, substring_index, xxhash64  # noqa: PLC0415

    daemon = substring_index(substring_index("sender", "#", -1), "/", 1)
    columns: dict[str, Column | Any] = {
        "log": xxhash64(LOG),
        "row": col("row"),
        "code": _code(),
        "view": xxhash64("view"),
        **{name: coalesce(col(name), lit(-1)) for name in KEY},
        "sender": xxhash64("sender"),
        "daemon": xxhash64(daemon),
        "number": coalesce(col("number"), lit(-1)),
    }
    return logs.select(
        *(columns[name].cast("long").alias(name) for name in NUMBERS),
        col("causal_context").alias("context"),
    )


def _code() -> "Column":
    from pyspark.sql.functions import col, lit, when  # noqa: PLC0415 - an extra

    code = lit(OTHER)
    for level, number in CODES.items():
        code = when(col("level") == level, lit(number)).otherwise(code)
    is_view = col("kind") == VIEW
    return when(col("kind") == MESSAGE, code).when(is_view, lit(GROUP_VIEW)).otherwise(lit(OTHER))
