"""Sets of packet numbers as sorted ranges (first, last), both ends included."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

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
    """Return the ranges that hold exactly these numbers."""
    return merge_ranges((number, number) for number in numbers)


def holds(ranges: Sequence[Range], number: int) -> bool:
    """Return whether a number is in one of these sorted, disjoint ranges."""
    place = bisect_left(ranges, (number + 1,)) - 1
    return place >= 0 and number <= ranges[place][1]


def without(ranges: Iterable[Range], taken: Sequence[Range]) -> list[Range]:
    """Return ranges without the numbers of others; both are sorted and disjoint."""
    left: list[Range] = []
    place = 0
    for start, last in ranges:
        first = start
        while place < len(taken) and taken[place][0] <= last:
            begin, end = taken[place]
            if first < begin:
                left.append((first, begin - 1))
            first = max(first, end + 1)
            if end > last:  # the range may reach into the next one
                break
            place += 1
        if first <= last:
            left.append((first, last))
    return left


def remove_number(ranges: list[Range], number: int) -> None:
    """Remove a number from sorted, disjoint ranges, if one of them holds it."""
    place = bisect_left(ranges, (number + 1,)) - 1
    if place >= 0 and number <= ranges[place][1]:
        first, last = ranges[place]
        parts = ((first, number - 1), (number + 1, last))
        ranges[place : place + 1] = [part for part in parts if part[0] <= part[1]]


def among(numbers: Sequence[int], wanted: Range) -> Sequence[int]:
    """Return the numbers, of some rising ones, that are in a range."""
    return numbers[bisect_left(numbers, wanted[0]) : bisect_right(numbers, wanted[1])]
