"""Durations: counts of durations in buckets, for metrics.

Pure. Seconds. To add one costs a third of a microsecond, so that is done per bundle or view, never
per message.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import inf
from typing import Final

BOUNDS_S: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Upper bounds of the buckets, inclusive; one more bucket holds longer durations."""


class Durations:
    """Counts of durations since the start.

    Attributes:
        counts: the number of durations in each bucket, not cumulated; the last one is unbounded.
        total_s: the sum of all durations.
    """

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


def quantile_s(counts: Sequence[int], share: float) -> float:
    """Return the upper bound of the bucket that holds a quantile: inf for the last bucket.

    Args:
        counts: those of `Durations`, or differences of two; 0 is returned if all are 0.
        share: the quantile, such as 0.999.
    """
    rank, seen = share * sum(counts), 0
    for bound, count in zip((*BOUNDS_S, inf), counts, strict=True):
        seen += count
        if seen and seen >= rank:
            return bound
    return 0.0
