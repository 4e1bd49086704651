"""The job that counts, in logs, the fates of messages, and fits a model to the counts.

Two passes. The first finds the least delay between each two daemons, from which follow the offsets
of clocks. The second puts the messages of each sender in order at each receiver, the lost ones
included, and counts everything at once. Only counts come to Python: they do not grow with the
number of messages.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from groupcomm.level import ServiceLevel
from groupcomm_log.channel.fitting import (
    COARSE,
    FINEST_US,
    PER_DOUBLING,
    Counts,
    PairCounts,
    fit_channel,
    fit_sharing,
)
from groupcomm_log.channel.losses import WIDTH
from groupcomm_log.channel.model import OTHER, SAME, ChannelModel, Clock
from groupcomm_log.schema import GAP, MESSAGE
from groupcomm_spark.progress import Progress, Say, quiet
from groupcomm_spark.reading.options import LOG

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS: Final = (
    *("row", "kind", "received", "view", "stamp", "ring", "sender", "number", "groups"),
    *("level", "data", "causal_context"),
)
"""The columns of logs that the job needs."""

TOGETHER_US: Final = 1000
"""The time within which UNRELIABLE messages of one sender count as one packet: no log says whether
they were one.
"""

_FOR_EVER: Final = 2**63 - 1
_BETWEEN: Final = "\n"
"""Between the names of two groups: no name contains it."""


class Way(NamedTuple):
    """Messages of one level from one daemon to one log.

    Attributes:
        log: name of the log.
        receiver: daemon of its recorder; empty if the log does not say.
        sender: the daemon of the senders.
        level: the level of the messages.
        least_us: the least delay; None if the messages have no times of sending.
    """

    log: str
    receiver: str
    sender: str
    level: str
    least_us: int | None

    @property
    def place(self) -> str:
        """Return whether sender and receiver are at the same daemon."""
        return SAME if self.sender == self.receiver else OTHER


class Session(NamedTuple):
    """Rows of a log between which nothing is missing but losses."""

    log: str
    first_row: int
    last_row: int


def make_model(
    logs: "DataFrame",
    *,
    sent_us: "Column | None" = None,
    correct_clocks: bool = False,
    all_recorded: bool = False,
    tell: Say = quiet,
) -> ChannelModel:
    """Return the model of the channel that the messages of these logs have met.

    Args:
        logs: the frame of `groupcomm_spark.read`, with at least COLUMNS.
        sent_us: the time at which a message was sent, microseconds since 1970; None for the time at
            which it was numbered, which UNRELIABLE messages do not have.
        correct_clocks: whether to subtract the offsets of clocks, as the least delays show them,
            from the delays.
        all_recorded: senders send to the recorded groups only, so a number that no log has was a
            message, and is lost; else only messages that another log has count as lost.
        tell: is called with messages about the progress.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    stage = Progress(logs.sparkSession, tell)
    sent = fn.col("stamp") if sent_us is None else sent_us
    with stage("least delays"):
        ways, sessions = _find_ways(logs, sent)
    clocks = find_clocks(ways, corrected=correct_clocks)
    offsets = _offsets(clocks) if correct_clocks else {}
    bases, least = _bases(ways, offsets)
    with stage("fates and delays of all messages"):
        expected = _expect(logs, sent, sessions, all_recorded=all_recorded)
        counts, pairs = _count(_features(expected, bases, least), least)
    with stage("fitting"):
        return _fit(counts, pairs, clocks)


def find_clocks(ways: Sequence[Way], *, corrected: bool) -> list[Clock]:
    """Return the offset of the clocks of each two hosts with messages in both directions.

    The least delays of both directions count as equal; their difference is twice the offset.

    Args:
        ways: the least delays.
        corrected: is noted in the result.
    """
    least: dict[tuple[str, str], int] = {}
    for way in ways:
        if way.least_us is not None and way.place == OTHER and way.receiver:
            pair = (way.sender, way.receiver)
            least[pair] = min(least.get(pair, way.least_us), way.least_us)
    return [
        Clock(
            hosts=(one, other),
            ahead_s=(us - least[other, one]) / 2e6,
            corrected=corrected,
        )
        for (one, other), us in sorted(least.items())
        if one < other and (other, one) in least
    ]


def _offsets(clocks: Sequence[Clock]) -> dict[tuple[str, str], float]:
    """Return the part of delays from one host to another that their clocks cause, in us."""
    found = {}
    for clock in clocks:
        one, other = clock.hosts
        found[one, other], found[other, one] = clock.ahead_s * 1e6, -clock.ahead_s * 1e6
    return found


def _bases(
    ways: Sequence[Way], offsets: Mapping[tuple[str, str], float]
) -> tuple[list[tuple[Any, ...]], dict[tuple[str, str], float]]:
    """Return a row for each way with the part to subtract from delays, and the least delay of
    each level and place.
    """
    least: dict[tuple[str, str], float] = {}
    for way in ways:
        if way.least_us is not None:
            own = way.least_us - offsets.get((way.sender, way.receiver), 0.0)
            least[way.level, way.place] = min(least.get((way.level, way.place), own), own)
    return [
        (
            *(way.log, way.sender, way.level, way.place),
            least.get((way.level, way.place), 0.0) + offsets.get((way.sender, way.receiver), 0.0),
        )
        for way in ways
    ], least


