"""Allowances: how much may be said in answer to what others send."""

from typing import Final

BURST_EACH: Final = 8
PER_S_EACH: Final = 50.0
BURST_ALL: Final = 2048
PER_S_ALL: Final = 4000.0
"""A thousand daemons that start at once meet within a second."""


class Allowance:
    """So many at once, so many a second (a token bucket). `now` is in seconds."""

    __slots__ = ("_at", "_burst", "_left", "_per_s")

    def __init__(self, burst: int, per_s: float, now: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = float(burst)
        self._at = now

    def allows(self, now: float) -> bool:
        """Whether one more may be said; nothing is taken yet."""
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        return self._left >= 1.0

    def take(self) -> None:
        """One is said."""
        self._left -= 1.0


class Allowances:
    """One for each daemon, and one for all of them together."""

    __slots__ = ("_all", "_each")

    def __init__(self, now: float) -> None:
        self._all = Allowance(BURST_ALL, PER_S_ALL, now)
        self._each: dict[int, Allowance] = {}

    def take(self, number: int, now: float) -> bool:
        """Whether one more may be said to this daemon, by its number; then it counts as said."""
        each = self._each.get(number)
        if each is None:
            each = self._each[number] = Allowance(BURST_EACH, PER_S_EACH, now)
        if not (each.allows(now) and self._all.allows(now)):
            return False
        each.take()
        self._all.take()
        return True
