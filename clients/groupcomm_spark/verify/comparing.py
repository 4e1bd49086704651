"""The comparison of logs: by sums of hashes, and row by row only where these differ.

Logs may be compared in cells: a view is cut at each position at which the set of comparable logs
changes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from groupcomm.level import LEVELS
from groupcomm_log.schema import MESSAGE
from groupcomm_log.view_periods import FIRST, KEY, NEVER, ORDERED, UNORDERED, Key
from groupcomm_spark.reading.options import LOG
from groupcomm_spark.verify.blocks import Cells
from groupcomm_spark.verify.ends import Ends, find_ends
from groupcomm_spark.verify.numbers import code_of
from groupcomm_spark.verify.periods import LogPeriod, are_together
from groupcomm_spark.verify.receivers import Part, Sums
from groupcomm_spark.verify.sources import Source
from groupcomm_spark.verify.verdict import (
    AGREED_SET,
    CONTENT,
    NOT_ADDRESSED,
    SAFE,
    VIEW_SET,
    Verdict,
    Violation,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


WHOLE: Final = -1
"""The cell of messages without an order: the whole view."""

LEAST: Final = -(2**63)
MOST: Final = 2**63 - 1

Views = dict[str, list[LogPeriod]]
"""The periods of each view that were a member of any group in it."""


@dataclass(frozen=True)
class Cell:
    """A part of one period that is compared as one.

    Attributes:
        period: the period.
        number: number of the cell in its view; WHOLE for messages without an order.
        above, upto: bounds; the position `upto` belongs to the cell.
    """

    period: LogPeriod
    number: int
    above: Key
    upto: Key

    @property
    def is_regular(self) -> bool:
        """Return whether all of it came in the regular part, or that part continues after it."""
        return self.upto <= self.period.regular_end


def by_view(periods: Sequence[LogPeriod]) -> Views:
    """Return the periods that can be compared with each other."""
    views: Views = {}
    for period in periods:
        if period.view is not None and period.start != NEVER:
            views.setdefault(period.view, []).append(period)
    return views


def complete(logs: Source, periods: Sequence[LogPeriod]) -> None:
    """Fill in the facts that only messages show: the ends of regular parts, and the views and first
    messages after gaps.
    """
    done: set[int] = set()
    while True:  # a view that is found may be that of other periods, too
        parting = [
            period for of_view in by_view(periods).values() if _part(of_view) for period in of_view
        ]
        behind = [each for each in periods if each.is_behind_gap and (each.view or each.member)]
        wanted = {each.number: each for each in [*parting, *behind] if each.number not in done}
        if not wanted:
            return
        for number, ends in find_ends(logs, [*wanted.values()]).items():
            _note_ends(periods[number], ends)
        done |= wanted.keys()


def _note_ends(period: LogPeriod, ends: Ends) -> None:
    if period.view is None:
        period.view = ends.view
    first, last = ends.first.get(period.view), ends.last.get(period.view)
    if period.is_behind_gap and first is not None and first[0] < period.first_change:
        period.start = first[1]
    if last is not None:
        period.regular_end = max(period.regular_end, last[1])


def _part(periods: Sequence[LogPeriod]) -> bool:
    """Return whether not all periods continue together."""
    return any(not are_together(period, other) for period, other in combinations(periods, 2))


def _within(rows: "DataFrame", table: Sequence[tuple[object, ...]], schema: str) -> "DataFrame":
    """Return rows with the properties of the period that they are in."""
    from pyspark.sql.functions import broadcast, col  # noqa: PLC0415 - an extra

    spark = rows.sparkSession
    periods = spark.createDataFrame(list(table), schema)
    joined = rows.join(broadcast(periods), [LOG, "view"])
    return joined.filter((col("row") >= col("first")) & (col("row") < col("end")))


def cut_cells(views: Views) -> list[Cell]:
    """Return the cells of all periods."""
    return [cell for periods in views.values() for cell in _cells_of(periods)]


def _cells_of(periods: list[LogPeriod]) -> list[Cell]:
    cuts = {period.start for period in periods} - {FIRST}
    if _part(periods):
        cuts |= {period.regular_end for period in periods} - {FIRST}
    edges = [FIRST, *sorted(cuts), NEVER]
    ordered = [
        Cell(period, number, above, upto)
        for period in periods
        for number, (above, upto) in enumerate(pairwise(edges))
        if above >= period.start
    ]
    return ordered + [Cell(period, WHOLE, FIRST, NEVER) for period in periods]


def plan_cells(cells: Sequence[Cell]) -> dict[int, Cells]:
    """Return the cells of each period, by its number, as tasks need them."""
    by_period: dict[int, list[Cell]] = {}
    for cell in cells:
        if cell.number != WHOLE:
            by_period.setdefault(cell.period.number, []).append(cell)
    found: dict[int, Cells] = {}
    for number, ordered in by_period.items():
        edges = [ordered[0].above, *(cell.upto for cell in ordered)]
        table = np.array([bound(edge) for edge in edges], np.int64)
        found[number] = Cells(code_of(ordered[0].period.view), ordered[0].number, table)
    return found


def in_cells(logs: "DataFrame", cells: Sequence[Cell]) -> "DataFrame":
    """Return messages with the columns `period` and `cell`; messages in no cell are left out."""
    from pyspark.sql.functions import col  # noqa: PLC0415 - an extra

    rows = logs.filter((col("kind") == MESSAGE) & col("level").isin(*ORDERED, *UNORDERED))
    table = [
        (
            *(cell.period.log, cell.period.view, cell.period.number, cell.number),
            *(cell.period.first, cell.period.end, cell.number != WHOLE),
            *bound(cell.above),
            *bound(cell.upto),
        )
        for cell in cells
    ]
    bounds = [f"{side}_{name} long" for side in ("above", "upto") for name in KEY]
    schema = (
        f"{LOG} string, view string, period int, cell int, first long, end long, ordered boolean"
    )
    joined = _within(rows, table, ", ".join([schema, *bounds]))
    ordered = col("level").isin(*ORDERED)
    inside = _is_above("above") & ~_is_above("upto")
    return joined.filter((ordered == col("ordered")) & (~ordered | inside)).drop(
        *(f"{side}_{name}" for side in ("above", "upto") for name in KEY)
    )


def bound(key: Key) -> tuple[int, ...]:
    """Return a position as four columns, also if it is a bound without a position."""
    if key == NEVER:
        return (MOST,) * len(KEY)
    return tuple(int(part) for part in key) if len(key) == len(KEY) else (LEAST,) * len(KEY)


def _is_above(side: str) -> "Column":
    """Return whether a row's position is above a bound."""
    from pyspark.sql.functions import col, lit  # noqa: PLC0415 - an extra

    above = lit(False)
    for name in reversed(KEY):
        bound = col(f"{side}_{name}")
        above = (col(name) > bound) | ((col(name) == bound) & above)
    return above


