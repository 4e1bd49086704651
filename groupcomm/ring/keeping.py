"""How long the token may stay with a daemon that has numbered what others may lack.

Pure. ``now`` is in seconds. In a view of one ring it stays while messages follow each other, as
each shows whether the one before it is missing; in one of several it goes soon, as other rings wait
for headers until this one holds everything.
"""

from math import inf
from typing import Final

from groupcomm.config.core import Timing
from groupcomm.wire.token import Row

STEADY: Final = 10
"""Messages follow each other that come within so many times `linger_s`."""

ANSWERS: Final = 4
"""Who holds a message has told so within so many times `linger_s`, though it may be busy."""


class Keeping:
    """Of one daemon.

    Args:
        timing: of the ring.
        single: the view has one ring.

    Attributes:
        single: so it has.
        steady: so it has, and the last packet, of whomever, came soon behind the one before it.
        settle_at: when the token is to go round; inf if it need not.
    """

    __slots__ = (
        "_interval_s",
        "_linger_s",
        "_numbered_at",
        "_overdue_at",
        "_unsettled",
        "settle_at",
        "single",
        "steady",
    )

    def __init__(self, timing: Timing, *, single: bool) -> None:
        self._linger_s = timing.linger_s
        self._interval_s = timing.rest_interval_s
        self.single = single
        self._numbered_at = -inf  # when a new packet was there last
        self._unsettled = 0  # everybody has to have the token once, and to hold this number
        self._overdue_at = inf  # by then, though others ask for it
        self.steady = False
        self.settle_at = inf

    def note_packet(self, now: float) -> None:
        """A new packet is there."""
        before, self._numbered_at = self._numbered_at, now
        self.steady = self.single and now - before <= STEADY * self._linger_s

    def note_rows(self, rows: list[Row], own: Row, ring: int, last: int, now: float) -> None:
        """The token is here, with these rows, after `last` was numbered."""
        for row in rows:
            if row is not own and row.held[ring] < self._unsettled:
                return
        self._unsettled = last
        self._overdue_at = now + self._interval_s

    def stay(self, now: float, *, asks: bool) -> None:
        """The token stays, with what others may lack; `asks`: they are to tell if they do not."""
        wait_s = self._linger_s
        if self.steady:
            wait_s *= STEADY
        elif asks:
            wait_s *= ANSWERS
        if self.single:
            self.settle_at = min(now + wait_s, self._overdue_at)
        else:
            self.settle_at = min(self.settle_at, now + wait_s)

    def settled(self) -> None:
        """All hold what was numbered: the token need not go round for it."""
        self.settle_at = inf

    def may_stay(self, now: float) -> bool:
        """Whether it may stay at all."""
        return self._linger_s > 0 and now < self._overdue_at

    def is_starving(self, now: float) -> bool:
        """Whether somebody has not had the token for long, as others asked for it by turns."""
        return now >= self._overdue_at + self._interval_s
