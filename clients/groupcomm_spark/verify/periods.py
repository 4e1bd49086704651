"""Logs cut into periods: the rows that one session of a recorder received in one view of daemons.

`groupcomm_log.view_periods` cuts in the same way; it knows the guarantees to a recorder, and when
they begin. Here many logs are cut at once, from the few rows that are not messages.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from groupcomm_log.schema import GAP, MESSAGE
from groupcomm_log.view_periods import FIRST, KEY, NEVER, GroupChange, Key
from groupcomm_spark.reading.options import LOG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = Mapping[str, Any]

FOR_EVER: Final = 2**63 - 1
"""The number after every row."""

ROWS_LOST: Final = "rows lost"
"""Kind of an event that no recorder wrote: rows are known to be missing from here on."""


@dataclass(frozen=True)
class Change(GroupChange):
    """A group view, as one session received it in a row of its log."""

    row: int
    view: str


@dataclass
class LogPeriod:
    """The rows that one session received in one view of daemons, or in a part of it.

    Attributes:
        number: index among all periods of all logs.
        log: name of the log.
        session: the number of the session in the log, from 0.
        era: the number shared by the periods of one session in one view, which gaps separate.
        member: the name of the session; empty if its beginning was removed from the log.
        view: id of the view of daemons; None without a view, or if it is unknown after a gap.
        daemons: daemons of the view; None if unknown.
        view_code, daemon_codes: their hashes, as the JVM computes them.
        first, end: first row, and number after the last row.
        joined: the groups of which it is a member at the end.
        start: the position after which nothing of the agreed order is missing; NEVER before it has
            joined.
        next_view: the view that followed for this session; None if none was delivered.
        came_along: the members that come to the next view with it, as far as it was notified.
        transition: the row from which on the view is transitional.
        regular_end: last position of the agreed order in the regular part of the view.
        changes: group views.
        is_behind_gap: `start` is the first position of the agreed order that comes.
    """

    number: int
    log: str
    session: int
    era: int
    member: str
    view: str | None
    first: int
    start: Key = NEVER
    joined: set[str] = field(default_factory=set)
    daemons: tuple[str, ...] | None = None
    majority: str | None = None
    view_code: int | None = None
    daemon_codes: tuple[int, ...] = ()
    end: int = FOR_EVER
    next_view: str | None = None
    came_along: frozenset[str] | None = None
    transition: int = FOR_EVER
    regular_end: Key = FIRST
    changes: list[Change] = field(default_factory=list)
    is_behind_gap: bool = False

    @property
    def is_throughout(self) -> bool:
        """Return whether it was a member in the whole view, and came to the next one."""
        return self.start == FIRST and self.next_view is not None


def are_together(one: LogPeriod, other: LogPeriod) -> bool:
    """Return whether both went from their view to the same next one together.

    They may have come from the same view to the same one, and have parted in between in a view that
    was delivered to no program; then neither is in the other's `vs_set`.
    """
    if one.next_view is None or one.next_view != other.next_view:
        return False
    told = [
        theirs.member in mine.came_along
        for mine, theirs in ((one, other), (other, one))
        if mine.came_along is not None
    ]
    return any(told) or not told


def read_events(logs: "DataFrame") -> list[dict[str, Any]]:
    """Return the rows that are not messages, by log and row, with the hashes of the JVM."""
    from pyspark.sql.functions import col, expr, xxhash64  # noqa: PLC0415 - an extra

    columns = ("row", "kind", "view", *KEY, "sender", "groups")
    found = (
        logs.filter(col("kind") != MESSAGE)
        .select(
            *(LOG, *columns, "members", "changed", "cause", "vs_set"),
            xxhash64(LOG).alias("log_code"),
            xxhash64("view").alias("view_code"),
            expr("transform(members, name -> xxhash64(name))").alias("member_codes"),
        )
        .toArrow()
        .to_pylist()
    )
    return sorted(found, key=lambda row: (row[LOG], row["row"]))


def cut_periods(
    events: Iterable[Row], lost: Mapping[str, Sequence[tuple[int, int]]] | None = None
) -> list[LogPeriod]:
    """Return the periods of all logs.

    Args:
        events: see `read_events`.
        lost: for each log, first and last of rows that are known to be missing.
    """
    by_log: dict[str, list[Row]] = {}
    for row in events:
        by_log.setdefault(row[LOG], []).append(row)
    periods: list[LogPeriod] = []
    for log, rows in by_log.items():
        gaps = [{"kind": ROWS_LOST, "row": first} for first, _ in (lost or {}).get(log, ())]
        cutter = _Cutter(log, periods)
        for row in sorted([*rows, *gaps], key=lambda row: row["row"]):
            cutter.event(row)
    return periods


class _Cutter:
    def __init__(self, log: str, periods: list[LogPeriod]) -> None:
        self._periods = periods
        self._period = LogPeriod(len(periods), log, -1, 0, "", None, first=0)
        periods.append(self._period)

    def event(self, row: Row) -> None:
        """Read a row that is not a message."""
        match row["kind"]:
            case "gap" if row["sender"] is not None:
                self._cut(row, session=self._period.session + 1, member=row["sender"], view=None)
            case "gap" | "rows lost":
                self._gap(row)
            case "daemons":
                self._next_view(row)
            case "transition":
                self._period.transition = min(self._period.transition, row["row"])
            case "view":
                self._group_view(row)
            case _:
                pass

    def _cut(self, row: Row, **new: Any) -> LogPeriod:
        old = self._period
        old.end = row["row"]
        self._period = LogPeriod(
            **{
                **{"number": len(self._periods), "log": old.log, "session": old.session},
                **{"era": old.era + 1, "member": old.member, "first": row["row"], **new},
            }
        )
        self._periods.append(self._period)
        return old

    def _gap(self, row: Row) -> None:
        """Begin a period of the same session after a gap; the next row shows its view."""
        old = self._period
        if old.view is None and not old.joined:
            return
        is_known = row["kind"] == GAP and row["cause"] == "overrun"
        self._cut(row, view=old.view if is_known else None, era=old.era + (not is_known))
        new = self._period
        new.joined, new.is_behind_gap = set(old.joined), True
        if is_known:
            new.daemons, new.majority = old.daemons, old.majority
            new.view_code, new.daemon_codes = old.view_code, old.daemon_codes
            if old.transition != FOR_EVER:
                new.transition = row["row"]

    def _next_view(self, row: Row) -> None:
        old = self._cut(row, view=row["view"])
        if old.view is not None or old.is_behind_gap:
            old.next_view = row["view"]
        new = self._period
        new.joined = set(old.joined)
        new.start = FIRST if new.joined else NEVER
        new.daemons, new.majority = tuple(row["members"]), row["cause"]
        new.view_code, new.daemon_codes = row["view_code"], tuple(row["member_codes"])

    def _group_view(self, row: Row) -> None:
        period = self._period
        change = Change(
            row=row["row"],
            view=row["view"],
            key=tuple(row[name] for name in KEY),
            group=row["groups"][0],
            members=tuple(row["members"]),
            changed=tuple(row["changed"]),
            cause=row["cause"],
            vs_set=tuple(row["vs_set"]),
        )
        if change.cause == "join" and period.member in change.changed:
            period.joined.add(change.group)
            period.start = change.key
            period.is_behind_gap = False
        elif period.is_behind_gap and period.start == NEVER:
            period.start = change.key
        if change.cause == "network" and not period.changes:
            self._note_came_along(period, frozenset(change.vs_set))
        period.changes.append(change)
        if row["row"] < period.transition:
            period.regular_end = max(period.regular_end, change.key)

    def _note_came_along(self, period: LogPeriod, came_along: frozenset[str]) -> None:
        """Note the members that came along from the previous view, which the first group view of
        this one shows.
        """
        before = self._periods[period.number - 1] if period.number else period
        if before.log == period.log and before.next_view == period.view:
            before.came_along = came_along


def read_lost_rows(logs: "DataFrame", events: Iterable[Row]) -> dict[str, list[tuple[int, int]]]:
    """Return for each log the ranges of rows that gaps report as missing."""
    from pyspark.sql.functions import col  # noqa: PLC0415 - an extra

    told: dict[str, list[tuple[int, int]]] = {}
    if any(row["kind"] == GAP and row["cause"] == "damage" for row in events):
        gaps = logs.filter((col("kind") == GAP) & (col("cause") == "damage"))
        for row in gaps.select(LOG, "data").collect():
            rows = json.loads(bytes(row["data"])).get("rows")
            if rows is not None:
                told.setdefault(row[LOG], []).append((rows[0], rows[1]))
    return told
