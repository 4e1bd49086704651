"""Sets of packet numbers as sorted ranges (first, last), both ends included."""

from collections.abc import Iterable

Range = tuple[int, int]


def merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Unite ranges: sorted, disjoint, neighbours joined."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            if last > merged[-1][1]:
                merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged


def ranges_of(numbers: Iterable[int]) -> list[Range]:
    """The ranges that hold exactly these numbers."""
    return merge_ranges((number, number) for number in numbers)
