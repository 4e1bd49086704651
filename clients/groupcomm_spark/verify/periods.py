"""Logs cut into periods: the rows that one session of a recorder received in one view of daemons.

`groupcomm_log.view_periods` cuts in the same way; it knows the guarantees to a recorder, and when
they begin. Here a log is cut from rows that are neither messages nor views of groups,
and from those few views of groups that show which session is a member, and who came along.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from groupcomm_log.schema import GAP
from groupcomm_log.view_periods import FIRST, KEY, NEVER, Key
from groupcomm_spark.reading.options import LOG
from groupcomm_spark.verify.numbers import code_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = Mapping[str, Any]

FOR_EVER: Final = 2**63 - 1
"""The number after every row."""

ROWS_LOST: Final = "rows lost"
"""Kind of an event that no recorder wrote: rows are known to be missing from here on."""


@dataclass(slots=True)
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
        view_code, daemon_codes: their codes.
        first, end: first row, and number after the last row.
        joined: the groups of which it is a member at the end.
        start: the position after which nothing of the agreed order is missing; NEVER before it has
            joined.
        next_view: the view that followed for this session; None if none was delivered.
        came_along: the members that come to the next view with it, as far as it was notified.
        transition: the row from which on the view is transitional.
        regular_end: last position of the agreed order in the regular part of the view.
        first_change: the row of its first group view.
        seen: the groups of which it received views.
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
    came_along: tuple[str, ...] | None = None
    transition: int = FOR_EVER
    regular_end: Key = FIRST
    first_change: int = FOR_EVER
    seen: tuple[str, ...] = ()
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


Lost = Mapping[str, Sequence[tuple[int, int]]]
"""For each log, first and last of rows that are known to be missing."""


@dataclass
class Events:
    """What the events of one log, or of all, say.

    Attributes:
        periods: the periods of logs, in order.
        lost: for each log, first and last of rows that gaps report as missing.
        broken: the rules that group views of one log break: the name, the log, the row and why.
        views: group views, with their periods, of logs that have few of them.
        many: the logs that have more.
    """

    periods: list[LogPeriod] = field(default_factory=list)
    lost: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    broken: list[tuple[str, str, int, str]] = field(default_factory=list)
    views: list[pa.RecordBatch] = field(default_factory=list)
    many: set[str] = field(default_factory=set)


class Cutter:
    """A cutter of one log.

    Attributes:
        periods: its periods so far.
    """

    def __init__(self, log: str) -> None:
        self.periods: list[LogPeriod] = []
        self._known: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # each list of names once
        self._period = LogPeriod(0, log, -1, 0, "", None, first=0)
        self.periods.append(self._period)

    def event(self, row: Row) -> None:
        """Read a row that is not a message, or ROWS_LOST; of group views, only those of changes of
        the view of daemons, and with which a recorder joins, are needed.
        """
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
                **{"number": len(self.periods), "log": old.log, "session": old.session},
                **{"era": old.era + 1, "member": old.member, "first": row["row"], **new},
            }
        )
        self.periods.append(self._period)
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
        new.daemons, new.majority = self._once(row["members"]), row["cause"]
        new.view_code = code_of(row["view"])
        new.daemon_codes = self._once([code_of(name) for name in row["members"]])

    def _once(self, names: Sequence[Any]) -> tuple[Any, ...]:
        """Return the names as the tuple that earlier lists of the same names became."""
        return self._known.setdefault(tuple(names), tuple(names))

    def _group_view(self, row: Row) -> None:
        period = self._period
        if row["cause"] == "join" and period.member in row["changed"]:
            period.joined.add(row["groups"][0])
            period.start = tuple(row[name] for name in KEY)
            period.is_behind_gap = False
        elif row["cause"] == "network" and period.number:
            before = self.periods[period.number - 1]
            if (before.log, before.next_view) == (period.log, period.view):
                # The first group view of a view shows who came along from the view before.
                before.came_along = before.came_along or self._once(row["vs_set"])


Plan = dict[str, NDArray[np.int64]]
"""For each log three rows of numbers: the first row of each period, its number, the row from which
on it is transitional."""


def make_plan(periods: Sequence[LogPeriod]) -> Plan:
    """Return the plan of all periods."""
    return {
        log: np.array([(each.first, each.number, each.transition) for each in of_log], np.int64).T
        for log, of_log in groupby(periods, key=lambda period: period.log)
    }


def find_periods(plan: Plan, batch: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return for rows with `log` and `row` the numbers of their periods, and whether they are in
    the regular part.
    """
    names, row = batch[LOG].dictionary_encode(), batch["row"].to_numpy()
    found = np.empty((2, batch.num_rows), np.int64)
    for code, name in enumerate(names.dictionary.to_pylist()):
        mine = names.indices.to_numpy() == code
        at = np.searchsorted(plan[name][0], row[mine], side="right") - 1
        found[:, mine] = plan[name][1:, at]
    return found[0], row < found[1]


def in_periods(rows: "DataFrame", plan: Plan) -> "DataFrame":
    """Return rows with the columns `period` and `regular`; see `find_periods`."""
    from pyspark.sql.types import BooleanType, LongType, StructField, StructType  # noqa: PLC0415

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            period, regular = find_periods(plan, batch)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(period), pa.array(regular)],
                names=[*batch.schema.names, "period", "regular"],
            )

    added = [StructField("period", LongType()), StructField("regular", BooleanType())]
    return rows.mapInArrow(run, StructType([*rows.schema, *added]))
