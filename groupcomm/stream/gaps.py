"""Gaps of a foreign stream: which missing numbers are to be asked for, and when.

A foreign stream has no token that shows how far it goes, so time decides: a number that is
missing for `delay_s` was not merely reordered, and one that was asked for in vain is asked for
again after `retry_s`.
"""

from math import inf

from groupcomm.stream.ranges import Range, ranges_of
from groupcomm.stream.stream import Stream

MAX_GAPS = 4096
"""Missing numbers that are timed at once; later ones follow when these are repaired."""


class Gaps:
    """The missing numbers of one stream, each with the time at which to ask for it.

    Attributes:
        stream: the stream.
        deadline: when `pop_due` has something to give; inf without gaps.
    """

    __slots__ = ("_delay_s", "_due", "_retry_s", "_scanned", "deadline", "stream")

    def __init__(self, stream: Stream, *, delay_s: float, retry_s: float) -> None:
        self.stream = stream
        self._delay_s = delay_s
        self._retry_s = retry_s
        self._due: dict[int, float] = {}
        self._scanned = stream.held
        self.deadline = inf

    def update(self, now: float) -> None:
        """Look at the stream again after it took packets or learned of some."""
        stream = self.stream
        due = self._due
        packets = stream.packets
        if due:
            held = stream.held
            for number in [n for n in due if n <= held or n in packets]:
                del due[number]
        start = max(self._scanned, stream.held) + 1
        stop = min(stream.known, start + MAX_GAPS - len(due) - 1)
        for number in range(start, stop + 1):
            if number not in packets:
                due[number] = now + self._delay_s
        self._scanned = max(stop, start - 1)
        self.deadline = min(due.values()) if due else inf

    def pop_due(self, now: float) -> list[Range]:
        """Return the ranges to request now; they are due again after the retry interval."""
        if now < self.deadline:
            return []
        due = self._due
        numbers = [number for number, time in due.items() if time <= now]
        for number in numbers:
            due[number] = now + self._retry_s
        self.deadline = min(due.values())
        return ranges_of(numbers)
