"""Congestion control of a link: a model of its round trip and of its bandwidth.

Pure. ``now`` is in seconds. A network that loses packets at random says nothing by that about its
load, so neither losses nor delays alone slow down a sender here. The model measures how fast
packets are delivered, paces the sender by the best rate of the last rounds, and now and then sends
a little faster to see whether the link carries more. A queue built up by this is drained at once.
Busy daemons acknowledge late, and much at a time; therefore that much more may be in flight, or
each stall would lower the rate.

Sources: RFC 9002, section 5, for round trips; Cardwell et al., "BBR: Congestion-Based Congestion
Control", ACM Queue 14(5), 2016, for states and gains; draft-cardwell-iccrg-bbr-congestion-control,
section 4.5.5, for late acknowledgements; draft-cheng-iccrg-delivery-rate-estimation for the rate
samples. BBR's rare phase that sends next to nothing is left out, because the slow phase of each
cycle shows the least delay of a link that few flows share.
"""

import enum
from collections import deque
from typing import Final

GRANULARITY_S: Final = 0.001
"""No timer of a link is shorter, so that daemons do not wake up more often for it."""

MAX_ACK_DELAY_S: Final = 0.005
"""A lone packet is acknowledged within this time."""

LEAST_WINDOW_S: Final = 10.0

SHORTEST_S: Final = 1e-6
"""No path is shorter; a broken peer may acknowledge a packet that it has not received yet."""

FIRST_BYTES: Final = 64 * 1024
"""This much may be in flight before the limit of the link is known."""

LEAST_PACKETS: Final = 8
"""This many packets may always be in flight: acknowledgements need something to acknowledge."""

MOST_LATE_BYTES: Final = 1_000_000
"""The most that may be in flight on top, for acknowledgements that come late."""

_ROUNDS: Final = 10
"""The best rate of this many rounds counts."""

