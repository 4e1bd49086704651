"""Blocks and frontiers: the stamps below which nothing can come, and all daemons can deliver.

A *block* is put on a queue of bus1 while something lower may still come; here a daemon keeps
one per ring, at the ring's counted horizon. Nothing above a block is delivered. A horizon is a
promise about the packets after `upto`, so it counts only once everything up to there is held.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

MOST_PENDING: Final = 256
"""The most notices of one ring that wait for packets; later ones repeat them, and come again."""


class Blocks:
    """Per ring the counted horizon, at one daemon.

    Attributes:
        values: for each ring the time at or below which nothing can still arrive from it.
        least: the least of these times: no ring can still send below an agreed packet at or below
            it. It is also the daemon's own frontier.
    """

    __slots__ = ("_counted", "_last", "_pending", "least", "values")

    def __init__(self, rings: int, clock: int, counted: Callable[[int, int, int], None]) -> None:
        """Start with blocks at `clock`; `counted` is called with each notice that moves one."""
        self.values = [clock] * rings
        self.least = clock
        self._counted = counted
        self._last: list[tuple[int, int]] = [(0, 0)] * rings  # last counted notice (upto, value)
        self._pending: list[deque[tuple[int, int]]] = [deque() for _ in range(rings)]

    def announce(self, ring: int, value: int, upto: int, held: int) -> bool:
        """Accept a ring's notice, which counts once packets up to `upto` are held.

        Returns:
            Whether the ring's block has moved.
        """
        if upto <= held:
            return self._count(ring, value, upto)
        pending = self._pending[ring]
        if not pending or upto > pending[-1][0]:
            if len(pending) < MOST_PENDING:
                pending.append((upto, value))
        elif upto == pending[-1][0]:
            pending[-1] = (upto, max(value, pending[-1][1]))
        return False

    def pending(self, ring: int) -> deque[tuple[int, int]]:
        """Return the notices (upto, value) of a ring that wait for packets, by rising `upto`."""
        return self._pending[ring]

    def stream_advanced(self, ring: int, held: int, time: int) -> None:
        """Note that all packets up to `held` are here, the last of them stamped `time`."""
        self._raise(ring, time)
        pending = self._pending[ring]
        while pending and pending[0][0] <= held:
            upto, value = pending.popleft()
            self._count(ring, value, upto)

    def _count(self, ring: int, value: int, upto: int) -> bool:
        if value <= self.values[ring]:
            return False
        self._raise(ring, value)
        self._last[ring] = (upto, value)
        self._counted(ring, value, upto)
        return True

    def notices(self, ring: int) -> list[tuple[int, int]]:
        """Return the notices (upto, value) of a ring that still matter: last counted, and later."""
        last = self._last[ring]
        return [*([last] if last[1] else []), *self._pending[ring]]

    def _raise(self, ring: int, value: int) -> None:
        before = self.values[ring]
        if value > before:
            self.values[ring] = value
            if before == self.least:
                self.least = min(self.values)


class Frontiers:
    """Per ring the least block of all its daemons, as this daemon knows it.

    Attributes:
        least: every daemon of the view holds and can deliver everything at or below this time.
    """

    __slots__ = ("least", "values")

    def __init__(self, rings: int, clock: int) -> None:
        self.values = [clock] * rings
        self.least = clock

    def raise_to(self, ring: int, value: int) -> bool:
        """Move a ring's frontier up to `value`; return False if it is there already."""
        before = self.values[ring]
        if value <= before:
            return False
        self.values[ring] = value
        if before == self.least:
            self.least = min(self.values)
        return True
