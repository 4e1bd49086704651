"""Notices of large clusters: to the rings that wait for them, while they do; to all now and then.

Pure. ``now`` is in seconds. Sets of rings are the bits of a number. A ring waits for the horizons
of all others if something has come to its programs, or was sent by them, that may have to wait for
the agreed order. The other rings know that by the packets: they tell it at once, three times as a
notice may be lost, and from its second use of the order on in short intervals, as all rings tell
all in a small cluster. Everybody learns of a ring's progress by notices of the shared tree, which
come each rest interval until every packet is forgotten.
"""

from collections.abc import Iterator
from math import inf

from groupcomm.config.core import Timing
from groupcomm.ring.horizon_notices import REPEATS, Due, NoticeSchedule


def rings_of(bits: int) -> Iterator[int]:
    """Return the rings of a set, rising."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


class AddressedNotices(NoticeSchedule):
    """The next notices of a ring of a large cluster, as one of its daemons knows it.

    Attributes:
        known_to_all: a horizon that all rings have heard of by the shared tree, unless it was lost.
    """

    all_holdings_each = 8  # all streams together have many numbers

    __slots__ = (
        "_active",
        "_all",
        "_all_notified_at",
        "_last_to_all",
        "_left",
        "_repeats",
        "_sent",
        "_since",
        "_used_at",
        "_wanted",
        "known_to_all",
    )

    def __init__(
        self, timing: Timing, longest_delay_s: float, now: float, *, rings: int, own: int
    ) -> None:
        super().__init__(timing, longest_delay_s, now)
        self._repeats = 1 if self._near else REPEATS
        self._all = (1 << rings) - 1 & ~(1 << own)
        self._active = 0  # the rings that are told after the next interval
        self._wanted = [0] * rings  # the highest stamp that each ring waits for
        self._sent = [0] * rings  # the highest horizon in a notice to each ring
        self._left = [0] * rings  # the notices that still have to repeat it
        self._since = [-inf] * rings  # when each ring began to use the agreed order
        self._used_at = [-inf] * rings  # when it did last
        self._all_notified_at, self._last_to_all, self.known_to_all = now, 0, 0

    def note_use(self, rings: int, time: int, now: float, *, agreed: bool, foreign: bool) -> None:
        """Note that rings wait for the agreed order up to a time.

        Args:
            rings: the rings.
            time: the stamp of an agreed packet, or of the last one before a packet without one.
            now: seconds.
            agreed: whether it is an agreed packet.
            foreign: whether the packet is of another ring. One of the own ring promises itself what
                a notice would; far from here the notice still shows daemons that they lack it.
        """
        for ring in rings_of(rings & self._all):
            is_news = time > self._sent[ring] and (foreign or not self._near)
            if not agreed and time <= self.known_to_all:
                continue
            if now - self._used_at[ring] > self._timing.agreed_memory_s:
                self._since[ring] = now
            self._used_at[ring] = now
            if is_news and time > self._wanted[ring]:
                self._wanted[ring], self._left[ring] = time, self._repeats
            self._review(ring, now)

    def _review(self, ring: int, now: float) -> None:
        """Decide whether a ring is told after the next interval."""
        used_at = self._used_at[ring]
        active = self._left[ring] > 0
        if not (active or self._near) and now - used_at <= self._timing.agreed_memory_s:
            active = used_at - self._since[ring] >= self._repeats * self._interval_s
        self._active = self._active & ~(1 << ring) | active << ring

    def next_due(
        self, now: float, *, safe_waits: bool, holds_packets: bool, holds_more: int
    ) -> Due:
        """Return when the next notice is due, and to which rings; see NoticeSchedule."""
        timing, due = self._timing, Due(inf)
        if safe_waits:
            self._left = [self._repeats] * len(self._left)
            self._active = self._all
        if safe_waits or holds_more:
            rings = self._active | holds_more
            due = Due(self.last_at + timing.horizon_interval_min_s, rings)
        elif self._active:
            due = Due(self.last_at + self._interval_s, self._active)
        if holds_packets or self.asked:
            rest_at = self._all_notified_at + timing.rest_interval_s
            if rest_at < due.at:
                return Due(rest_at, shared=True)
        return due

    def missed_at(self) -> float:
        """Return the time at which a daemon that holds packets doubts that notices still come."""
        return self._all_notified_at + 2 * self._timing.rest_interval_s

    def issued(
        self, now: float, frontier: int, horizon: int, targets: int = 0, *, shared: bool = False
    ) -> None:
        """Note that this daemon or another one of the ring has sent a notice of the ring."""
        to_all = not self._all & ~(targets or self._all)
        self.announced = max(self.announced, horizon)
        if to_all:
            self._all_notified_at, self.asked = now, False
            self.announced_frontier = max(self.announced_frontier, frontier)
        if shared:
            self.known_to_all, self._last_to_all = (
                self._last_to_all,
                max(horizon, self._last_to_all),
            )
            return
        self.last_at = now
        for ring in rings_of((targets or self._all) & self._all):
            self._sent[ring] = max(self._sent[ring], horizon)
            self._left[ring] = max(0, self._left[ring] - 1)
            self._review(ring, now)
