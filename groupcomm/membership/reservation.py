"""Reservation: the view counters that a daemon may have used, and those that its disk reserves.

Pure. ``now`` is in seconds; counters, marks and physical time are in microseconds, as a counter
begins with the physical time of a start. The disk holds a *mark*. Counters up to it may be used,
and the next start begins above it, so no start uses a counter of an earlier one.

View counters rise by one from view to view. They do not follow physical time: a slow disk would
never catch up with it. So only the start of a daemon, which begins at physical time, raises others
to a new mark. docs/membership.md says how far ahead a mark is written, and why.
"""

from collections.abc import Callable
from math import inf
from typing import Final

import attrs

from groupcomm.config.view import Start
from groupcomm.errors import ProtocolViolation
from groupcomm.metrics import metric

LEAD_US: Final = 2_000_000
"""A mark is written this far ahead of physical time: the daemons of a cluster that starts together
then need no second write. It is not written farther ahead: a daemon whose disk is lost begins at
physical time, which must be above all numbers that it has used."""

SPARE: Final = 100_000
"""The numbers beyond the needed one that a mark reserves: for as many views, or connections."""

AHEAD_US: Final = 10_000_000
"""The lead over physical time above which time does not tell which numbers were used."""

STEP_US: Final = 2**18
"""About a quarter of a second, less than a restart takes: so starts that follow each other at once
do not lead physical time by more and more."""

JUMP_US: Final = 2**32
"""Over an hour. Two starts that begin at the same number would have to jump equally far."""

FARTHEST_US: Final = 2**52
"""A number that is further ahead of physical time is invalid: no clock is 140 years ahead."""

FARTHEST_JUMP_US: Final = 2 * JUMP_US
"""The most that a mark may be ahead of the numbers known here, where these are that far ahead."""

RENEW_S: Final = 10.0
"""The time after which a mark that no daemon needs is renewed: a stopped disk shows by it."""

SLOW_S: Final = 0.025
"""A write time above which a disk may answer too late for a view that has to be made at once."""

MOST_LEAD_US: Final = 8_000_000
"""The mark of a slow disk is kept at most this far ahead."""

MOST_AHEAD_S: Final = (MOST_LEAD_US - 2 * LEAD_US) / 2e6
"""The longest writes, two seconds, with which a disk still stays ahead."""

FIRST_RETRY_S: Final = 0.1
LONGEST_RETRY_S: Final = 2.0
"""The time after which a failed write is begun again; it doubles from the first to the longest."""


@attrs.frozen(kw_only=True)
class DiskStatus:
    """The disk that marks of view counters are written to.

    Attributes:
        asked_at: the time since which the present write is wanted; None without one.
        error: the reason for which the last write failed; None if it did not.
        aside: others are in a view that needs a mark which the disk does not hold yet.
    """

    write_s: float = metric(
        "disk_write_seconds", "Longest time of recent writes to the state folder."
    )
    asked_at: float | None
    error: str | None
    spare: int = metric(
        "disk_spare_marks",
        "View counters that the disk holds for this daemon and that are not used.",
    )
    aside: bool = metric(
        "disk_aside",
        "1 while the daemon stands aside from a view until its disk has answered.",
    )


def first_number(mark: int, reading: int, random_id: int) -> int:
    """Return the number above which a start begins: no known start has used a higher one.

    Where the disk's mark is ahead of the clock, time does not distinguish two starts that have read
    it: the disk may have been restored, or be a copy. Their random ids do.

    Args:
        mark: the mark that the disk holds, or that others know of; 0 if the disk is empty.
        reading: physical time. No earlier start has used a number above it, even if the disk was
            lost.
        random_id: the random id of the start.
    """
    if mark <= reading:
        return reading
    return mark + random_id % (STEP_US if mark <= reading + AHEAD_US else JUMP_US)


def count_start(mark: int, reading: int, random_id: int) -> tuple[int, int]:
    """Return which numbers earlier starts may have used, and the mark to write with a new start.

    Args:
        mark, reading, random_id: see `first_number`.
    """
    used = first_number(mark, reading, random_id)
    return used, max(reading + LEAD_US, used + SPARE)


def reserved_by(start: Start, reading: Callable[[float], int], now: float) -> "Reservation":
    """Return the reservation of a daemon that starts.

    Args:
        start: the start of the daemon. If it was counted without a reservation, physical time was
            not compared either; then it counts now.
        reading: returns physical time at a time in seconds.
        now: seconds.
    """
    used = start.counter
    if not start.mark:
        used = first_number(start.counter, reading(now), start.incarnation.random_id)
    return Reservation(used, max(start.mark, start.counter), reading, now, start.write_s)