CONTENTS: Final = (*KEY, "sender", "number", "type", "data")
"""Columns that must be the same in two logs, besides level and groups."""

EXAMINED: Final = 2000
"""Different positions that are examined one by one."""

_NOTHING: Final[Sums] = (0, 0, 0)


@dataclass(frozen=True)
class _Part:
    """Messages that are compared as one: of one level, to the same groups, in one cell of a
    view.
    """

    view: str | None
    cell: int
    level: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class _Suspect:
    """A part in which some logs differ.

    Attributes:
        part: the part.
        having, needing: the numbers of periods; a message of one of the first must be in each of
            the second.
    """

    part: _Part
    having: tuple[int, ...]
    needing: tuple[int, ...]


def compare_cells(
    logs: Source,
    periods: Sequence[LogPeriod],
    cells: Sequence[Cell],
    sums: Mapping[Part, Sums],
    verdict: Verdict,
    most: int,
) -> None:
    """Find messages that one log has, and another lacks or has with other contents."""
    numbers = {cell.number for cell in cells}
    found: dict[_Part, dict[int, Sums]] = {}
    for (period, cell, level, groups), each in sums.items():
        if cell in numbers:
            part = _Part(periods[period].view, cell, LEVELS[level].name, groups)
            found.setdefault(part, {})[period] = each
    suspects = list(_suspects(found, cells, periods, verdict))
    if suspects:
        _examine(logs.frame, cells, periods, suspects, verdict, most)


