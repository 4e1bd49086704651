"""The first and last messages of the agreed order in periods, which events do not show."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from groupcomm_log.schema import MESSAGE
from groupcomm_log.view_periods import KEY, ORDERED, Key
from groupcomm_spark.verify.numbers import NONE, Ints, coded, filled
from groupcomm_spark.verify.periods import LogPeriod
from groupcomm_spark.verify.sources import Batches, Source

_COLUMNS: Final = ("row", "kind", "view", *KEY, "level")
_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.int64()) for name in ("period", "seen")),
        pa.field("view", pa.string()),
        *(pa.field(end, pa.list_(pa.int64())) for end in ("first", "last")),
    ]
)


@dataclass
class Ends:
    """The ends of one period.

    Attributes:
        view: the view of its first row that has one.
        seen: that row.
        first, last: row and position of the first message of the agreed order in the period, and of
            the last one in its regular part, by the view in their positions.
    """

    view: str
    seen: int
    first: dict[str | None, tuple[int, Key]] = field(default_factory=dict)
    last: dict[str | None, tuple[int, Key]] = field(default_factory=dict)


def find_ends(logs: Source, periods: Sequence[LogPeriod]) -> dict[int, Ends]:
    """Return the ends of periods, by their numbers; a period without positions has none."""
    spans: dict[str, list[tuple[int, int, int, int]]] = {}
    ranges: dict[str, list[tuple[int, int]]] = {}
    for each in sorted(periods, key=lambda period: period.number):
        spans.setdefault(each.log, []).append((each.first, each.end, each.transition, each.number))
        ranges.setdefault(each.log, []).append((each.first, each.end))
    plan = {log: np.array(of_log, np.int64).T for log, of_log in spans.items()}
    lines = logs.rows(_COLUMNS, partial(_find, plan=plan), _SCHEMA, ranges)
    found: dict[int, Ends] = {}
    for line in lines.to_pylist():
        _add(found.setdefault(line["period"], Ends(line["view"], line["seen"])), line)
    return found


def _add(ends: Ends, line: dict[str, Any]) -> None:
    view = line["view"]
    if line["seen"] < ends.seen:
        ends.view, ends.seen = view, line["seen"]
    for known, told, pick in ((ends.first, line["first"], min), (ends.last, line["last"], max)):
        if told is not None:
            end = told[0], tuple(told[1:])
            known[view] = pick(known.get(view, end), end)


def _find(batches: Batches, *, plan: dict[str, Ints]) -> Iterator[pa.RecordBatch]:
    """Find the ends in each batch, in a task."""
    for log, batch in batches:
        if log not in plan or not batch.num_rows:
            continue
        row = filled(batch["row"])
        first, end, transition, number = plan[log]
        near = range(
            int(np.searchsorted(end, row.min(), side="right")),
            int(np.searchsorted(first, row.max(), side="right")),
        )
        codes = coded(batch["kind"], lambda kind: kind == MESSAGE)
        ordered = (codes == 1) & (coded(batch["level"], lambda level: level in ORDERED) == 1)
        views = batch["view"]
        views = views if isinstance(views, pa.DictionaryArray) else views.dictionary_encode()
        view = filled(views.indices)
        keys = [row, *(filled(batch[name]) for name in KEY)]
        lines = []
        for at in near:
            inside = (row >= first[at]) & (row < end[at])
            for code in np.unique(view[inside & (view != NONE)]).tolist():
                here = inside & (view == code)
                lines.append(
                    {
                        "period": int(number[at]),
                        "seen": int(row[here].min()),
                        "view": views.dictionary[code].as_py(),
                        "first": _end(keys, here & ordered, np.argmin),
                        "last": _end(keys, here & ordered & (row < transition[at]), np.argmax),
                    }
                )
        yield pa.RecordBatch.from_pylist(lines, _SCHEMA)


def _end(
    keys: list[Ints], chosen: NDArray[np.bool_], pick: Callable[[Ints], np.intp]
) -> list[int] | None:
    """Return the first or last of some rows, with its position."""
    at = np.flatnonzero(chosen)
    if not len(at):
        return None
    one = at[pick(keys[0][at])]
    return [int(key[one]) for key in keys]
