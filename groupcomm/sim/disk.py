"""A simulated disk: what one daemon keeps over its restarts, and what can befall it.

A record is written whole or not at all, as a file is that is renamed into place; it lasts once file
and folder are synced, which takes time. What is under way at a crash may have become durable or
not.
"""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

import attrs

from groupcomm.sim.loop import SECOND, Loop

FASTEST_US: Final = SECOND // 10_000
SLOWEST_US: Final = SECOND // 200
"""Bounds of a write with its syncs, microseconds."""

REMEMBERED: Final = 16
"""Earlier records to which a disk can be rolled back."""


@attrs.frozen(kw_only=True)
class DiskRecord:
    """What a daemon keeps.

    Attributes:
        restarts: how many times it has started.
        mark: view counters up to here may have been used; 0 on an empty disk.
    """

    restarts: int = 0
    mark: int = 0


class _Write(NamedTuple):
    record: DiskRecord
    done: Callable[[], None]


class Disk:
    """The disk of one daemon.

    Args:
        loop: virtual time.
        rng: this disk's source.
        record: what it holds at first.

    Attributes:
        record: what is durable.
    """

    def __init__(self, loop: Loop, rng: Random, record: DiskRecord | None = None) -> None:
        self._loop = loop
        self._rng = rng
        self.record = record or DiskRecord()
        self._earlier: list[DiskRecord] = []
        self._under_way: _Write | None = None

    def write(self, record: DiskRecord, done: Callable[[], None]) -> None:
        """Write a record and sync it; ``done()`` follows once it lasts. One write at a time."""
        assert self._under_way is None, "two writes at a time"
        self._under_way = _Write(record, done)
        lasts = FASTEST_US + int(self._rng.random() * (SLOWEST_US - FASTEST_US))
        self._loop.at(self._loop.now + lasts, self._synced, self._under_way)

    def _synced(self, write: _Write) -> None:
        if self._under_way is write:
            self._under_way = None
            self._keep(write.record)
            write.done()

    def _keep(self, record: DiskRecord) -> None:
        self._earlier = [*self._earlier, self.record][-REMEMBERED:]
        self.record = record

    # ---- faults ----

    def crash(self) -> None:
        """Whoever writes is gone: what is under way is lost, or lasts although nobody was told."""
        if self._under_way is not None:
            record, self._under_way = self._under_way.record, None
            if self._rng.random() < 0.5:
                self._keep(record)

    def lose(self) -> None:
        """Everything is lost: a new, empty disk."""
        self.crash()
        self.record, self._earlier = DiskRecord(), []

    def roll_back(self) -> None:
        """An earlier record is all there is, as from a backup."""
        self.crash()
        if self._earlier:
            place = self._rng.randrange(len(self._earlier))
            self.record = self._earlier[place]
            del self._earlier[place:]

    def copy(self) -> "Disk":
        """A clone: another disk with the same content."""
        return Disk(self._loop, Random(self._rng.random()), self.record)

    def repair(self, restarts: int) -> None:
        """Correct the restart count by hand, as an operator does who knows it."""
        self.record = attrs.evolve(self.record, restarts=max(self.record.restarts, restarts))
