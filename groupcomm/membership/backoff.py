"""Trouble: how often in a row an attempt came to nothing, or to a view that did not last.

Timeouts are stretched by it, so that daemons whose network is slower than their settings say still
find each other, and attempts that chase each other come to rest.
"""

from math import inf

from groupcomm.config.core import Timing

STEADY_S = 2.0
"""After a view that stood so long the next one is begun as if nothing had ever failed; after one
that stood for a quarter of it, as if half as much had: it has ended for reasons of its own."""

MOST_FAILURES = 5


def silence_s(timing: Timing, stretch: float) -> float:
    """Seconds without any news after which an attempt is given up."""
    return 2 * timing.answer_wait_s * stretch


def longest_silence_s(timing: Timing) -> float:
    """The same after many failures."""
    return silence_s(timing, 1 + MOST_FAILURES / 2)


class Backoff:
    """The failures of one daemon.

    Attributes:
        failures: 0 in good times.
    """

    __slots__ = ("_installed_at", "failures")

    def __init__(self) -> None:
        self.failures = 0
        self._installed_at = -inf

    def on_installed(self, now: float) -> None:
        """A view was installed."""
        self._installed_at = now

    def on_gather(self, now: float, *, operational: bool) -> None:
        """A daemon gathers again: it had a view until now, or else an attempt that failed."""
        lasted_s = now - self._installed_at if operational else 0.0
        if lasted_s >= STEADY_S:
            self.failures = 0
        elif lasted_s >= STEADY_S / 4:
            self.failures //= 2
        else:
            self.failures = min(self.failures + 1, MOST_FAILURES)

    @property
    def factor(self) -> float:
        """By what to multiply timeouts."""
        return 1 + self.failures / 2