# ---- logs that must have the same messages ----


def _suspects(
    found: dict[_Part, dict[int, Sums]],
    cells: Sequence[Cell],
    periods: Sequence[LogPeriod],
    verdict: Verdict,
) -> Iterator[_Suspect]:
    places: dict[tuple[str | None, int], list[Cell]] = {}
    for cell in cells:
        places.setdefault((cell.period.view, cell.number), []).append(cell)
    for part, sums in found.items():
        concerned = [
            cell
            for cell in places[part.view, part.cell]
            if not cell.period.joined.isdisjoint(part.groups)
        ]
        _check_addressed(part, sums, periods, verdict)
        compared: set[int] = set()
        for peers in _classes(concerned, part):
            if len(peers) > 1:
                compared.update(peers)
                if len({sums.get(peer, _NOTHING) for peer in peers}) > 1:
                    yield _Suspect(part, peers, peers)
        yield from _strays(concerned, part, sums)
        verdict.compared[part.level] += sum(sums.get(peer, _NOTHING)[0] for peer in compared)
        verdict.alone += sum(each[0] for peer, each in sums.items() if peer not in compared)


def _check_addressed(
    part: _Part, sums: dict[int, Sums], periods: Sequence[LogPeriod], verdict: Verdict
) -> None:
    for number in sums:
        period = periods[number]
        own = period.member.rpartition("/")[0]
        if period.joined.isdisjoint(part.groups) and own not in part.groups:
            evidence = (
                f"{sums[number][0]} {part.level} messages in view {part.view} are to"
                f" {' '.join(part.groups)}; {period.member} is in {' '.join(sorted(period.joined))}"
            )
            verdict.add(Violation(NOT_ADDRESSED, (period.log,), period.first, evidence))


def _classes(cells: Sequence[Cell], part: _Part) -> list[tuple[int, ...]]:
    """Return sets of periods that must have the same, because each must with at least one other."""
    classes: list[list[Cell]] = []
    for cell in cells:
        near = [each for each in classes if any(_are_alike(cell, one, part) for one in each)]
        classes = [each for each in classes if each not in near]
        classes.append([cell, *(one for each in near for one in each)])
    return [tuple(sorted(cell.period.number for cell in each)) for each in classes]


def _are_alike(one: Cell, other: Cell, part: _Part) -> bool:
    """Return whether two cells must have the same."""
    if are_together(one.period, other.period):
        return part.cell != WHOLE or (one.period.is_throughout and other.period.is_throughout)
    if part.cell == WHOLE:
        return False
    if one.is_regular and other.is_regular:
        return True
    # SAFE in one's regular part is everywhere; the agreed order before it is complete (O4, S1).
    first, second = (one, other) if one.is_regular else (other, one)
    return part.level == "SAFE" and first.is_regular and second.period.next_view is not None


def _strays(cells: Sequence[Cell], part: _Part, sums: dict[int, Sums]) -> Iterator[_Suspect]:
    """Yield the messages of transitional parts that another regular part must have, too."""
    if part.cell == WHOLE:
        return
    regular = tuple(cell.period.number for cell in cells if cell.is_regular)
    for cell in cells:
        if regular and not cell.is_regular and cell.period.number in sums:
            yield _Suspect(part, (cell.period.number,), regular)


# ---- row by row ----


def _examine(
    logs: "DataFrame",
    cells: Sequence[Cell],
    periods: Sequence[LogPeriod],
    suspects: Sequence[_Suspect],
    verdict: Verdict,
    most: int,
) -> None:
    classes = sorted({(suspect.having, suspect.needing) for suspect in suspects})
    table = [
        (
            period,
            s.part.cell,
            s.part.level,
            list(s.part.groups),
            classes.index((s.having, s.needing)),
        )
        for s in suspects
        for period in {*s.having, *s.needing}
    ]
    told: Counter[tuple[str, tuple[str, ...]]] = Counter()
    done: set[tuple[Any, ...]] = set()
    places = _places(logs, cells, table, [len({*h, *n}) for h, n in classes])
    for place in places:
        having, needing = classes[place["class"]]
        for violation in _check_place(place, having, needing, periods):
            key = (violation.name, violation.logs, place["view"], *(place[name] for name in KEY))
            if key in done:
                continue
            done.add(key)
            told[violation.name, violation.logs] += 1
            if told[violation.name, violation.logs] <= most:
                verdict.add(violation)
            else:
                verdict.counts[violation.name] += 1
    if len(places) == EXAMINED:
        verdict.notes.append(
            f"only the first {EXAMINED} positions that differ were examined one by one"
        )


