"""Horizon notices: what a ring tells the other rings about its progress.

Pure. ``now`` is in seconds. The holder of the token issues them. While the agreed order is in use,
horizon notices come in short intervals, because the agreed deliveries of every ring wait for them.
In silence they come only until every packet is forgotten.
"""

from bisect import bisect_left
from math import inf
from typing import NamedTuple

from groupcomm.clocks.ring_clock import RingClock
from groupcomm.config.core import Timing
from groupcomm.config.view import View
from groupcomm.ring.context import RingContext
from groupcomm.ring.flow_control import report_after
from groupcomm.wire.horizon import MOST_HELD, HorizonNotice

REPEATS = 3
"""The number of notices that report a number after it has changed."""

NEAR_S = 0.008
"""Rings that are nearer ask for a notice by their packets: its answer arrives before the next
notice of a series would."""


class Due(NamedTuple):
    """The next notice of a ring.

    Attributes:
        at: when it is due; inf if none is.
        targets: the rings that it is for, as bits; 0: it is for all.
        shared: whether it goes along the tree that all rings share.
    """

    at: float
    targets: int = 0
    shared: bool = False


class NoticeSchedule:
    """The time of the next horizon notice of a ring, as one of its daemons knows it.

    Attributes:
        last_at: the time at which the last notice of the ring was issued or heard.
        agreed_at: the time at which an agreed packet was last seen in the view.
        foreign_time: the highest agreed stamp seen from another ring.
        announced: the highest horizon in a notice of the ring.
        announced_frontier: the highest frontier in a notice of the ring.
        asked: whether another ring misses packets, or maybe a notice of this ring.
        all_holdings_each: the rest intervals from a notice of everything held to the next one.
    """

    all_holdings_each = 1

    __slots__ = (
        "_interval_s",
        "_near",
        "_timing",
        "agreed_at",
        "announced",
        "announced_frontier",
        "asked",
        "foreign_time",
        "last_at",
    )

    def __init__(self, timing: Timing, longest_delay_s: float, now: float) -> None:
        self._timing = timing
        least = timing.horizon_interval_min_s
        self._interval_s = max(least, min(timing.horizon_interval_max_s, longest_delay_s / 8))
        self._near = longest_delay_s < NEAR_S
        self.foreign_time = 0
        self.announced = 0
        self.announced_frontier = 0
        self.last_at = now
        self.agreed_at = -inf
        self.asked = False

    def next_due(
        self, now: float, *, safe_waits: bool, holds_packets: bool, holds_more: int
    ) -> Due:
        """Return when the next notice is due, maybe in the past, and to which rings.

        Args:
            now: seconds.
            safe_waits: whether a SAFE packet waits that the ring's frontier has passed since the
                last notice.
            holds_packets: whether some packet is not yet forgotten.
            holds_more: the rings, as bits, whose senders will soon wait for this ring's report.
        """
        timing = self._timing
        if safe_waits or holds_more:
            return Due(self.last_at + timing.horizon_interval_min_s)
        if self._near:
            if self.foreign_time > self.announced:
                return Due(self.last_at + timing.horizon_interval_min_s)
        elif now - self.agreed_at <= timing.agreed_memory_s:
            return Due(self.last_at + self._interval_s)
        if holds_packets or self.asked:
            return Due(self.last_at + timing.rest_interval_s)
        return Due(inf)

    def missed_at(self) -> float:
        """Return the time at which a daemon that holds packets doubts that notices still come.

        The holder of the token may have forgotten everything, and so be silent, while a notice that
        was lost on its last link keeps another daemon waiting.
        """
        return self.last_at + 2 * self._timing.rest_interval_s

    def issued(
        self, now: float, frontier: int, horizon: int, targets: int = 0, *, shared: bool = False
    ) -> None:
        """Note that this daemon or another one of the ring has sent a notice of the ring."""
        self.announced = max(self.announced, horizon)
        self.last_at = now
        self.asked = False
        self.announced_frontier = max(self.announced_frontier, frontier)