def _find_ways(logs: "DataFrame", sent_us: "Column") -> tuple[list[Way], list[Session]]:
    """Return the least delays, and the sessions of the recorders; a gap begins one."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    delay_us = fn.unix_micros("received") - sent_us
    is_gap = fn.col("kind") == GAP
    rows = (
        logs.where(fn.col("kind").isin(MESSAGE, GAP))
        .groupBy("kind", LOG, _daemon_column().alias("daemon"), "level")
        .agg(fn.min(delay_us).cast("long"), fn.collect_list(fn.when(is_gap, fn.col("row"))))
        .collect()
    )
    starts: dict[str, list[int]] = {row[LOG]: [0] for row in rows}
    at: dict[str, str] = {}
    for kind, log, daemon, _, _, gaps in rows:
        if kind == GAP:
            starts[log] += gaps
            if daemon:  # it is null where a gap does not begin a session
                at[log] = daemon
    sessions = [
        Session(log, start, following - 1)
        for log, begins in starts.items()
        for start, following in pairwise([*sorted(begins), _FOR_EVER])
    ]
    ways = [
        Way(log, at.get(log, ""), daemon, level, least_us)
        for kind, log, daemon, level, least_us, _ in rows
        if kind == MESSAGE
    ]
    return ways, sessions


def _daemon_column() -> "Column":
    """Return `daemon_of` of the sender, as Spark computes it."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    return fn.regexp_extract("sender", r"#([^#/]*)/[^/]*$", 1)


def _expect(
    logs: "DataFrame", sent_us: "Column", sessions: Sequence[Session], *, all_recorded: bool
) -> "DataFrame":
    """Return a row for each message that should have come to each log; `row` is null if it did not.

    Nothing is expected before the first message of a sender in a session, nor after the last one.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra
    from pyspark.sql.window import Window  # noqa: PLC0415

    messages = logs.where(fn.col("kind") == MESSAGE).select(
        *(LOG, "row", "sender", "number", "level"),
        sent_us.cast("long").alias("sent_us"),
        fn.unix_micros("received").alias("received_us"),
        fn.array_join("groups", " ").alias("groups"),
        # Numbered messages name their packet and its ring.
        fn.concat_ws("/", "view", "ring", fn.col("causal_context")[0]).alias("packet"),
        fn.col("causal_context").isNotNull().alias("numbered"),
    )
    schema = f"{LOG} string, start long, end long"
    spans_of_rows = logs.sparkSession.createDataFrame(list(sessions), schema)
    got = (
        messages.join(fn.broadcast(spans_of_rows), LOG)
        .where(fn.col("row").between(fn.col("start"), fn.col("end")))
        .select(LOG, "start", "sender", "level", "number", "row", "received_us")
    )
    sent = messages.groupBy("sender", "number").agg(
        *(fn.first(name).alias(name) for name in ("level", "sent_us", "groups")),
        fn.first(fn.when(fn.col("numbered"), fn.col("packet")), ignorenulls=True).alias("packet"),
    )
    if all_recorded:
        ends = messages.groupBy("sender").agg(
            fn.explode(fn.sequence(fn.min("number"), fn.max("number"))).alias("number")
        )
        before = Window.partitionBy("sender").orderBy("number")
        known = fn.last("level", ignorenulls=True).over(before)
        sent = ends.join(sent, ["sender", "number"], "left").withColumn("level", known)
    spans = got.groupBy(LOG, "start", "sender", "level").agg(
        fn.min("number").alias("first"), fn.max("number").alias("last")
    )
    return (
        spans.join(sent, ["sender", "level"])
        .where(fn.col("number").between(fn.col("first"), fn.col("last")))
        .join(got, [LOG, "start", "sender", "level", "number"], "left")
    )


def _features(
    expected: "DataFrame", bases: Sequence[tuple[Any, ...]], least: Mapping[tuple[str, str], float]
) -> "DataFrame":
    """Return the counted properties of each expected message, as columns."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra
    from pyspark.sql.window import Window  # noqa: PLC0415

    schema = f"{LOG} string, daemon string, level string, place string, base_us double"
    frame = expected.sparkSession.createDataFrame(list(bases), schema)
    order = Window.partitionBy(LOG, "start", "sender", "level").orderBy("number")
    later = order.rowsBetween(1, Window.unboundedFollowing)
    excess_us = fn.col("received_us") - fn.col("sent_us") - fn.col("base_us")
    lost = fn.col("row").isNull()
    stretch = [
        fn.lag(lost.cast("int"), WIDTH - 1 - place).over(order) * (1 << place)
        for place in range(WIDTH)
    ]
    mask = stretch[0]
    for each in stretch[1:]:
        mask = mask + each  # the sum is null unless all are known
    before_us = fn.lag("sent_us").over(order)
    apart_us = fn.col("sent_us") - before_us
    # Messages of one packet; UNRELIABLE ones of one sender, if they were sent together.
    bunch = fn.coalesce("packet", "sender")
    in_bunch = Window.partitionBy(LOG, "start", "level", bunch).orderBy("sender", "number")
    sent_apart_us = fn.col("sent_us") - fn.lag("sent_us").over(in_bunch)
    together = fn.col("packet").isNotNull() | (sent_apart_us <= TOGETHER_US)
    others = fn.lag("groups").over(in_bunch)
    pair = fn.array_join(fn.array_sort(fn.array(others, fn.col("groups"))), _BETWEEN)
    placed = expected.withColumn("daemon", _daemon_column()).join(
        fn.broadcast(frame), [LOG, "daemon", "level"]
    )
    return (
        placed.withColumn("lost", lost)
        .withColumn("bucket", _bucket(excess_us))
        .select(
            *("level", "place", "lost", "bucket"),
            fn.lag("bucket").over(order).alias("before"),
            fn.lag("bucket").over(in_bunch).alias("beside"),
            fn.lag("lost").over(in_bunch).alias("beside_lost"),
            _bucket(apart_us).alias("interval"),
            mask.alias("mask"),
            (fn.min("row").over(later) < fn.col("row")).alias("overtaken"),
            fn.when(together & (others != fn.col("groups")), pair).alias("pair"),
        )
    )


