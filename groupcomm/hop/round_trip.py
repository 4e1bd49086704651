"""How long a packet and its acknowledgement take over one link.

Source: RFC 9002, section 5; the least of the last ten seconds is for the controller (bandwidth.py).
"""

from collections import deque
from typing import Final

GRANULARITY_S: Final = 0.001
"""No timer of a link is shorter: daemons do not wake up more often for it."""

MAX_ACK_DELAY_S: Final = 0.005
"""A lone packet is acknowledged after so long at the latest."""

LEAST_WINDOW_S: Final = 10.0

SHORTEST_S: Final = 1e-6
"""No way is shorter; who is broken may acknowledge what it has not got yet."""


class RoundTrip:
    """Estimates of one link's round trip, in seconds.

    Attributes:
        smoothed_s: moving average of the samples.
        variation_s: moving average of how far they lie from it.
        latest_s: the last sample.
        least_s: the least one of the last ten seconds.
    """

    __slots__ = ("_least", "_sampled", "latest_s", "least_s", "smoothed_s", "variation_s")

    def __init__(self, initial_s: float) -> None:
        """Begin with a guess, which the first sample replaces."""
        self.smoothed_s = self.latest_s = self.least_s = max(initial_s, GRANULARITY_S)
        self.variation_s = self.smoothed_s / 2
        self._sampled = False
        self._least: deque[tuple[float, float]] = deque()  # (when, sample), samples rising

    def sample(self, sample_s: float, ack_delay_s: float, now: float) -> None:
        """Take the time between sending a packet and its acknowledgement.

        Args:
            sample_s: of the highest packet that is acknowledged for the first time.
            ack_delay_s: for how long its receiver has had it.
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
        """A packet sent so long before one that has arrived is lost (section 6.1.2)."""
        return max(max(self.smoothed_s, self.latest_s) * 9 / 8, GRANULARITY_S)

    @property
    def probe_timeout_s(self) -> float:
        """Without any acknowledgement for so long, one asks again (section 6.2.1)."""
        return self.smoothed_s + max(4 * self.variation_s, GRANULARITY_S) + MAX_ACK_DELAY_S
