"""Rows that are not messages, read once: a task reads those of a log, in the order of their rows.

It cuts the log into periods and checks the views of groups against those before. The driver gets
what is left of a log: periods and violations; and the views of groups only if they are few.
"""

import json
import pickle
from collections.abc import Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import groupby, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupcomm_log.schema import DAEMONS, GAP, VIEW
from groupcomm_log.view_periods import KEY, NEVER
from groupcomm_spark.reading.rows import has_any
from groupcomm_spark.verify.groups import GroupViews, changes_of
from groupcomm_spark.verify.numbers import Ints, filled
from groupcomm_spark.verify.periods import (
    FOR_EVER,
    ROWS_LOST,
    Cutter,
    Events,
    LogPeriod,
    Lost,
    Row,
)
from groupcomm_spark.verify.sources import Batches, Source

COLUMNS: Final = (
    *("row", "kind", "view", *KEY, "sender", "groups", "data"),
    *("members", "changed", "cause", "vs_set"),
)
_PLAIN: Final = tuple(name for name in COLUMNS if name != "members")

_AT_ONCE: Final = 200
"""Rows with lists of names that are Python's objects at a time."""

FEW_VIEWS: Final = 2000
FEW_NAMES: Final = 20_000
"""The most views of groups of a log, and names in their lists, that the driver gets."""


def read_events(logs: Source, lost: Lost) -> Events:
    """Return what the events of all logs say."""
    found = logs.events(COLUMNS, partial(_examine, lost=lost, few=FEW_VIEWS), _RESULT).sort_by(
        "log"
    )
    every = Events(lost={log: list(rows) for log, rows in lost.items()})
    for result in found["result"]:
        # It comes from `_examine`, as the results of Spark's own tasks do, by the same way.
        _add(pickle.loads(result.as_buffer()), every)
    return every


def _add(events: Events, every: Events) -> None:
    before = len(every.periods)
    for period in events.periods:
        period.number += before
    every.periods += events.periods
    for log, rows in events.lost.items():
        every.lost.setdefault(log, []).extend(rows)
    every.broken += events.broken
    every.many |= events.many
    for batch in events.views:
        numbers = pc.add(batch["period"], before)
        at = batch.schema.get_field_index("period")
        every.views.append(batch.set_column(at, "period", numbers))


_RESULT: Final = pa.schema([pa.field("log", pa.string()), pa.field("result", pa.binary())])


def _examine(batches: Batches, *, lost: Lost, few: int) -> Iterator[pa.RecordBatch]:
    """Read the events of logs, in a task; return a line for each log."""
    for log, of_log in groupby(batches, key=lambda part: part[0]):
        reader = _Reader(log, lost.get(log, ()), few)
        for _, batch in of_log:
            reader.add(batch)
        result = pickle.dumps(reader.end())
        yield pa.RecordBatch.from_pydict({"log": [log], "result": [result]}, _RESULT)


class _Reader:
    """A reader of the events of one log, in order."""

    def __init__(self, log: str, lost: Sequence[tuple[int, int]], few: int) -> None:
        self._log = log
        self._few = few
        self._cutter = Cutter(log)
        self._sessions: set[str] = set()
        self._gaps = [{"kind": ROWS_LOST, "row": first} for first, _ in sorted(lost)]
        self._views = GroupViews()
        self._seen: dict[int, set[str]] = {}
        self._names = 0
        self._found = Events(periods=self._cutter.periods)

    def add(self, batch: pa.RecordBatch) -> None:
        """Read the next rows."""
        last = batch["row"][-1].as_py()
        self._cut([gap for gap in self._gaps if gap["row"] <= last], self._rows(batch))
        self._gaps = [gap for gap in self._gaps if gap["row"] > last]
        views = batch.filter(pc.equal(batch["kind"], VIEW))
        if views.num_rows:
            self._add_views(views)

    def end(self) -> Events:
        """Return what all rows say."""
        self._cut(self._gaps, iter(()))
        for number, groups in self._seen.items():
            self._cutter.periods[number].seen = tuple(groups)
        return self._found

    def _cut(self, gaps: list[dict[str, Any]], rows: Iterator[Row]) -> None:
        for row in merge(rows, gaps, key=lambda row: row["row"]):
            if row["kind"] == GAP and row["cause"] == "damage":
                ends = json.loads(row["data"]).get("rows")
                if ends is not None:
                    self._found.lost.setdefault(self._log, []).append((ends[0], ends[1]))
            self._cutter.event(row)

    def _rows(self, batch: pa.RecordBatch) -> Iterator[Row]:
        """Yield the rows that periods are cut by."""
        kind = batch["kind"]
        gaps = batch.filter(pc.equal(kind, GAP))
        self._sessions.update(gaps["sender"].drop_null().to_pylist())
        own = has_any(batch["changed"], pa.array(sorted(self._sessions), pa.string()))
        own = pc.and_(own, pc.fill_null(pc.equal(batch["cause"], "join"), False))
        network = pc.fill_null(pc.equal(batch["cause"], "network"), False)
        wanted = pc.or_(pc.not_equal(kind, VIEW), pc.or_(own, network))
        chosen = batch.filter(wanted)
        daemons = chosen.filter(pc.equal(chosen["kind"], DAEMONS))
        members = iter(daemons["members"].to_pylist())
        for start in range(0, chosen.num_rows, _AT_ONCE):
            for row in chosen.select(_PLAIN).slice(start, _AT_ONCE).to_pylist():
                yield {**row, "members": next(members)} if row["kind"] == DAEMONS else row

    def _add_views(self, batch: pa.RecordBatch) -> None:
        """Check group views, note what they say of their periods, and keep them if they are few."""
        periods = self._cutter.periods
        row = batch["row"].to_numpy()
        first = np.array([period.first for period in periods])
        numbers = np.searchsorted(first, row, side="right") - 1
        groups = [names[0] if names else "" for names in batch["groups"].to_pylist()]
        plain = batch.select(["row", "view", *KEY, "members", "changed", "cause", "vs_set"])
        batch = plain.append_column("group", pa.array(groups, pa.string()))
        for number, change in zip(numbers.tolist(), changes_of(batch), strict=True):
            for name, why in self._views.contradictions(periods[number], change):
                self._found.broken.append((name, self._log, change.row, why))
        edges = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
        keys = np.stack([filled(batch[name]) for name in KEY])
        for begin, end in pairwise(edges):
            at = int(numbers[begin])
            self._seen.setdefault(at, set()).update(groups[begin:end])
            _note(periods[at], row[begin:end], keys[:, begin:end])
        self._keep(batch, numbers)

    def _keep(self, batch: pa.RecordBatch, numbers: Ints) -> None:
        self._names += len(batch["members"].flatten()) + len(batch["vs_set"].flatten())
        rows = batch.num_rows + sum(each.num_rows for each in self._found.views)
        if self._found.many or rows > self._few or self._names > FEW_NAMES:
            self._found.many, self._found.views = {self._log}, []
        else:
            self._found.views.append(batch.append_column("period", pa.array(numbers)))


def _note(period: LogPeriod, row: Ints, keys: Ints) -> None:
    """Note in a period what its next group views say."""
    if period.first_change == FOR_EVER:
        period.first_change = int(row[0])
        if period.is_behind_gap and period.start == NEVER:
            period.start = tuple(keys[:, 0].tolist())
    regular = keys[:, row < period.transition]
    if regular.shape[1]:
        highest = np.lexsort(regular[::-1])[-1]
        period.regular_end = max(period.regular_end, tuple(regular[:, highest].tolist()))
