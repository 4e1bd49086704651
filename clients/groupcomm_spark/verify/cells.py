"""Where logs may be compared: a view cut at each position at which those that may changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Final

from groupcomm_log.schema import MESSAGE
from groupcomm_log.stays import FIRST, KEY, NEVER, ORDERED, UNORDERED, Key
from groupcomm_spark.logs import LOG
from groupcomm_spark.verify.stays import Stay, are_together

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WHOLE: Final = -1
"""The cell of what has no order: all of a view."""

LEAST: Final = -(2**63)
MOST: Final = 2**63 - 1

Views = dict[str, list[Stay]]
"""Stays in one view, of those that were a member of any group in it."""


@dataclass(frozen=True)
class Cell:
    """A part of one stay that is compared as one.

    Attributes:
        stay: which.
        number: of the cell in its view; WHOLE for what has no order.
        above, upto: positions, the second among them.
    """

    stay: Stay
    number: int
    above: Key
    upto: Key

    @property
    def is_regular(self) -> bool:
        """Whether all of it came in the regular part, or the regular part goes on behind it."""
        return self.upto <= self.stay.regular_end


def by_view(stays: Sequence[Stay]) -> Views:
    """Who is to be compared with whom."""
    views: Views = {}
    for stay in stays:
        if stay.view is not None and stay.start != NEVER:
            views.setdefault(stay.view, []).append(stay)
    return views


def complete(logs: "DataFrame", stays: Sequence[Stay]) -> None:
    """Fill in what only messages tell: where regular parts end, and what is first behind a gap."""
    from pyspark.sql.functions import col, max_by, min, min_by  # noqa: PLC0415 - an extra

    _find_views(logs, stays)
    parting = [stay for stays in by_view(stays).values() if _part(stays) for stay in stays]
    behind = [stay for stay in stays if stay.is_behind_gap and stay.view is not None]
    wanted = {stay.number: stay for stay in [*parting, *behind]}.values()
    if not wanted:
        return
    regular = col("row") < col("transition")
    table = [(s.log, s.view, s.number, s.first, s.end, s.transition) for s in wanted]
    views = {stay.view for stay in wanted}
    messages = logs.filter((col("kind") == MESSAGE) & col("level").isin(*ORDERED))
    rows = _within(
        messages.filter(col("view").isin(*views)),  # Parquet knows which files have which
        table,
        f"{LOG} string, view string, stay int, first long, end long, transition long",
    )
    found = rows.groupBy("stay").agg(
        min("row").alias("row"),
        *(min_by(name, "row").alias(f"first_{name}") for name in KEY),
        *(max_by(name, _if(regular, col("row"))).alias(f"last_{name}") for name in KEY),
    )
    for row in found.collect():
        stay = stays[row["stay"]]
        changed_at = stay.changes[0].row if stay.changes else MOST
        if stay.is_behind_gap and row["row"] < changed_at:
            stay.start = tuple(row[f"first_{name}"] for name in KEY)
        if row["last_stamp"] is not None:
            last = tuple(row[f"last_{name}"] for name in KEY)
            stay.regular_end = max(stay.regular_end, last)


def _if(condition: "Column", value: "Column") -> "Column":
    from pyspark.sql.functions import when  # noqa: PLC0415 - an extra

    return when(condition, value)


def _part(stays: Sequence[Stay]) -> bool:
    """Whether not all of them go on together."""
    return any(not are_together(stay, other) for stay, other in combinations(stays, 2))


def _find_views(logs: "DataFrame", stays: Sequence[Stay]) -> None:
    """Behind damage the next row tells in which view it is."""
    from pyspark.sql.functions import col  # noqa: PLC0415 - an extra

    for stay in stays:
        if stay.is_behind_gap and stay.view is None and stay.member:
            row = (
                logs.filter((col(LOG) == stay.log) & col("view").isNotNull())
                .filter((col("row") >= stay.first) & (col("row") < stay.end))
                .orderBy("row")
                .select("view")
                .first()
            )
            stay.view = None if row is None else row["view"]


def _within(rows: "DataFrame", table: Sequence[tuple[object, ...]], schema: str) -> "DataFrame":
    """Rows beside what is said of the stay that they are in."""
    from pyspark.sql.functions import broadcast, col  # noqa: PLC0415 - an extra

    spark = rows.sparkSession
    stays = spark.createDataFrame(list(table), schema)
    joined = rows.join(broadcast(stays), [LOG, "view"])
    return joined.filter((col("row") >= col("first")) & (col("row") < col("end")))


def cut_cells(views: Views) -> list[Cell]:
    """The cells of all stays."""
    return [cell for stays in views.values() for cell in _cells_of(stays)]


def _cells_of(stays: list[Stay]) -> list[Cell]:
    cuts = {stay.start for stay in stays} - {FIRST}
    if _part(stays):
        cuts |= {stay.regular_end for stay in stays} - {FIRST}
    edges = [FIRST, *sorted(cuts), NEVER]
    ordered = [
        Cell(stay, number, above, upto)
        for stay in stays
        for number, (above, upto) in enumerate(pairwise(edges))
        if above >= stay.start
    ]
    return ordered + [Cell(stay, WHOLE, FIRST, NEVER) for stay in stays]


def in_cells(logs: "DataFrame", cells: Sequence[Cell]) -> "DataFrame":
    """Messages with the columns `stay` and `cell`; those in none are left out."""
    from pyspark.sql.functions import col  # noqa: PLC0415 - an extra

    rows = logs.filter((col("kind") == MESSAGE) & col("level").isin(*ORDERED, *UNORDERED))
    table = [
        (
            *(cell.stay.log, cell.stay.view, cell.stay.number, cell.number),
            *(cell.stay.first, cell.stay.end, cell.number != WHOLE),
            *_bound(cell.above),
            *_bound(cell.upto),
        )
        for cell in cells
    ]
    bounds = [f"{side}_{name} long" for side in ("above", "upto") for name in KEY]
    schema = f"{LOG} string, view string, stay int, cell int, first long, end long, ordered boolean"
    joined = _within(rows, table, ", ".join([schema, *bounds]))
    ordered = col("level").isin(*ORDERED)
    inside = _is_above("above") & ~_is_above("upto")
    return joined.filter((ordered == col("ordered")) & (~ordered | inside)).drop(
        *(f"{side}_{name}" for side in ("above", "upto") for name in KEY)
    )


def _bound(key: Key) -> tuple[int, ...]:
    """A position as four columns, also one that is none."""
    if key == NEVER:
        return (MOST,) * len(KEY)
    return tuple(int(part) for part in key) if len(key) == len(KEY) else (LEAST,) * len(KEY)


def _is_above(side: str) -> "Column":
    """Whether a row's position is above one."""
    from pyspark.sql.functions import col, lit  # noqa: PLC0415 - an extra

    above = lit(False)
    for name in reversed(KEY):
        bound = col(f"{side}_{name}")
        above = (col(name) > bound) | ((col(name) == bound) & above)
    return above