class Reservation:
    """The view counters of one start of a daemon.

    Args:
        used: the highest number that earlier starts may have used.
        mark: the mark that the disk holds.
        reading: returns physical time at a time in seconds.
        now: seconds.
        write_s: the time of the disk's last write before this.

    Attributes:
        used: the highest counter that this daemon may have used.
        mark: counters up to it may be used.
        needed: the highest counter that this daemon or others have asked for.
        to_store: have the disk hold this mark, then call `stored` or `failed`; None if it need not.
        due: the time at which `step` is due.
        write_s: the longest time of recent writes; one that hung is forgotten soon.
        asked_at: the time since which the disk is asked to hold `to_store`.
        error: the reason for which the last write failed; None if it did not.
    """

    __slots__ = (
        "_reading",
        "_retry_s",
        "asked_at",
        "due",
        "error",
        "mark",
        "needed",
        "to_store",
        "used",
        "write_s",
    )

    def __init__(
        self,
        used: int,
        mark: int,
        reading: Callable[[float], int],
        now: float,
        write_s: float = 0.0,
    ) -> None:
        self.used = used
        self.mark = mark
        self.to_store: int | None = None
        self.write_s = write_s
        self.asked_at = now
        self.error: str | None = None
        self._reading = reading
        self.needed = 0
        self._retry_s = FIRST_RETRY_S
        self.due = self._next_renewal(now)

    # ---- the needs of views ----

    def may_use(self, counter: int, now: float) -> bool:
        """Return whether a counter is reserved. If it is not, have the disk reserve it."""
        if counter <= self.mark:
            return True
        self.needed = max(self.needed, counter)
        if self.error is None:
            self._ask(now)
        return False

    def check(self, number: int, now: float) -> None:
        """Raise ProtocolViolation if no correct daemon can have used a number.

        All later numbers would have to be above it, and soon none would be left.
        """
        if number > max(self._reading(now) + FARTHEST_US, self.used + FARTHEST_JUMP_US):
            raise ProtocolViolation(
                "number",
                f"number {number} is said to be used, and the highest known one is {self.used}",
            )

    def use(self, counter: int) -> None:
        """Note that a view may get this counter, here or elsewhere."""
        assert counter <= self.mark, f"counter {counter} is above the mark {self.mark}"
        self.used = max(self.used, counter)

    def note_used(self, number: int) -> None:
        """Note that some daemon has used this number: the next view needs a higher one."""
        self.used = max(self.used, number)

    def is_far_ahead(self, counter: int, now: float) -> bool:
        """Return whether the clock does not tell which numbers below a view's counter were used.

        A disk that was lost or restored may not know them either, but some member of the view does.
        """
        return counter > self._reading(now) + AHEAD_US

    def keep_ahead(self, number: int, now: float) -> None:
        """Have the disk hold more in time, as connections have numbers up to this one."""
        if self.mark < number + SPARE // 2 and self.error is None:
            self._ask(now, number)

    def allows_view_with(self, used: int, mark: int, now: float) -> bool:
        """Return whether one view can have this daemon and another one.

        Its counter is above what both may have used, and at or below both marks. A daemon may have
        to count more as used than its disk holds yet: after it has met a start with an empty disk.

        Args:
            used: the highest counter that the other daemon may have used.
            mark: the mark of the other daemon's disk.
            now: seconds.
        """
        return self.may_use(used + 1, now) and max(self.used, used) < mark

    @property
    def is_short(self) -> bool:
        """Return whether others need a counter that the disk does not hold yet."""
        return self.needed > self.mark

    # ---- the disk ----

    def renew(self, now: float) -> None:
        """Have the disk hold a mark that is well ahead of physical time again, if it does not."""
        if self.mark < self._reading(now) + LEAD_US // 2 and self.error is None:
            self._ask(now)

    def step(self, now: float) -> None:
        """Begin the write that is due."""
        if now >= self.due:
            self._ask(now)

    def _ask(self, now: float, number: int = 0) -> None:
        if self.to_store is None:
            ahead = self._reading(now) + self._lead_us
            self.to_store = max(ahead, max(self.needed, number) + SPARE, self.mark)
            self.asked_at = now
            self.due = inf

    def excuse(self, late_s: float) -> None:
        """Do not count these seconds as the disk's: this daemon stood still."""
        self.asked_at += late_s

    def stored(self, mark: int, now: float, took_s: float | None = None) -> None:
        """Note that the disk holds this mark, file and folder synced.

        Args:
            mark: the mark.
            now: seconds.
            took_s: the seconds that the write took, by whoever has written; None: since it was
                asked for.
        """
        self.mark = max(self.mark, mark)
        took_s = max(0.0, now - self.asked_at) if took_s is None else took_s
        self.write_s = max(took_s, min(self.write_s / 2, MOST_AHEAD_S))
        self.to_store, self.error, self._retry_s = None, None, FIRST_RETRY_S
        if self.is_short:
            self._ask(now)
        else:
            self.due = self._next_renewal(now)

    def failed(self, reason: str, now: float) -> None:
        """Note that the disk has not stored the mark, or cannot say whether it has."""
        self.to_store, self.error = None, reason
        self.due = now + self._retry_s
        self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)

    def status(self) -> DiskStatus:
        """Return the facts for operators."""
        return DiskStatus(
            write_s=self.write_s,
            asked_at=None if self.to_store is None else self.asked_at,
            error=self.error,
            spare=max(0, self.mark - self.used),
            aside=self.is_short,
        )

    # ---- the lead of marks ----

    @property
    def _keeps_ahead(self) -> bool:
        """Return whether the disk is slow, and yet quick enough to stay ahead of physical time."""
        return SLOW_S < self.write_s <= MOST_AHEAD_S

    @property
    def _lead_us(self) -> int:
        return 2 * LEAD_US + int(2e6 * self.write_s) if self._keeps_ahead else LEAD_US

    def _next_renewal(self, now: float) -> float:
        """Return the time of the next write that no daemon needs.

        The mark of a slow disk stays above the marks of others, also while it is being renewed. So
        a daemon that starts anew does not lead this one to a counter that is not reserved.
        """
        if not self._keeps_ahead:
            return now + RENEW_S
        least_us = self._reading(now) + LEAD_US + int(2e6 * self.write_s)
        return now + max(0.0, (self.mark - least_us) / 1e6)
