"""When the holder of a token owes the other rings a horizon notice.

Pure. While the agreed order is in use, notices come in short intervals, because every ring's
agreed deliveries wait for them; in silence they come only until every packet is forgotten.
"""

from math import inf

from groupcomm.config.core import Timing

REPEATS = 3
"""Up to where a stream is held is told in so many notices after it has changed."""

NEAR_S = 0.008
"""Rings that are nearer ask for a notice by what they send: its answer is there before the next
one of a series would be."""


class NoticeSchedule:
    """The due time of a ring's next horizon notice, as one of its daemons knows it.

    Attributes:
        last_at: when the ring's last notice was issued or heard.
        agreed_at: when something of the agreed order was last seen in the view.
        foreign_time: the highest agreed stamp of another ring that was seen.
        announced: the highest horizon in a notice of the ring.
        announced_frontier: the highest frontier in a notice of the ring.
        asked: another ring misses something, maybe a notice of this ring.
    """

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

    def due_at(
        self, now: float, *, safe_waits: bool, holds_packets: bool, holds_more: bool
    ) -> float:
        """The time of the next notice, maybe past; inf if none is owed.

        Args:
            now: seconds.
            safe_waits: whether a SAFE packet waits that the ring's frontier has passed since the
                last notice.
            holds_packets: whether some packet is not yet forgotten.
            holds_more: whether senders of another ring soon wait to hear what this one holds.
        """
        timing = self._timing
        if safe_waits or holds_more:
            return self.last_at + timing.horizon_interval_min_s
        if self._near:
            if self.foreign_time > self.announced:
                return self.last_at + timing.horizon_interval_min_s
        elif now - self.agreed_at <= timing.agreed_memory_s:
            return self.last_at + self._interval_s
        if holds_packets or self.asked:
            return self.last_at + timing.rest_interval_s
        return inf

    def missed_at(self) -> float:
        """When a daemon that still holds packets begins to doubt that notices still come.

        Whoever holds the token may have forgotten all, and so fallen silent, while a notice that
        was lost on its last way keeps another daemon waiting.
        """
        return self.last_at + 2 * self._timing.rest_interval_s

    def issued(self, now: float, frontier: int, horizon: int) -> None:
        """A notice of the own ring has gone out, from here or from a fellow."""
        self.announced = max(self.announced, horizon)
        self.last_at = now
        self.asked = False
        self.announced_frontier = max(self.announced_frontier, frontier)


class HeldTold:
    """What notices need to tell of what the ring holds: most streams have nothing new.

    A notice may be lost, so a number is told in several; all of them now and then, and by each
    daemon that begins to issue notices.
    """

    __slots__ = ("_all_at", "_all_interval_s", "_held", "_left")

    def __init__(self, rings: int, all_interval_s: float) -> None:
        """Begin; all is told in every notice that comes so many seconds after such a one."""
        self._all_interval_s = all_interval_s
        self._all_at = -inf
        self._held = [0] * rings
        self._left = [0] * rings  # in how many notices the number is still to be told

    def lags(self, held: list[int], packets: int) -> bool:
        """Whether of some stream so many packets more are held than was told."""
        return any(now - told >= packets for told, now in zip(self._held, held, strict=True))

    def tell(self, held: list[int], now: float) -> list[tuple[int, int]]:
        """What the next notice tells of these numbers, by ring: (ring, number), rising."""
        for ring, number in enumerate(held):
            if number != self._held[ring]:
                self._held[ring], self._left[ring] = number, REPEATS
        if now >= self._all_at + self._all_interval_s:
            self._all_at = now
            return list(enumerate(held))
        told = [(ring, held[ring]) for ring, left in enumerate(self._left) if left]
        for ring, _ in told:
            self._left[ring] -= 1
        return told
