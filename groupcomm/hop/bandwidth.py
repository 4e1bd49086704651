"""How fast a link may be used: a model of its bandwidth and delay, not of its losses.

Pure. A network that loses packets at random says nothing by it about its load, so neither loss nor
delay alone slows a sender down here. It measures how fast packets are delivered, paces what it
sends by the best rate of the last rounds, and now and then sends a little faster to see whether
there is more. A queue that this builds is drained right after. Daemons that are busy acknowledge
late and much at once; so much may be under way besides, else each stall would lower the rate.

Sources: Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016, for
states and gains; draft-cardwell-iccrg-bbr-congestion-control, section 4.5.5, for late
acknowledgements; draft-cheng-iccrg-delivery-rate-estimation for the samples. Left out: its rare
phase that sends next to nothing, as each cycle's slow phase shows the least delay of a link that
few flows share.
"""

import enum
from collections import deque
from typing import Final

from groupcomm.hop.round_trip import RoundTrip

FIRST_BYTES: Final = 64 * 1024
"""So much may be under way before the limit is known."""

LEAST_PACKETS: Final = 8
"""May always be under way: acknowledgements need something to acknowledge."""

MOST_LATE_BYTES: Final = 1_000_000
"""Under way besides, for acknowledgements that come late."""

_ROUNDS: Final = 10
"""The best rate of so many rounds counts."""

_FAST: Final = 2.885  # 2 / ln 2: doubles the rate each round
_GROWTH: Final = 1.25
_FULL_ROUNDS: Final = 3
_CYCLE: Final = (1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
_WINDOW: Final = 2.0


class Phase(enum.Enum):
    """How well the bandwidth is known."""

    STARTUP = enum.auto()  # not yet: each round twice as fast
    DRAIN = enum.auto()  # it is, and what startup has queued goes first
    CRUISE = enum.auto()  # at the known rate, in a cycle a little faster and slower


class Sample:
    """What one acknowledgement tells about the rate.

    Attributes:
        rate: bytes a second, between the sending of its highest packet and now; 0 if unknown.
        limited: there was not enough to send, so the link may carry more.
        delivered: bytes that had been delivered when that packet was sent.
    """

    __slots__ = ("delivered", "limited", "rate")

    def __init__(self, rate: float, *, limited: bool, delivered: int) -> None:
        self.rate = rate
        self.limited = limited
        self.delivered = delivered


class Bandwidth:
    """The model of one direction of a link.

    Attributes:
        phase: how well it is known.
        rate: the best delivery rate lately, bytes a second; 0 before the first sample.
    """

    __slots__ = (
        "_best",
        "_beyond",
        "_beyond_at",
        "_beyond_bytes",
        "_cycle",
        "_cycle_at",
        "_full_rate",
        "_full_rounds",
        "_packet",
        "_round",
        "_round_ends",
        "_trip",
        "phase",
        "rate",
    )

    def __init__(self, trip: RoundTrip, packet_bytes: int) -> None:
        """Begin; `packet_bytes` is what a full packet takes."""
        self._trip = trip
        self._packet = packet_bytes
        self._best: deque[tuple[int, float]] = deque()  # (round, rate), rates falling
        self._beyond: deque[tuple[int, int]] = deque()  # (round, bytes beyond the rate), falling
        self._beyond_at = 0.0  # since when they are counted
        self._beyond_bytes = 0  # acknowledged since then
        self._round = 0
        self._round_ends = 0  # once this many bytes are delivered
        self._full_rate = 0.0
        self._full_rounds = 0
        self._cycle = 0
        self._cycle_at = 0.0
        self.phase = Phase.STARTUP
        self.rate = 0.0

    # ---- what it says ----

    @property
    def pace(self) -> float:
        """Bytes a second at which to send now."""
        if self.phase is Phase.STARTUP:  # what few messages need measures no limit
            return _FAST * max(self.rate, FIRST_BYTES / self._trip.smoothed_s)
        return (1 / _FAST if self.phase is Phase.DRAIN else _CYCLE[self._cycle]) * self.rate

    @property
    def window(self) -> int:
        """Bytes that may be under way."""
        startup = self.phase is Phase.STARTUP
        least = FIRST_BYTES if startup else LEAST_PACKETS * self._packet
        gain = _FAST if startup else _WINDOW
        late = self._beyond[0][1] if self._beyond else 0
        return max(int(gain * self._path_bytes) + 3 * self._packet + late, least)

    @property
    def _path_bytes(self) -> float:
        """What fits onto the link without any queue."""
        return self.rate * self._trip.least_s

    # ---- what it hears ----

    def acknowledged(
        self, sample: Sample, news: int, delivered: int, under_way: int, now: float
    ) -> None:
        """Take a sample.

        Args:
            sample: of the acknowledgement that has just come.
            news: bytes that it has acknowledged.
            delivered: bytes that have been delivered in all.
            under_way: bytes that are not.
            now: seconds.
        """
        self._note_late(news, now)
        new_round = sample.delivered >= self._round_ends
        if new_round:
            self._round += 1
            self._round_ends = delivered
        self._note_rate(sample)
        if self.phase is Phase.STARTUP:
            if new_round and not sample.limited:
                self._look_for_limit()
        elif self.phase is Phase.DRAIN:
            if under_way <= self._path_bytes:
                self.phase = Phase.CRUISE
                self._cycle, self._cycle_at = 2, now
        else:
            self._turn(under_way, now)

    def _note_rate(self, sample: Sample) -> None:
        best = self._best
        if sample.rate and (not sample.limited or sample.rate >= self.rate):
            while best and best[-1][1] <= sample.rate:
                best.pop()
            best.append((self._round, sample.rate))
        while len(best) > 1 and best[0][0] <= self._round - _ROUNDS:
            best.popleft()
        if best:
            self.rate = best[0][1]

    def _note_late(self, news: int, now: float) -> None:
        """Count what is acknowledged beyond the rate, since it was behind the rate last."""
        expected = self.rate * (now - self._beyond_at)
        if self._beyond_bytes <= expected:
            self._beyond_at, self._beyond_bytes, expected = now, 0, 0.0
        self._beyond_bytes += news
        late = min(int(self._beyond_bytes - expected), MOST_LATE_BYTES)
        beyond = self._beyond
        while beyond and beyond[-1][1] <= late:
            beyond.pop()
        beyond.append((self._round, late))
        while beyond[0][0] <= self._round - _ROUNDS:
            beyond.popleft()

    def _look_for_limit(self) -> None:
        """Startup is over when three rounds in a row were not faster than those before."""
        if self.rate >= self._full_rate * _GROWTH:
            self._full_rate = self.rate
            self._full_rounds = 0
            return
        self._full_rounds += 1
        if self._full_rounds >= _FULL_ROUNDS:
            self.phase = Phase.DRAIN

    def _turn(self, under_way: int, now: float) -> None:
        """Each part of the cycle lasts a round trip; the slow one until the queue is gone."""
        drained = _CYCLE[self._cycle] < 1.0 and under_way <= self._path_bytes
        if now - self._cycle_at > self._trip.least_s or drained:
            self._cycle = (self._cycle + 1) % len(_CYCLE)
            self._cycle_at = now