def _places(
    logs: "DataFrame",
    cells: Sequence[Cell],
    suspects: Sequence[tuple[Any, ...]],
    sizes: Sequence[int],
) -> list[dict[str, Any]]:
    """Return the positions at which not all periods of a class have the same, with their rows."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    spark = logs.sparkSession
    schema = "period int, cell int, level string, groups array<string>, class int"
    suspected = spark.createDataFrame(list(suspects), schema)
    wanted = {(period, cell) for period, cell, *_ in suspects}
    rows = in_cells(logs, [c for c in cells if (c.period.number, c.number) in wanted])
    rows = rows.join(f.broadcast(suspected), ["period", "cell", "level", "groups"])
    size = f.element_at(f.array(*map(f.lit, sizes)), f.col("class") + 1)
    shown = f.struct(
        *("period", "row", "level", "groups", "sender", "number"),
        f.xxhash64("level", "groups", *CONTENTS).alias("hash"),
    )
    found = (
        rows.groupBy("view", "cell", *KEY, "class")
        .agg(f.collect_list(shown).alias("rows"))
        .filter(
            (f.size(f.array_distinct(f.col("rows.period"))) < size)
            | (f.size(f.array_distinct(f.col("rows.hash"))) > 1)
        )
        .orderBy("view", *KEY, "class")
        .limit(EXAMINED)
        .toArrow()
    )
    return found.to_pylist()  # type: ignore[no-any-return]


def _check_place(
    place: dict[str, Any],
    having: tuple[int, ...],
    needing: tuple[int, ...],
    periods: Sequence[LogPeriod],
) -> Iterator[Violation]:
    rows = {row["period"]: row for row in place["rows"]}
    there = [period for period in having if period in rows]
    where = f"{place['view']}/{'.'.join(str(place[name]) for name in KEY)}"
    hashes = {row["hash"] for row in place["rows"]}
    if len(hashes) > 1 and len({row["hash"] for row in rows.values()}) > 1:
        logs = tuple(sorted(periods[period].log for period in rows))
        texts = [f"{_describe(row, periods)}" for _, row in sorted(rows.items())]
        first = min(rows.values(), key=lambda row: periods[row["period"]].log)
        yield Violation(CONTENT, logs, first["row"], f"at {where}: {'; '.join(texts)}")
    if not there:
        return
    for period in needing:
        if period not in rows:
            one = rows[there[0]]
            name = _name(one, there, rows, periods)
            if periods[period].next_view is None and name == SAFE:
                name = AGREED_SET  # the period may have ended before
            holder = periods[there[0]]
            evidence = (
                f"{periods[period].log} lacks the message at {where} in {_describe(one, periods)}"
                f" ({len(there)} of {len(having)} have it)"
            )
            yield Violation(name, (holder.log, periods[period].log), one["row"], evidence)


def _name(
    one: dict[str, Any],
    there: list[int],
    rows: dict[int, dict[str, Any]],
    periods: Sequence[LogPeriod],
) -> str:
    """Return the promise that is broken where a log lacks a message."""
    if one["level"] not in ORDERED:
        return VIEW_SET
    was_safe = any(rows[period]["row"] < periods[period].transition for period in there)
    return SAFE if one["level"] == "SAFE" and was_safe else AGREED_SET


def _describe(row: dict[str, Any], periods: Sequence[LogPeriod]) -> str:
    log = periods[row["period"]].log
    return (
        f"{log} row {row['row']}: {row['level']} {row['sender']} number {row['number']}"
        f" to {' '.join(row['groups'])}"
    )
