"""The figures of a report, computed from logs: one pass for delays, one for rates, one for losses.

Only sums come to Python: nothing here grows with the number of messages.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from groupcomm.names import daemon_of
from groupcomm_log.schema import GAP, MESSAGE
from groupcomm_spark.progress import Progress, Say, quiet
from groupcomm_spark.reading.options import LOG
from groupcomm_spark.report.histogram import PER_DOUBLING
from groupcomm_spark.report.losses import Loss, count_losses
from groupcomm_spark.report.views import ViewChange, find_views

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS: Final = (
    *("row", "kind", "received", "view", "stamp", "ring", "sender", "number", "groups"),
    *("level", "data", "members", "cause"),
)
"""The columns of logs that a report needs."""

SLICES: Final = 120
"""Approximate number of slices into which the time of all logs is cut, for charts."""

_STEPS_S: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 6 * 3600, 86400)


class DelayKey(NamedTuple):
    """Messages whose delays are counted together."""

    level: str
    groups: str  # the destinations, joined by spaces
    sender: str
    site: str


class Slice(NamedTuple):
    """Deliveries in a slice of time."""

    log: str
    level: str
    at_s: float  # seconds since the first row of all logs
    messages: int
    bytes: int


@dataclass(kw_only=True)
class Figures:
    """The figures of a report.

    Attributes:
        logs: names of the logs.
        begin_us: wall clock of the first row, microseconds since 1970; None without rows.
        seconds: the time from the first row to the last.
        step_s: the length of a slice, in seconds.
        messages: number of deliveries in all logs together, as far as their time is known.
        untimed: rows without a time of receipt, which count nowhere; gaps may have none.
        slices: deliveries by slice.
        delays: counts by bucket of `histogram`.
        backwards: number of messages that came before they were numbered, by the clocks of the
            hosts.
        losses: losses of UNRELIABLE messages.
        views: changes of the view of daemons.
    """

    logs: list[str]
    begin_us: int | None
    seconds: float
    step_s: float
    messages: int = 0
    untimed: int = 0
    slices: list[Slice] = field(default_factory=list)
    delays: dict[DelayKey, Counter[int]] = field(default_factory=dict)
    backwards: int = 0
    losses: list[Loss] = field(default_factory=list)
    views: list[ViewChange] = field(default_factory=list)


def gather(
    logs: "DataFrame",
    *,
    sites: Mapping[str, str] | None = None,
    sent_us: "Column | None" = None,
    tell: Say = quiet,
) -> Figures:
    """Return all figures of a report.

    Args:
        logs: frame of `groupcomm_spark.read`, with at least COLUMNS.
        sites: the sites by the daemon's name; without them a site is the ring of the sender's
            daemon.
        sent_us: the time at which a message was sent, microseconds since 1970; None for the time at
            which it was numbered, which UNRELIABLE messages do not have.
        tell: is called with messages about the progress.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    all_logs, logs = logs, logs.where(fn.col("received").isNotNull() | (fn.col("kind") == GAP))
    messages = logs.where(fn.col("kind") == MESSAGE)
    stage = Progress(logs.sparkSession, tell)
    with stage("looking over the logs"):
        found = _find_bounds(all_logs)
    with stage("rates"):
        found.slices = _count_slices(messages, found)
        found.messages = sum(each.messages for each in found.slices)
    with stage(f"delays of {found.messages} deliveries"):
        count_delays(messages, found, sites or {}, sent_us)
    with stage("losses of UNRELIABLE"):
        found.losses = count_losses(logs)
    with stage("views"):
        found.views = find_views(logs)
    return found


def _find_bounds(logs: "DataFrame") -> Figures:
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    ends = (
        logs.groupBy(LOG)
        .agg(
            fn.unix_micros(fn.min("received")),
            fn.unix_micros(fn.max("received")),
            fn.count_if(fn.col("received").isNull() & (fn.col("kind") != GAP)),
        )
        .collect()
    )
    times = [time for row in ends for time in row[1:3] if time is not None]
    seconds = (max(times) - min(times)) / 1e6 if times else 0.0
    step_s = next((step for step in _STEPS_S if step * SLICES >= seconds), seconds / SLICES)
    return Figures(
        logs=sorted(row[0] for row in ends),
        begin_us=min(times, default=None),
        seconds=seconds,
        step_s=step_s,
        untimed=sum(row[3] for row in ends),
    )


def _count_slices(messages: "DataFrame", found: Figures) -> list[Slice]:
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    step_us = int(found.step_s * 1e6)
    since_us = fn.unix_micros("received") - (found.begin_us or 0)
    rows = (
        messages.groupBy(LOG, "level", fn.floor(since_us / step_us).alias("slice"))
        .agg(fn.count("*"), fn.sum(fn.octet_length("data")))
        .collect()
    )
    return sorted(
        Slice(log, level, slice_ * found.step_s, count, size or 0)
        for log, level, slice_, count, size in rows
    )


def count_delays(
    messages: "DataFrame", found: Figures, sites: Mapping[str, str], sent_us: "Column | None"
) -> None:
    """Count the delays of messages in `found`; see `gather` for the rest."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    delay_us = fn.unix_micros("received") - (fn.col("stamp") if sent_us is None else sent_us)
    bucket = fn.floor(fn.log2(fn.greatest("delay_us", fn.lit(1))) * PER_DOUBLING)
    keyed = messages.select(
        "level",
        fn.array_join("groups", " ").alias("groups"),
        "sender",
        "ring",
        delay_us.alias("delay_us"),
    ).where(fn.col("delay_us").isNotNull())
    rows = (
        keyed.groupBy("level", "groups", "sender", "ring", bucket.alias("bucket"))
        .agg(fn.count("*"), fn.count_if(fn.col("delay_us") < 0))
        .collect()
    )
    rings = {daemon_of(row["sender"]): row["ring"] for row in rows if row["ring"] is not None}
    for level, groups, sender, ring, at, count, backwards in rows:
        # An UNRELIABLE message has no ring; other messages from its daemon name it.
        known = rings.get(daemon_of(sender)) if ring is None else ring
        key = DelayKey(level, groups, sender, site_of(sender, known, sites))
        found.delays.setdefault(key, Counter())[at] += count
        found.backwards += backwards


def site_of(sender: str, ring: int | None, sites: Mapping[str, str]) -> str:
    """Return the site of a sender.

    Args:
        sender: ``#user#daemon/connection``.
        ring: ring of its daemon in the view; None if the log does not say.
        sites: sites by the daemon's name.
    """
    site = sites.get(daemon_of(sender))
    if site is not None:
        return site
    return "unknown" if ring is None else f"ring {ring}"
