"""The comparison of two recorders: checks that each level's guarantees to two members hold for
their logs.

Group views, AGREED and SAFE messages must be the same, in the same order, for as long as both are
members. RELIABLE, FIFO and CAUSAL messages must be the same set in each view of daemons throughout
which both are members, and from which both continue into the same next view. UNRELIABLE promises
nothing.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from groupcomm_log.reader import LogReader, OnDamage
from groupcomm_log.view_periods import (
    FIRST,
    KEY,
    NEVER,
    NO_MESSAGES,
    ORDERED,
    SEPARATOR,
    UNORDERED,
    GroupChange,
    Key,
    ViewPeriod,
    read_periods,
)

SHOWN: Final = 5
"""The differences of one kind in one view that are shown one by one."""


_Row = tuple[Key, str, int]
"""A group view or a message: its key, its text, and a digest of the rest."""


@dataclass
class Comparison:
    """The result of a comparison.

    Attributes:
        views: number of times that both were in one view of daemons.
        changes: number of compared group views.
        compared: number of compared messages, by level.
        left_out: number of messages below AGREED from views in which not both were members
            throughout.
        differences: the differences, one sentence each.
    """

    views: int = 0
    changes: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    differences: list[str] = field(default_factory=list)


def compare(left: Path, right: Path, on_damage: OnDamage) -> Comparison:
    """Compare two logs.

    Raises:
        LogError: one of them is no log.
        OSError: a file cannot be read.
    """
    found = Comparison()
    others: dict[str, list[ViewPeriod]] = {}
    for period in read_periods(LogReader(right, on_damage)):
        others.setdefault(period.view, []).append(period)
    for period in read_periods(LogReader(left, on_damage)):
        for other in others.get(period.view, []):
            _Pair(period, other, found).compare()
    return found


class _Pair:
    """Two sessions in one view of daemons."""

    def __init__(self, left: ViewPeriod, right: ViewPeriod, found: Comparison) -> None:
        self._periods = left, right
        self._found = found
        self._groups = left.joined & right.joined
        self._start = max(left.start, right.start)
        together = left.next_view is not None and left.next_view == right.next_view
        # While the view is regular, a log has its part of the agreed order without a gap.
        self._end = NEVER if together else min(left.regular_end, right.regular_end)
        self._throughout = together and left.start == right.start == FIRST

    def compare(self) -> None:
        """Add the differences to the result."""
        if self._start == NEVER or not self._groups:
            return
        self._found.views += 1
        self._compare_changes()
        self._compare_messages("in the agreed order", ORDERED, sort=False)
        if self._throughout:
            self._compare_messages("in this view", UNORDERED, sort=True)
        else:
            self._found.left_out += len(self._messages(self._periods[0], UNORDERED, sort=False))

    def _compare_changes(self) -> None:
        one, other = self._periods
        left = [_change(change, other.member) for change in self._changes(one)]
        right = [_change(change, one.member) for change in self._changes(other)]
        self._found.changes += len(left)
        if left != right:
            self._add_differences("group views", left, right)

    def _changes(self, period: ViewPeriod) -> list[GroupChange]:
        return [
            change
            for change in period.changes
            if self._start <= change.key <= self._end and change.group in self._groups
        ]

    def _compare_messages(self, where: str, levels: tuple[str, ...], *, sort: bool) -> None:
        left, right = (self._messages(period, levels, sort=sort) for period in self._periods)
        for count in pc.value_counts(left["level"]).to_pylist():
            self._found.compared[count["values"]] += count["counts"]
        if not left.equals(right):
            self._add_differences(f"messages {where}", _rows(left), _rows(right))

    def _messages(self, period: ViewPeriod, levels: tuple[str, ...], *, sort: bool) -> pa.Table:
        table = pa.concat_tables(period.messages) if period.messages else NO_MESSAGES
        table = table.filter(
            pc.and_(pc.is_in(table["level"], pa.array(levels)), self._is_shared(table["groups"]))
        )
        if self._start != FIRST:
            table = table.filter(_is_behind(table, self._start))
        if self._end != NEVER:
            table = table.filter(pc.invert(_is_behind(table, self._end)))
        if sort:
            table = table.sort_by([(name, "ascending") for name in KEY])
        return table.combine_chunks()

    def _is_shared(self, groups: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return which destinations include a group of which both are members."""
        shared = [
            text
            for text in pc.unique(groups).to_pylist()
            if not self._groups.isdisjoint(text.split(SEPARATOR))
        ]
        return pc.is_in(groups, pa.array(shared, pa.string()))

    def _add_differences(self, what: str, left: list[_Row], right: list[_Row]) -> None:
        view, told = self._periods[0].view, self._found.differences
        for which, rows in (("first", left), ("second", right)):
            only = [*(Counter(rows) - Counter(right if rows is left else left))]
            told += [
                f"{what}: only the {which} log has {_place(view, key)} {text}"
                for key, text, _ in only[:SHOWN]
            ]
            if len(only) > SHOWN:
                told.append(f"{what}: {len(only) - SHOWN} more that only the {which} log has")
        if Counter(left) == Counter(right):
            at = next(i for i, (a, b) in enumerate(zip(left, right, strict=True)) if a != b)
            told.append(f"{what}: another order from {_place(view, left[at][0])} on")


def _change(change: GroupChange, other: str) -> _Row:
    """Return the part of a group view that both must have; the vs_set only if the other is in
    it.
    """
    came_along = f", came along {' '.join(change.vs_set)}" if other in change.vs_set else ""
    text = (
        f"{change.group}: {change.cause} {' '.join(change.changed)}".rstrip()
        + f", members {' '.join(change.members)}{came_along}"
    )
    return change.key, text, 0


def _place(view: str, key: Key) -> str:
    return f"{view}/{'.'.join(map(str, key))}"


def _rows(table: pa.Table) -> list[_Row]:
    return [
        (
            tuple(row[name] for name in KEY),
            f"{row['level']} to {' '.join(row['groups'].split(SEPARATOR))}",
            row["digest"],
        )
        for row in table.to_pylist()
    ]


def _is_behind(table: pa.Table, key: Key) -> pa.ChunkedArray:
    """Return the positions above a given one."""
    behind = pa.scalar(False)
    for name, least in reversed([*zip(KEY, key, strict=False)]):
        column = table[name]
        behind = pc.or_(pc.greater(column, least), pc.and_(pc.equal(column, least), behind))
    return behind
