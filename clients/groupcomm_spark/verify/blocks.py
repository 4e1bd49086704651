"""Checks of the rows of one receiver, one by one: order, causes, views. Arrays in, few numbers
out.

A block is some rows of a log. It is cut into pieces of consecutive rows in one period. Whatever
can be decided within a piece is decided here. For the rest a piece leaves *ends*. All rules of
order have one form: in a series each value is above all bounds before it. So of a series a piece
reports its least value and its highest bound, and `receivers` compares those of a piece with those
of the pieces before it. So the result does not depend on how Spark has distributed the rows.

For the comparison of logs a piece leaves sums of the hashes of its messages, for each cell (see
`comparing`), level and list of groups.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
from numpy.typing import NDArray

from groupcomm_log.view_periods import KEY
from groupcomm_spark.verify.numbers import CODES, GROUP_VIEW, NONE, GroupLists, Ints

UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = CODES.values()

SHOWN: Final = 50
"""The violations of one kind that are reported for a piece; others are counted."""


_AT_ONCE: Final = 1_000_000
"""Numbers of messages that are compared with each other at once, some 16 MB."""


class What(IntEnum):
    """The meaning of a line."""

    SPAN = 0  # a series: the rows of a piece
    FIFO = 1  # a series: the numbers of a sender
    AGREED = 2  # a series: positions
    CAUSES = 3  # a series: the packets of a ring, and V (docs/recorder.md)
    AGREED_CAUSES = 4  # a series: the stamps of agreed messages, and A (docs/recorder.md)
    SUMS = 5  # messages of a cell (key): level, count, sum and xor of hashes, index of groups (at)
    NUMBERS = 6  # numbers of a sender (key) below FIFO in a task: the least and the highest
    DOUBLED = 7  # numbers among which some occur twice: the least and the highest
    BROKEN_FIFO = 11  # a violation: a row, and an earlier row
    BROKEN_AGREED = 12
    BROKEN_CAUSES = 13
    WRONG_VIEW = 15
    FOREIGN_SENDER = 16
    COUNTS = 20  # numbers of rows: all, with causes, without


LINE: Final = (
    *("what", "log", "part", "key"),
    *("row", "value0", "value1", "value2", "value3"),
    *("at", "bound0", "bound1", "bound2", "bound3"),
)
"""For a series: its least value and the row of it, its highest bound and the row of that (NONE:
there is none). For a violation: `row` should not be there, `at` is the earlier row that it
contradicts; if it represents others, too, `value0` is their number.
"""

LINES: Final = pa.schema(
    [*(pa.field(name, pa.int64()) for name in LINE), pa.field("groups", pa.list_(pa.string()))]
)


@dataclass(frozen=True)
class Cells:
    """The cells of one period; see `comparing`.

    Attributes:
        view: the code of the period's view.
        first: the number of the first cell.
        edges: the bounds of the cells, each four numbers: a cell is above one, up to the next.
    """

    view: int
    first: int
    edges: Ints


@dataclass(frozen=True)
class LogPlan:
    """The periods of one log, by row.

    Attributes:
        first: the first row of each period.
        number: the number of each period.
        session, era: the session and the era of each period; see LogPeriod.
        view: the code of each period's view, where it is known.
        is_known: whether the view is known, or it is known that there is none.
        daemons: codes of the names of its daemons; None if they are unknown.
        cells: the cells of each period; None if it is compared with no other.
    """

    first: Ints
    number: list[int]
    session: list[int]
    era: list[int]
    view: list[int | None]
    is_known: list[bool]
    daemons: list[Ints | None]
    cells: list[Cells | None]


Plan = dict[int, LogPlan]
"""The plan of each log, by the code of the log."""


def examine(log: int, columns: dict[str, Ints], contexts: pa.ListArray, plan: Plan) -> "Lines":
    """Return the violations in a block, and the ends and sums that it leaves.

    Args:
        log: the code of the log.
        columns: NUMBERS of the rows.
        contexts: the column `causal_context` of the rows.
        plan: periods of all logs.
    """
    columns = {**columns, "context": np.arange(len(contexts))}  # the index of its row
    row = columns["row"]
    if (row[1:] <= row[:-1]).any():
        order = np.argsort(row, kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
        row = columns["row"]
    lines, lists = Lines(), _Contexts(contexts)
    edges = [0, *(np.flatnonzero(row[1:] != row[:-1] + 1) + 1).tolist(), len(row)]
    for begin, end in pairwise(edges):
        lines.span(log, int(row[begin]), int(row[end - 1]))
        for start, stop, at in _periods(plan.get(log), row[begin:end]):
            part = slice(begin + start, begin + stop)
            piece = _Piece(log, {name: each[part] for name, each in columns.items()}, lists, lines)
            piece.examine(plan.get(log), at)
    return lines


def _periods(plan: LogPlan | None, rows: Ints) -> Iterator[tuple[int, int, int]]:
    """Yield the bounds of pieces, and the index of their period in the log."""
    if plan is None:
        yield 0, len(rows), NONE
        return
    inner = plan.first[(plan.first > rows[0]) & (plan.first <= rows[-1])]
    edges = [0, *np.searchsorted(rows, inner).tolist(), len(rows)]
    for start, stop in pairwise(edges):
        if start < stop:
            yield start, stop, int(np.searchsorted(plan.first, rows[start], side="right")) - 1


class _Contexts:
    """The lists of numbers of a block."""

    def __init__(self, lists: pa.ListArray) -> None:
        offsets = np.asarray(lists.offsets).astype(np.int64)
        self.start = offsets[:-1]
        self.size = np.diff(offsets)
        self.size[np.asarray(lists.is_null())] = 0
        self.values = np.asarray(lists.values)


@dataclass
class Lines:
    """A collector of lines."""

    parts: list[Ints] = field(default_factory=list)

    def add(self, what: What, log: int, columns: Sequence[Any], part: int = 0) -> None:
        """Add lines from the column `key` on; values that are not given are NONE."""
        count = max(
            (len(column) for column in columns if isinstance(column, np.ndarray)), default=1
        )
        lines = np.full((count, len(LINE)), NONE, np.int64)
        lines[:, 0], lines[:, 1], lines[:, 2] = what, log, part
        for at, column in enumerate(columns, 3):
            lines[:, at] = column
        self.parts.append(lines)

    def span(self, log: int, first: int, last: int) -> None:
        """Add a line for consecutive rows."""
        self.add(What.SPAN, log, [0, first, first, 0, 0, 0, last, last, 0, 0, 0])

    def broken(self, what: What, log: int, rows: Ints, earlier: Ints | int = NONE) -> None:
        """Add lines for rows at wrong places."""
        if not len(rows):
            return
        shown = min(len(rows), SHOWN)
        for_others = np.ones(shown, np.int64)
        for_others[-1] += len(rows) - shown
        at = earlier if isinstance(earlier, int) else earlier[:shown]
        self.add(what, log, [0, rows[:shown], for_others, 0, 0, 0, at])

    def batch(self, lists: GroupLists) -> pa.RecordBatch:
        """Return all lines, those of sums with their groups."""
        table = np.concatenate(self.parts) if self.parts else np.empty((0, len(LINE)), np.int64)
        at = pa.array(table[:, LINE.index("at")], mask=table[:, 0] != What.SUMS)
        groups = pa.array(lists.names, pa.list_(pa.string())).take(at)
        columns = [*(pa.array(column) for column in table.T), groups]
        return pa.RecordBatch.from_arrays(columns, schema=LINES)


_Places = tuple[Ints, list[Ints]]
"""Indices of rows of a piece, and for each a number or the two of a pair."""


class _Piece:
    """Consecutive rows in one period."""

    def __init__(
        self, log: int, columns: dict[str, Ints], contexts: _Contexts, lines: Lines
    ) -> None:
        self._log = log
        self._columns = columns
        self._contexts = contexts
        self._lines = lines
        self._row = columns["row"]
        self._code = columns["code"]

    def examine(self, plan: LogPlan | None, at: int) -> None:
        """Check everything that can be decided, and leave the ends of the rest."""
        session, era = (NONE, NONE) if plan is None else (plan.session[at], plan.era[at])
        self._examine_numbers(session)
        if plan is not None:
            self._examine_views(plan, at)
            self._sum(plan.number[at], plan.cells[at])
        self._examine_positions(era)
        self._examine_causes(era)

    def _examine_views(self, plan: LogPlan, at: int) -> None:
        placed = ((self._code >= RELIABLE) & (self._code <= GROUP_VIEW)).astype(bool)
        if plan.is_known[at]:
            view = plan.view[at]
            wrong = placed if view is None else placed & (self._columns["view"] != view)
            self._lines.broken(What.WRONG_VIEW, self._log, self._row[wrong])
        daemons = plan.daemons[at]
        if daemons is not None:
            foreign = (self._code <= SAFE) & ~np.isin(self._columns["daemon"], daemons)
            self._lines.broken(What.FOREIGN_SENDER, self._log, self._row[foreign])

    def _examine_numbers(self, session: int) -> None:
        """Check that the numbers of each sender increase."""
        at = np.flatnonzero((self._code >= FIFO) & (self._code <= SAFE))
        if not len(at):
            return
        sender = self._columns["sender"][at]
        found, distinct = pd.factorize(sender)  # small numbers are sorted many times as fast
        order = np.argsort(found.astype(np.min_scalar_type(len(distinct))), kind="stable")
        at, sender = at[order], sender[order]
        row, number = self._row[at], self._columns["number"][at]
        same = sender[1:] == sender[:-1]
        falls = same & (number[1:] <= number[:-1])
        self._lines.broken(What.BROKEN_FIFO, self._log, row[1:][falls], row[:-1][falls])
        cuts = np.flatnonzero(~same)
        first, last = np.concatenate(([0], cuts + 1)), np.concatenate((cuts, [len(at) - 1]))
        columns = [sender[first], row[first], number[first], 0, 0, 0]
        columns += [row[last], number[last], 0, 0, 0]
        self._lines.add(What.FIFO, self._log, columns, session)

    def _examine_positions(self, era: int) -> None:
        """Check that the positions of the agreed order increase."""
        at = np.flatnonzero((self._code >= AGREED) & (self._code <= GROUP_VIEW))
        if not len(at):
            return
        row = self._row[at]
        keys = [self._columns[name][at] for name in KEY]
        is_view = self._code[at] == GROUP_VIEW
        rises = is_view[1:] & is_view[:-1]  # one event may change several groups
        for key in reversed(keys):
            rises = (key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & rises)
        self._lines.broken(What.BROKEN_AGREED, self._log, row[1:][~rises], row[:-1][~rises])
        keys[-1] = 2 * keys[-1]  # a group view may have the place of the previous one
        first = [*(key[0] for key in keys[:-1]), keys[-1][0] + is_view[0]]
        ends = [row[0], *first, row[-1], *(key[-1] for key in keys)]
        self._lines.add(What.AGREED, self._log, [0, *ends], era)

    # ---- sums ----

    def _sum(self, period: int, cells: Cells | None) -> None:
        """Sum up the messages of each cell, level and list of groups."""
        if cells is None:
            return
        code = self._code
        cell = np.where(code >= AGREED, self._cells(cells), NONE)  # without order: the whole view
        counts = (code >= RELIABLE) & (code <= SAFE) & (self._columns["view"] == cells.view)
        at = np.flatnonzero(counts & ((code < AGREED) | (cell >= cells.first)))
        if not len(at):
            return
        groups = self._columns["groups"][at]
        part = ((cell[at] + 1) * len(CODES) + code[at]) * (int(groups.max()) + 1) + groups
        order = np.argsort(part.astype(np.min_scalar_type(int(part.max()))), kind="stable")
        at, part = at[order], part[order]
        start = np.concatenate(([0], np.flatnonzero(part[1:] != part[:-1]) + 1))
        count = np.diff([*start, len(at)])
        hashes, first = self._columns["hash"][at], at[start]
        sums = [np.add.reduceat(hashes, start), np.bitwise_xor.reduceat(hashes, start)]
        columns = [cell[first], code[first], count, *sums, 0, self._columns["groups"][first]]
        self._lines.add(What.SUMS, self._log, columns, period)

    def _cells(self, cells: Cells) -> Ints:
        """Return the number of the cell of each position; before the first cell a lower one."""
        keys = [self._columns[name] for name in KEY]
        found = np.full(len(self._row), cells.first - 1)
        for edge in cells.edges.tolist():
            above = np.zeros(len(self._row), bool)
            for key, bound in zip(reversed(keys), reversed(edge), strict=True):
                above = (key > bound) | ((key == bound) & above)
            found += above
        return found

    # ---- causes ----

    def _examine_causes(self, era: int) -> None:
        """Check that no message comes after one that depends on it."""
        place = self._columns["context"]
        size = self._contexts.size[place]
        lower = (self._code >= RELIABLE) & (self._code < AGREED)
        bound = (self._code >= CAUSAL) & (self._code <= SAFE) & (size > 3)
        placed = int(np.count_nonzero((self._code >= RELIABLE) & (self._code <= SAFE)))
        known = int(np.count_nonzero((self._code >= RELIABLE) & (self._code <= SAFE) & (size > 0)))
        self._lines.add(What.COUNTS, self._log, [0, len(self._row), known, placed - known])
        if not known:
            return
        self._examine_packets(era, lower & (size > 0), bound, size)
        self._examine_stamps(era, bound)

    def _value(self, chosen: Ints, at: int) -> Ints:
        """Return one number of each context."""
        values: Ints = self._contexts.values[self._contexts.start[chosen] + at]
        return values

    def _examine_packets(
        self, era: int, lower: NDArray[np.bool_], bound: NDArray[np.bool_], size: Ints
    ) -> None:
        """Check below AGREED: packets of each ring, and V."""
        place, at = self._columns["context"], np.flatnonzero(lower)
        packet, ring = self._value(place[at], 0), self._columns["ring"][at]
        rings = set(np.unique(ring).tolist())
        rings |= set(range(int(size[bound].max()) - 3 if bound.any() else 0))
        for one in sorted(rings):
            has = np.flatnonzero(bound & (size > 3 + one))
            heard = self._value(place[has], 3 + one)
            mine, told = ring == one, heard > NONE
            values, bounds = (at[mine], [packet[mine]]), (has[told], [heard[told]])
            self._series(What.CAUSES, What.BROKEN_CAUSES, era, one, values, bounds)

    def _examine_stamps(self, era: int, bound: NDArray[np.bool_]) -> None:
        """Check AGREED and above: stamps and A."""
        at = np.flatnonzero((self._code >= AGREED) & (self._code <= GROUP_VIEW))
        has = np.flatnonzero(bound)
        place = self._columns["context"][has]
        values = at, [self._columns["stamp"][at], self._columns["ring"][at]]
        bounds = has, [self._value(place, 1), self._value(place, 2)]
        self._series(What.AGREED_CAUSES, What.BROKEN_CAUSES, era, 0, values, bounds)

    def _series(
        self, what: What, broken: What, part: int, key: int, values: _Places, bounds: _Places
    ) -> None:
        """Check that each value is above all bounds in rows before it."""
        (value_at, value), (bound_at, bound) = values, bounds
        line: list[Any] = [NONE] * 10
        if len(value_at):
            least = _at_end(value, np.min, np.argmin)
            line[: 1 + len(value)] = [self._row[value_at[least]], *(v[least] for v in value)]
        if len(bound_at):
            most = _at_end(bound, np.max, np.argmax)
            line[5 : 6 + len(bound)] = [self._row[bound_at[most]], *(b[most] for b in bound)]
        if len(value_at) or len(bound_at):
            self._lines.add(what, self._log, [key, *line], part)
        before = np.searchsorted(bound_at, value_at, side="left") - 1
        near = before >= 0
        near[near] = value[0][near] <= np.maximum.accumulate(bound[0])[before[near]]
        if near.any():
            ranks, bounds_ranks = _ranked(value, bound)
            highest = np.maximum.accumulate(bounds_ranks)
            wrong = near & (ranks <= highest[before])
            first = np.searchsorted(highest, ranks[wrong], side="left")
            self._lines.broken(
                broken, self._log, self._row[value_at[wrong]], self._row[bound_at[first]]
            )


def _at_end(
    columns: list[Ints], end: Callable[[Ints], np.int64], pick: Callable[[Ints], np.intp]
) -> int:
    """Return the first index of the least or the highest of tuples of one number or two."""
    if len(columns) == 1:
        return int(pick(columns[0]))
    at = np.flatnonzero(columns[0] == end(columns[0]))
    return int(at[pick(columns[1][at])])


def _ranked(values: list[Ints], bounds: list[Ints]) -> tuple[Ints, Ints]:
    """Return numbers that compare as the pairs do; single values are returned as they are."""
    if len(values) == 1:
        return values[0], bounds[0]
    count = len(values[0])
    high, low = (np.concatenate(pair) for pair in zip(values, bounds, strict=True))
    order = np.lexsort((low, high))
    high, low = high[order], low[order]
    rises = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.concatenate(([0], np.cumsum(rises)))
    return rank[:count], rank[count:]


class Numbers:
    """The numbers of messages below FIFO, of which none may occur twice in a session.

    The numbers of other messages show whether they come twice: they increase.
    """

    def __init__(self) -> None:
        self._log = NONE
        self._parts: list[tuple[Ints, Ints]] = []
        self._count = 0

    def add(self, log: int, columns: dict[str, Ints]) -> Lines:
        """Add rows; return the lines of those before, if they are enough or of another log."""
        lines = self.lines() if log != self._log or self._count >= _AT_ONCE else Lines()
        at = np.flatnonzero(columns["code"] <= RELIABLE)
        self._log, self._count = log, self._count + len(at)
        self._parts.append((columns["sender"][at], columns["number"][at]))
        return lines

    def lines(self) -> Lines:
        """Return the numbers of each sender, and those that occur twice; begin anew."""
        lines, parts = Lines(), self._parts
        self._parts, self._count = [], 0
        if not sum(len(sender) for sender, _ in parts):
            return lines
        sender, number = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((number, sender))
        sender, number = sender[order], number[order]
        same = sender[1:] == sender[:-1]
        last = np.concatenate((np.flatnonzero(~same), [len(sender) - 1]))
        first = np.concatenate(([0], last[:-1] + 1))
        none = [0, 0, 0]
        columns = [sender[first], 0, number[first], *none, 0, number[last]]
        lines.add(What.NUMBERS, self._log, columns)
        twice = number[1:][same & (number[1:] == number[:-1])]
        if len(twice):
            columns = [0, 0, twice.min(), *none, 0, twice.max()]
            lines.add(What.DOUBLED, self._log, columns)
        return lines
