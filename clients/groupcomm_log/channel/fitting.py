"""From counts of the fates of messages to a channel; pure.

The counts do not grow with the number of messages, so a cluster makes them
(`groupcomm_spark.channel`), and this module does the rest. `count_link` makes them of one sender
and receiver in plain Python.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from random import Random
from typing import Final

from groupcomm_log.channel.distributions import NORMAL, Counted, Distribution, Fit, fit_delays
from groupcomm_log.channel.losses import count_windows, fit_losses
from groupcomm_log.channel.model import Channel, Link, Sharing

PER_DOUBLING: Final = 32
"""Buckets of delays from an excess over the least delay to its double."""

FINEST_US: Final = 50
"""Is added to the excess: below it buckets are about equally wide, 1 us."""

COARSE: Final = 4
"""The number of buckets that become one where two delays are counted together."""

ENOUGH_PAIRS: Final = 20
"""Pairs of messages from which a correlation is computed."""

PASSING_STEPS: Final = 7
PASSING_SAMPLE: Final = 2000
"""Halvings, and messages of each sample, from which `passing` is found."""

Pairs = Mapping[tuple[int, int], int]
"""The number of times that two buckets were seen together; each is COARSE buckets of delays."""


@dataclass(kw_only=True)
class Counts:
    """The fates of messages of one level, between programs at the same or at other daemons.

    Attributes:
        least_us: least delay; None if no message says when it was sent.
        delays: number of delays in each bucket above `least_us`.
        steps: delays of each two messages that a sender sent one after the other.
        intervals: the number of times (buckets above 0) from one message of a sender to the next.
        windows: the number of stretches of messages, by the lost ones among them.
        messages, overtaken: number of deliveries, and of those that later ones of their sender
            overtook.
    """

    least_us: float | None = None
    delays: Counter[int] = field(default_factory=Counter)
    steps: Counter[tuple[int, int]] = field(default_factory=Counter)
    intervals: Counter[int] = field(default_factory=Counter)
    windows: Counter[int] = field(default_factory=Counter)
    messages: int = 0
    overtaken: int = 0


@dataclass(kw_only=True)
class PairCounts:
    """The fates of messages to two groups, sent one after the other in one packet.

    Attributes:
        delays: delays of each two messages that both arrived.
        fates: whether the first, and whether the second message was lost.
    """

    delays: Counter[tuple[int, int]] = field(default_factory=Counter)
    fates: Counter[tuple[bool, bool]] = field(default_factory=Counter)


def bucket_of(excess_us: float) -> int:
    """Return the bucket of an excess over the least delay, in microseconds, at least 0."""
    return math.floor(math.log2((excess_us + FINEST_US) / FINEST_US) * PER_DOUBLING)


def middle_us(bucket: int) -> float:
    """Return the excess in the middle of a bucket, in microseconds."""
    return FINEST_US * (math.exp2((bucket + 0.5) / PER_DOUBLING) - 1)


def fit_channel(level: str, place: str, counts: Counts) -> Channel:
    """Return the channel whose messages are counted."""
    delays: Distribution | None = None
    fits: list[Fit] = []
    if counts.least_us is not None and counts.delays:
        delays, fits = fit_delays(_counted(counts.least_us, counts.delays))
    interval_s = _median_s(counts.intervals)
    correlation = correlate(counts.steps, _scores(counts.delays))
    memory_s = 0.0
    if interval_s and correlation > 0:
        memory_s = -interval_s / math.log(min(correlation, 0.999))
    channel = Channel(
        level=level,
        place=place,
        messages=counts.messages,
        delays=delays,
        fits=tuple(fits),
        memory_s=memory_s,
        interval_s=interval_s,
        overtaken=counts.overtaken / counts.messages if counts.messages else 0.0,
        passing=0.0,
        losses=fit_losses(counts.windows),
    )
    return replace(channel, passing=find_passing(channel))


def find_passing(channel: Channel) -> float:
    """Return the `passing` with which as many messages of a sample are overtaken as were counted.

    If even 1 gives fewer, the result is 1.
    """
    if not channel.overtaken or channel.delays is None:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(PASSING_STEPS):
        middle = (low + high) / 2
        if _overtaken_share(replace(channel, passing=middle)) < channel.overtaken:
            low = middle
        else:
            high = middle
    return high


def _overtaken_share(channel: Channel) -> float:
    link = Link(channel, Random(PASSING_SAMPLE))
    times = (index * channel.interval_s for index in range(PASSING_SAMPLE))
    arrivals = [arrival for at_s in times if (arrival := link.send(at_s)) is not None]
    return _count_overtaken(arrivals) / max(len(arrivals), 1)


def fit_sharing(
    level: str, place: str, groups: tuple[str, str], pairs: PairCounts, counts: Counts
) -> Sharing:
    """Return the common properties of messages of two groups.

    Args:
        level, place, groups: the level, place and groups of the messages.
        pairs: the pairs of messages.
        counts: all messages of the level and place.
    """
    return Sharing(
        level=level,
        place=place,
        groups=groups,
        pairs=sum(pairs.fates.values()),
        delays=correlate(pairs.delays, _scores(counts.delays)),
        losses=correlate(
            {(int(one), int(other)): n for (one, other), n in pairs.fates.items()},
            {0: 0.0, 1: 1.0},
        ),
    )


def correlate(pairs: Pairs, values: Mapping[int, float]) -> float:
    """Return the correlation of the values of what was seen together; 0 of too few or all equal.

    Args:
        pairs: counts.
        values: a value for each bucket.
    """
    total = sum(pairs.values())
    if total < ENOUGH_PAIRS:
        return 0.0
    first = sum(n * values[one] for (one, _), n in pairs.items()) / total
    second = sum(n * values[other] for (_, other), n in pairs.items()) / total
    both = one_square = other_square = 0.0
    for (one, other), count in pairs.items():
        x, y = values[one] - first, values[other] - second
        both += count * x * y
        one_square += count * x * x
        other_square += count * y * y
    spread = math.sqrt(one_square * other_square)
    return both / spread if spread > 1e-12 * total else 0.0


def _scores(delays: Mapping[int, int]) -> dict[int, float]:
    """Return the mean normal score of the delays of each coarse bucket."""
    coarse: Counter[int] = Counter()
    for bucket, count in delays.items():
        coarse[bucket // COARSE] += count
    buckets, total = sorted(coarse), sum(coarse.values())
    ends = accumulate(coarse[bucket] for bucket in buckets)
    return {
        bucket: NORMAL.inv_cdf((end - coarse[bucket] / 2) / total)
        for bucket, end in zip(buckets, ends, strict=True)
    }


def _counted(least_us: float, delays: Mapping[int, int]) -> Counted:
    return [((least_us + middle_us(bucket)) / 1e6, delays[bucket]) for bucket in sorted(delays)]


def _median_s(intervals: Mapping[int, int]) -> float:
    """Return the median time of counted times; 0 of none."""
    wanted, seen = sum(intervals.values()) / 2, 0
    for bucket in sorted(intervals):
        seen += intervals[bucket]
        if seen >= wanted:
            return middle_us(bucket) / 1e6
    return 0.0


# ---- without Spark ----


def count_link(messages: Sequence[tuple[float, float | None]]) -> Counts:
    """Return the counts of one sender and one receiver.

    Args:
        messages: for each message its times of sending and arrival, in seconds; None if it did not
            arrive. In the order of sending.
    """
    delays = [None if arrival is None else (arrival - sent) * 1e6 for sent, arrival in messages]
    known = [delay for delay in delays if delay is not None]
    counts = Counts(
        messages=len(known), windows=Counter(count_windows([d is None for d in delays]))
    )
    counts.intervals.update(
        bucket_of(max(0.0, later - sent) * 1e6) for (sent, _), (later, _) in pairwise(messages)
    )
    if not known:
        return counts
    counts.least_us = least_us = min(known)
    buckets = [None if delay is None else bucket_of(delay - least_us) for delay in delays]
    counts.delays.update(bucket for bucket in buckets if bucket is not None)
    counts.steps.update(
        (one // COARSE, other // COARSE)
        for one, other in pairwise(buckets)
        if one is not None and other is not None
    )
    counts.overtaken = _count_overtaken(arrival for _, arrival in messages if arrival is not None)
    return counts


def _count_overtaken(arrivals: Iterable[float]) -> int:
    """Return the number of arrivals that come after one of a later message."""
    earliest, count = math.inf, 0
    for arrival in reversed(list(arrivals)):
        count += arrival > earliest
        earliest = min(earliest, arrival)
    return count
