"""Sending something again and again, ever more rarely, until it is answered."""

from math import inf


class Repeater:
    """The times of the repetitions; intervals double from `first_s` up to `longest_s`.

    Attributes:
        at: the next time; inf while nothing is to be repeated.
    """

    __slots__ = ("_first_s", "_longest_s", "_wait_s", "at")

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._wait_s = first_s
        self.at = inf

    def start(self, now: float, wait_s: float | None = None) -> None:
        """Begin anew: the first time comes after the first interval, or after `wait_s`."""
        if wait_s is None:
            wait_s = self._first_s
        self._wait_s = max(wait_s, self._first_s)
        self.at = now + wait_s

    def stop(self) -> None:
        """It was answered."""
        self.at = inf

    def take(self, now: float) -> bool:
        """Whether it is time; if so the next time is set."""
        if now < self.at:
            return False
        self.at = now + self._wait_s
        self._wait_s = min(2 * self._wait_s, self._longest_s)
        return True
