"""What has come over a link, and when to acknowledge it.

Pure. What comes is acknowledged after MAX_ACK_DELAY_S; ACK_EVERY packets, and whatever shows a gap,
at once, but only each ACK_INTERVAL_S, as one acknowledgement names all that has come.
"""

from math import inf
from typing import Final

from groupcomm.hop.round_trip import MAX_ACK_DELAY_S
from groupcomm.stream.ranges import Range
from groupcomm.wire.ack import MAX_RANGES, MOST_DELAY_US, Acknowledgement

ACK_INTERVAL_S: Final = 0.001
ACK_EVERY: Final = 8


class Received:
    """The receiving half of one link.

    Attributes:
        due: when to acknowledge; inf if there is nothing to.
        duplicates: packets that had come before.
    """

    __slots__ = ("_acked_at", "_highest_at", "_ranges", "_unacked", "due", "duplicates")

    def __init__(self) -> None:
        self._ranges: list[Range] = []  # rising; what is below the first of a full list has come
        self._highest_at = 0.0
        self._unacked = 0
        self._acked_at = -inf
        self.due = inf
        self.duplicates = 0

    @property
    def highest(self) -> int:
        """The highest number that has come; 0 before the first."""
        return self._ranges[-1][1] if self._ranges else 0

    def take(self, number: int, now: float) -> bool:
        """Note a link number; False if it had come, or is so old that nobody knows any more."""
        ranges = self._ranges
        if ranges and number == ranges[-1][1] + 1:  # nearly always
            ranges[-1] = (ranges[-1][0], number)
            self._note(now, gap=len(ranges) > 1 and self._unacked == 0)
            self._highest_at = now
            return True
        if not self._insert(number):
            self.duplicates += 1
            self._note(now, gap=True)  # its sender does not know that it came
            return False
        if number == ranges[-1][1]:
            self._highest_at = now
        self._note(now, gap=number > 1)
        return True

    def _insert(self, number: int) -> bool:
        ranges = self._ranges
        if len(ranges) == MAX_RANGES and number < ranges[0][0]:
            return False
        place = len(ranges)
        while place and ranges[place - 1][0] > number:
            place -= 1
        if place and ranges[place - 1][1] >= number:
            return False
        first = last = number
        if place < len(ranges) and ranges[place][0] == number + 1:
            last = ranges.pop(place)[1]
        if place and ranges[place - 1][1] == number - 1:
            place -= 1
            first = ranges.pop(place)[0]
        ranges.insert(place, (first, last))
        del ranges[:-MAX_RANGES]
        return True

    def _note(self, now: float, *, gap: bool) -> None:
        self._unacked += 1
        soon = gap or self._unacked >= ACK_EVERY
        due = max(now, self._acked_at + ACK_INTERVAL_S) if soon else now + MAX_ACK_DELAY_S
        self.due = min(self.due, due)

    def acknowledge(self, me: int, now: float) -> Acknowledgement:
        """Say what has come; it is due, or costs nothing."""
        self._unacked = 0
        self._acked_at = now
        self.due = inf
        delay_us = min(int((now - self._highest_at) * 1e6), MOST_DELAY_US)
        return Acknowledgement(sender=me, delay_us=delay_us, ranges=list(self._ranges))
