"""Changes of the view of daemons, and their effect on the receivers."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from groupcomm_log.schema import DAEMONS, MESSAGE, TRANSITION
from groupcomm_spark.reading.options import LOG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ViewChange(NamedTuple):
    """A new view of daemons, as one receiver saw it.

    Attributes:
        log: name of the receiver's log.
        view: the id of the view.
        at: the time of its delivery, by the receiver's clock.
        daemons: the daemons of the new view.
        came, went: daemons added and removed since the view before at this receiver.
        majority: `majority`, `minority` or None.
        transition_ms: time since the regular part of the view before ended; None for a first view.
        silence_ms: time from the last message in the view before to the first one in this; None if
            there was none.
    """

    log: str
    view: str
    at: datetime
    daemons: tuple[str, ...]
    came: tuple[str, ...]
    went: tuple[str, ...]
    majority: str | None
    transition_ms: float | None
    silence_ms: float | None

    @property
    def as_json(self) -> dict[str, Any]:
        """Return the change for JSON."""
        return {**self._asdict(), "at": self.at.isoformat()}


def find_views(logs: "DataFrame") -> list[ViewChange]:
    """Return all changes at all receivers, in the order of their times.

    Args:
        logs: frame of `groupcomm_spark.read`, with row, kind, received, view, members and cause.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    rows = (
        logs.where(fn.col("kind").isin(DAEMONS, TRANSITION))
        .select(LOG, "row", "kind", "received", "view", "members", "cause")
        .orderBy(LOG, "row")
        .toArrow()
        .to_pylist()
    )
    spans = (
        logs.where(fn.col("kind") == MESSAGE)
        .groupBy(LOG, "view")
        .agg(fn.min("received").alias("first"), fn.max("received").alias("last"))
        .toArrow()
        .to_pylist()
    )
    traffic = {(each[LOG], each["view"]): (each["first"], each["last"]) for each in spans}
    return sorted(_changes(rows, traffic), key=lambda change: (change.at, change.log))


def _changes(
    rows: list[dict[str, Any]], traffic: dict[tuple[str, str], tuple[datetime, datetime]]
) -> list[ViewChange]:
    found: list[ViewChange] = []
    before: dict[str, ViewChange] = {}
    ended: dict[str, datetime] = {}  # the end of the regular part, by log
    for row in rows:
        log = row[LOG]
        if row["kind"] == TRANSITION:
            ended[log] = row["received"]
            continue
        old, over = before.get(log), ended.pop(log, None)
        daemons = tuple(row["members"])
        known = old.daemons if old is not None else ()
        first = traffic.get((log, row["view"]))
        last = traffic.get((log, old.view)) if old is not None else None
        before[log] = ViewChange(
            log=log,
            view=row["view"],
            at=row["received"],
            daemons=daemons,
            came=tuple(name for name in daemons if name not in known),
            went=tuple(name for name in known if name not in daemons),
            majority=row["cause"],
            transition_ms=None if over is None else _ms(over, row["received"]),
            silence_ms=_ms(last[1], first[0]) if first is not None and last is not None else None,
        )
        found.append(before[log])
    return found


def _ms(start: datetime, end: datetime) -> float:
    return round((end - start).total_seconds() * 1000, 1)
