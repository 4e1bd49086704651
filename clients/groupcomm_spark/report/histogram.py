"""Delays counted in buckets that grow with them, so that many make one small table.

Pure. A percentile is off by half a bucket at most: 2.2 %.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

PER_DOUBLING: Final = 16
"""Buckets from a delay to its double."""

Counts = Mapping[int, int]
"""How many delays there are in each bucket."""


def middle_us(bucket: int) -> float:
    """The delay in the middle of a bucket, in microseconds."""
    return math.exp2((bucket + 0.5) / PER_DOUBLING)


def merge(all_counts: Iterable[Counts]) -> Counter[int]:
    """All of them together."""
    merged: Counter[int] = Counter()
    for counts in all_counts:
        merged.update(counts)
    return merged


def percentile_ms(counts: Counts, share: float) -> float | None:
    """The delay that this share of all does not exceed, in milliseconds; None if there are none.

    Args:
        counts: by bucket.
        share: above 0 and up to 1.
    """
    wanted = math.ceil(sum(counts.values()) * share)
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= wanted:
            return middle_us(bucket) / 1000
    return None


def later_than(counts: Counts) -> list[tuple[float, float]]:
    """For the delay of each bucket (ms), the share of all that took at least so long."""
    total = left = sum(counts.values())
    points = []
    for bucket in sorted(counts):
        points.append((middle_us(bucket) / 1000, left / total))
        left -= counts[bucket]
    return points