class HoldingsReport:
    """The numbers held by the ring that notices must report; most streams have nothing new.

    A notice may be lost, so each number is reported in several. All numbers are reported now and
    then, and by each daemon that begins to issue notices. A notice to some rings reports the
    streams of these. With more than MOST_HELD rings all numbers take several notices, one after
    another, and of more numbers that have changed each notice goes on where the last one ended.
    """

    __slots__ = ("_all_at", "_all_from", "_all_interval_s", "_held", "_left", "_next")

    def __init__(self, rings: int, all_interval_s: float) -> None:
        """Start; a notice reports everything `all_interval_s` after the last one that did."""
        self._all_interval_s = all_interval_s
        self._all_at = -inf
        self._held = [0] * rings
        self._left = [0] * rings  # the notices that still have to report each number
        self._all_from = 0  # the first ring of the next part of all numbers
        self._next = 0  # the ring from which on changed numbers come first

    def lagging(self, held: list[int], packets: int) -> int:
        """Return the rings, as bits, of whose streams `packets` more are held than was reported."""
        told = self._held
        return sum(1 << ring for ring, now in enumerate(held) if now - told[ring] >= packets)

    def note_reported(self, held: list[tuple[int, int]]) -> None:
        """Note what another daemon of the ring has reported."""
        for ring, number in held:
            if number > self._held[ring]:
                self._held[ring], self._left[ring] = number, REPEATS
            self._left[ring] = max(0, self._left[ring] - 1)

    def pop_next(self, held: list[int], now: float, targets: int = 0) -> list[tuple[int, int]]:
        """Return the numbers that the next notice reports: (ring, number), by rising ring."""
        for ring, number in enumerate(held):
            if number != self._held[ring] and (not targets or targets >> ring & 1):
                self._held[ring], self._left[ring] = number, REPEATS
        if not targets and (self._all_from or now >= self._all_at + self._all_interval_s):
            return self._next_part(held, now)
        changed = [
            ring
            for ring, left in enumerate(self._left)
            if left and (not targets or targets >> ring & 1)
        ]
        if len(changed) > MOST_HELD:
            place = bisect_left(changed, self._next)
            first = (changed[place:] + changed[:place])[:MOST_HELD]
            self._next, changed = first[-1] + 1, sorted(first)
        for ring in changed:
            self._left[ring] -= 1
        return [(ring, held[ring]) for ring in changed]

    def _next_part(self, held: list[int], now: float) -> list[tuple[int, int]]:
        """Return the next part of all numbers."""
        begin, end = self._all_from, min(self._all_from + MOST_HELD, len(held))
        if not begin:
            self._all_at = now
        self._all_from = end if end < len(held) else 0
        return [(ring, held[ring]) for ring in range(begin, end)]


class HorizonNotices:
    """The horizon notices of one daemon while it has the token.

    Attributes:
        horizon_at: the time at which the next horizon notice is due, as last computed; inf with one
            ring.
        notices: the schedule of horizon notices.
        report: the numbers held that notices report.
        report_after: the number of new packets of another ring's stream after which a notice is
            due.
    """

    __slots__ = (
        "_clock",
        "_context",
        "_next",
        "_ring",
        "horizon_at",
        "notices",
        "report",
        "report_after",
    )

    def __init__(
        self,
        view: View,
        me: int,
        timing: Timing,
        *,
        clock: RingClock,
        context: RingContext,
        notices: NoticeSchedule,
    ) -> None:
        self._ring = view.ring_of[me]
        self.report_after = report_after(view.packet_limit)
        every = timing.rest_interval_s * notices.all_holdings_each
        self.report = HoldingsReport(len(view.rings), every)
        self._clock = clock
        self._context = context
        self.notices = notices
        self._next = Due(inf)
        self.horizon_at = inf

    def horizon_if_due(self, last: int, held: list[int], frontier: int, now: float) -> None:
        """Announce this ring's progress to other rings, if a notice is due.

        Args:
            last: the last number given in the ring.
            held: for each ring, the number up to which all daemons of this ring hold its stream.
            frontier: the ring's frontier, from the token's last visit here.
            now: seconds.
        """
        self._schedule(held, frontier, now)
        while self.horizon_at <= now:
            self._issue(last, held, frontier, now)
            self._schedule(held, frontier, now)

    def _issue(self, last: int, held: list[int], frontier: int, now: float) -> None:
        horizon = self._clock.promise(now, above=self.notices.announced)
        _, targets, shared = self._next
        notice = HorizonNotice(
            ring=self._ring,
            horizon=horizon,
            upto=last,
            frontier=frontier,
            unsettled=self._context.holds_packets,
            held=self.report.pop_next(held, now, targets),
            targets=targets,
            shared=shared,
        )
        self.notices.issued(now, frontier, horizon, targets, shared=shared)
        self._context.promise(horizon, last)
        self._context.announce(notice)

    def _schedule(self, held: list[int], frontier: int, now: float) -> None:
        self._next = self.notices.next_due(
            now,
            safe_waits=self._context.safe_waits(self.notices.announced_frontier, frontier),
            holds_packets=self._context.holds_packets,
            holds_more=self.report.lagging(held, self.report_after),
        )
        self.horizon_at = self._next.at