_FAST: Final = 2.885  # 2 / ln 2: doubles the rate each round
_GROWTH: Final = 1.25
_FULL_ROUNDS: Final = 3
_CYCLE: Final = (1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
_WINDOW: Final = 2.0


class RoundTrip:
    """Estimates of the round trip of one link, in seconds.

    Attributes:
        smoothed_s: moving average of the samples.
        variation_s: moving average of their distance from it.
        latest_s: the last sample.
        least_s: the least sample of the last ten seconds, for the bandwidth model.
    """

    __slots__ = ("_least", "_sampled", "latest_s", "least_s", "smoothed_s", "variation_s")

    def __init__(self, initial_s: float) -> None:
        """Start with a guess, which the first sample replaces."""
        self.smoothed_s = self.latest_s = self.least_s = max(initial_s, GRANULARITY_S)
        self.variation_s = self.smoothed_s / 2
        self._sampled = False
        self._least: deque[tuple[float, float]] = deque()  # (when, sample), samples rising

    def sample(self, sample_s: float, ack_delay_s: float, now: float) -> None:
        """Add the time from sending a packet to its acknowledgement.

        Args:
            sample_s: the round trip of the highest packet that is acknowledged for the first time.
            ack_delay_s: the time for which its receiver waited before it acknowledged.
            now: seconds.
        """
        sample_s = max(sample_s, SHORTEST_S)
        self._note_least(sample_s, now)
        adjusted = sample_s - min(ack_delay_s, MAX_ACK_DELAY_S)
        if adjusted < self.least_s:
            adjusted = sample_s
        self.latest_s = adjusted
        if not self._sampled:
            self._sampled = True
            self.smoothed_s = adjusted
            self.variation_s = adjusted / 2
            return
        self.variation_s += (abs(self.smoothed_s - adjusted) - self.variation_s) / 4
        self.smoothed_s += (adjusted - self.smoothed_s) / 8

    def _note_least(self, sample_s: float, now: float) -> None:
        least = self._least
        while least and least[-1][1] >= sample_s:
            least.pop()
        least.append((now, sample_s))
        while least[0][0] < now - LEAST_WINDOW_S:
            least.popleft()
        self.least_s = least[0][1]

    @property
    def loss_delay_s(self) -> float:
        """Return the age at which an overtaken packet is lost (RFC 9002, section 6.1.2)."""
        return max(max(self.smoothed_s, self.latest_s) * 9 / 8, GRANULARITY_S)

    @property
    def probe_timeout_s(self) -> float:
        """Return the wait for an acknowledgement before a probe (RFC 9002, section 6.2.1)."""
        return self.smoothed_s + max(4 * self.variation_s, GRANULARITY_S) + MAX_ACK_DELAY_S


class Phase(enum.Enum):
    """The phases in which the bandwidth of a link becomes known."""

    STARTUP = enum.auto()  # the rate is not known: each round sends twice as fast
    DRAIN = enum.auto()  # the rate is known; the queue that startup built up drains first
    CRUISE = enum.auto()  # it sends at the known rate, a little faster and slower in a cycle


class RateSample:
    """The information in one acknowledgement about the rate.

    Attributes:
        rate: bytes a second, from the sending of its highest packet until now; 0 if unknown.
        limited: the sender had too little to send, so the link may carry more.
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
        phase: the phase of the search for the bandwidth.
        rate: the best recent delivery rate, bytes a second; 0 before the first sample.
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
        """Start; `packet_bytes` is the size of a full packet."""
        self._trip = trip
        self._packet = packet_bytes
        self._best: deque[tuple[int, float]] = deque()  # (round, rate), rates falling
        self._beyond: deque[tuple[int, int]] = deque()  # (round, bytes beyond the rate), falling
        self._beyond_at = 0.0  # the time from which these bytes are counted
        self._beyond_bytes = 0  # the bytes that were acknowledged since then
        self._round = 0
        self._round_ends = 0  # the round ends once this many bytes are delivered
        self._full_rate = 0.0
        self._full_rounds = 0
        self._cycle = 0
        self._cycle_at = 0.0
        self.phase = Phase.STARTUP
        self.rate = 0.0

    # ---- the results of the model ----

    @property
    def pace(self) -> float:
        """Return the rate at which to send now, in bytes a second."""
        if self.phase is Phase.STARTUP:  # a few small messages do not measure the limit
            return _FAST * max(self.rate, FIRST_BYTES / self._trip.smoothed_s)
        return (1 / _FAST if self.phase is Phase.DRAIN else _CYCLE[self._cycle]) * self.rate

    @property
    def window(self) -> int:
        """Return the number of bytes that may be in flight."""
        startup = self.phase is Phase.STARTUP
        least = FIRST_BYTES if startup else LEAST_PACKETS * self._packet
        gain = _FAST if startup else _WINDOW
        late = self._beyond[0][1] if self._beyond else 0
        return max(int(gain * self._path_bytes) + 3 * self._packet + late, least)

    @property
    def _path_bytes(self) -> float:
        """Return the number of bytes on the link without any queue."""
        return self.rate * self._trip.least_s

    # ---- the samples ----

    def acknowledged(
        self, sample: RateSample, news: int, delivered: int, in_flight: int, now: float
    ) -> None:
        """Add a sample.

        Args:
            sample: the sample of the acknowledgement that has just arrived.
            news: the bytes that it acknowledged for the first time.
            delivered: bytes delivered in all.
            in_flight: bytes sent and not yet acknowledged.
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
            if in_flight <= self._path_bytes:
                self.phase = Phase.CRUISE
                self._cycle, self._cycle_at = 2, now
        else:
            self._turn(in_flight, now)

    def _note_rate(self, sample: RateSample) -> None:
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
        """Count the bytes acknowledged beyond the rate since they last fell behind it."""
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
        """End startup once three rounds in a row were not faster than those before."""
        if self.rate >= self._full_rate * _GROWTH:
            self._full_rate = self.rate
            self._full_rounds = 0
            return
        self._full_rounds += 1
        if self._full_rounds >= _FULL_ROUNDS:
            self.phase = Phase.DRAIN

    def _turn(self, in_flight: int, now: float) -> None:
        """Advance the cycle: a part lasts a round trip, the slow one until the queue is gone."""
        drained = _CYCLE[self._cycle] < 1.0 and in_flight <= self._path_bytes
        if now - self._cycle_at > self._trip.least_s or drained:
            self._cycle = (self._cycle + 1) % len(_CYCLE)
            self._cycle_at = now
