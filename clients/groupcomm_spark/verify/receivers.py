"""The rules that a single log can break, checked on all rows of all logs.

Blocks of rows are examined by themselves (see `blocks`); the ends that their pieces leave are then
compared in the order of their rows.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from groupcomm_spark.verify.blocks import (
    LINE,
    LINES,
    Cells,
    LogPlan,
    Numbers,
    Plan,
    What,
    examine,
)
from groupcomm_spark.verify.numbers import (
    COLUMNS,
    NONE,
    NUMBERS,
    GroupLists,
    Ints,
    code_of,
    numbers_of,
)
from groupcomm_spark.verify.periods import LogPeriod
from groupcomm_spark.verify.sources import Batches, Source

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


Part = tuple[int, int, int, tuple[str, ...]]
"""A period, the number of a cell, the code of a level, and groups."""

Sums = tuple[int, int, int]
"""Sums of hashes: their number, their sum, and bit by bit."""


@dataclass
class Joined:
    """The result of all lines together.

    Attributes:
        broken: broken rules.
        holes: ranges of missing rows, by the code of the log.
        doubled: ranges of rows that occur twice, by the code of the log.
        sums: messages of each period, cell, level (its code) and list of groups: count, sum and xor
            of their hashes.
        doubled_numbers: ranges of numbers below FIFO of which some may occur twice, by the code of
            the log.
        rows: number of examined rows.
        causal_checked, causal_unknown: see Verdict.
    """

    broken: list[Broken]
    holes: dict[int, list[tuple[int, int]]]
    doubled: dict[int, list[tuple[int, int]]]
    sums: dict[Part, Sums]
    doubled_numbers: dict[int, list[tuple[int, int]]]
    rows: int
    causal_checked: int
    causal_unknown: int


def join(lines: pa.Table) -> Joined:
    """Return the result of the lines of all blocks.

    Args:
        lines: rows of `blocks.LINES`.
    """
    table = np.stack([lines[name].to_numpy() for name in LINE], axis=1)
    what = table[:, 0]
    counts = table[what == What.COUNTS]
    holes, doubled = _join_spans(table[what == What.SPAN])
    broken = [
        Broken(What(line[0]), int(line[1]), int(line[4]), int(line[9]), int(line[5]))
        for line in table[what >= What.BROKEN_FIFO]
        if line[0] != What.COUNTS
    ]
    is_sum = what == What.SUMS
    for series in BROKEN:
        broken += _join_series(series, table[what == series])
    return Joined(
        sorted(broken),
        holes,
        doubled,
        _join_sums(table[is_sum], lines["groups"].filter(pa.array(is_sum))),
        _join_numbers(table[(what == What.NUMBERS) | (what == What.DOUBLED)]),
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


def _join_sums(lines: Ints, groups: pa.ChunkedArray) -> dict[Part, Sums]:
    found: dict[Part, Sums] = {}
    for line, names in zip(lines.tolist(), groups.to_pylist(), strict=True):
        part = line[2], line[3], line[4], tuple(names)
        count, total, bits = found.get(part, (0, 0, 0))
        found[part] = count + line[5], (total + line[6]) % 2**64, bits ^ line[7]
    return found


def _join_numbers(lines: Ints) -> dict[int, list[tuple[int, int]]]:
    """Return the numbers that occur twice, or that two tasks have of a sender."""
    found: dict[int, list[tuple[int, int]]] = {}
    lines = lines[np.lexsort((lines[:, 5], lines[:, 3], lines[:, 1]))]
    of: tuple[int, int] | None = None
    highest = NONE
    for what, log, _, sender, _, least, _, _, _, _, most, *_ in lines.tolist():
        if what == What.DOUBLED:
            found.setdefault(log, []).append((least, most))
            continue
        if (log, sender) == of and least <= highest:
            found.setdefault(log, []).append((least, min(most, highest)))
        highest = max(most, highest) if (log, sender) == of else most
        of = log, sender
    return found


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


BLOCK: Final = 30_000
"""The least rows that are examined together: enough for arrays, which stay near the processor."""


def make_plan(
    periods: Iterable[LogPeriod], log_codes: Mapping[str, int], cells: Mapping[int, Cells]
) -> Plan:
    """Return the facts about periods that blocks need.

    Args:
        periods: all periods.
        log_codes: the codes of the logs.
        cells: the cells of periods, by the number of the period.
    """
    by_log: dict[str, list[LogPeriod]] = {}
    for period in periods:
        by_log.setdefault(period.log, []).append(period)
    return {
        log_codes[log]: LogPlan(
            first=np.array([period.first for period in of_log], np.int64),
            number=[period.number for period in of_log],
            session=[period.session for period in of_log],
            era=[period.era for period in of_log],
            view=[period.view_code for period in of_log],
            is_known=[_is_known(period) for period in of_log],
            daemons=[
                None if period.daemons is None else np.array(period.daemon_codes, np.int64)
                for period in of_log
            ],
            cells=[cells.get(period.number) for period in of_log],
        )
        for log, of_log in by_log.items()
    }


def _is_known(period: LogPeriod) -> bool:
    """Return whether it is known which view the period is in, if any."""
    return period.view_code is not None or (bool(period.member) and not period.is_behind_gap)


def examine_rows(logs: Source, plan: Plan) -> pa.Table:
    """Examine all rows; return the lines of all blocks (see `blocks`)."""
    return logs.rows(COLUMNS, partial(_examine, plan=plan), LINES)


def _examine(batches: Batches, *, plan: Plan) -> Iterator[pa.RecordBatch]:
    lists, numbers = GroupLists(), Numbers()
    for log, columns, contexts in _blocks(batches, lists):
        yield examine(log, columns, contexts, plan).batch(lists)
        yield numbers.add(log, columns).batch(lists)
    yield numbers.lines().batch(lists)


_Block = tuple[int, dict[str, Ints], pa.ListArray]


def _blocks(batches: Batches, lists: GroupLists) -> Iterator[_Block]:
    """Yield the rows of one log, BLOCK of them or more: its code, their numbers and contexts."""
    waiting: list[tuple[dict[str, Ints], pa.ListArray]] = []
    rows, of = 0, ""
    for log, batch in batches:
        if waiting and (log != of or rows >= BLOCK):
            yield _block(of, waiting)
            waiting, rows = [], 0
        waiting.append((numbers_of(batch, lists), batch["causal_context"]))
        rows, of = rows + batch.num_rows, log
    if waiting:
        yield _block(of, waiting)


def _block(log: str, parts: list[tuple[dict[str, Ints], pa.ListArray]]) -> _Block:
    if len(parts) == 1:
        return code_of(log), *parts[0]
    columns, contexts = zip(*parts, strict=True)
    joined = {name: np.concatenate([each[name] for each in columns]) for name in NUMBERS}
    return code_of(log), joined, pa.concat_arrays(contexts)