def _bucket(excess_us: "Column") -> "Column":
    """Return `bucket_of`, as Spark computes it; null of null, 0 of less than 0."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    doublings = fn.log2((excess_us + FINEST_US) / FINEST_US)
    found = fn.floor(doublings * PER_DOUBLING).cast("int")
    return fn.when(excess_us > 0, found).when(excess_us <= 0, 0)


def _count(
    features: "DataFrame", least: Mapping[tuple[str, str], float]
) -> tuple[dict[tuple[str, str], Counts], dict[tuple[str, str, str], PairCounts]]:
    """Return the counts of each level and place, and those of each two groups.

    Each message is counted in several ways, all in one pass: by (what, one value, other value).
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    def entry(what: str, one: "Column", other: "Column", condition: "Column") -> "Column":
        values = (one.cast("int").alias("one"), other.cast("int").alias("other"))
        return fn.when(condition, fn.struct(fn.lit(what).alias("what"), *values))

    col, none = fn.col, fn.lit(0)
    before, beside, own = (fn.floor(col(n) / COARSE) for n in ("before", "beside", "bucket"))
    came, known, paired = (
        ~col("lost"),
        col("bucket").isNotNull(),
        col("pair").isNotNull() & col("beside_lost").isNotNull(),
    )
    entries = [
        entry("message", col("overtaken"), none, came),
        entry("delay", col("bucket"), none, known),
        entry("step", before, own, known & col("before").isNotNull()),
        entry("interval", col("interval"), none, col("interval").isNotNull()),
        entry("window", col("mask"), none, col("mask").isNotNull()),
        entry("pair delay", beside, own, paired & known & col("beside").isNotNull()),
        entry("pair fate", col("beside_lost"), col("lost"), paired),
    ]
    exploded = features.select(
        *("level", "place"),
        col("pair"),
        fn.explode(fn.array_compact(fn.array(*entries))).alias("entry"),
    ).select(
        *("level", "place", "entry.*"),
        fn.when(col("entry.what").startswith("pair"), col("pair")).alias("pair"),
    )
    counts: dict[tuple[str, str], Counts] = defaultdict(Counts)
    pairs: dict[tuple[str, str, str], PairCounts] = defaultdict(PairCounts)
    rows = exploded.groupBy("level", "place", "what", "one", "other", "pair").count().collect()
    for level, place, what, one, other, pair, number in rows:
        if pair is None:
            _note(counts[level, place], what, one, other, number)
        elif what == "pair delay":
            pairs[level, place, pair].delays[one, other] = number
        else:
            pairs[level, place, pair].fates[bool(one), bool(other)] = number
    for key, counted in counts.items():
        counted.least_us = least.get(key)
    return dict(counts), dict(pairs)


def _note(counted: Counts, what: str, one: int, other: int, number: int) -> None:
    """Note how many times one value, or two, were seen."""
    match what:
        case "message":
            counted.messages += number
            counted.overtaken += number if one else 0
        case "step":
            counted.steps[one, other] = number
        case "delay":
            counted.delays[one] = number
        case "interval":
            counted.intervals[one] = number
        case "window":
            counted.windows[one] = number
        case _:
            raise AssertionError(f"nothing counts {what}")


def _fit(
    counts: Mapping[tuple[str, str], Counts],
    pairs: Mapping[tuple[str, str, str], PairCounts],
    clocks: Sequence[Clock],
) -> ChannelModel:
    keys = sorted(counts, key=lambda key: (ServiceLevel[key[0]], key[1]))
    sharing = []
    for (level, place, names), counted in sorted(pairs.items()):
        one, other = names.split(_BETWEEN)
        whole = counts[level, place]
        sharing.append(fit_sharing(level, place, (one, other), counted, whole))
    return ChannelModel(
        channels=tuple(fit_channel(level, place, counts[level, place]) for level, place in keys),
        sharing=tuple(sharing),
        clocks=tuple(clocks),
    )
