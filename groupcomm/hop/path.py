"""How large packets pass a link: found by trying, and tried again when large ones stay away.

Pure. ``now`` is in seconds. What passes every path is taken for granted, and is what packets are
cut to (pieces.py) until a larger probe has arrived: zeros of the full size, then of sizes between.
A loss counts only if something has arrived since: else the link is down, and tells nothing. If
large packets are lost one after the other, none of them arriving, the way has become narrower.

Source: RFC 8899 (DPLPMTUD), sections 4 and 5. Acknowledgements of the link confirm probes here.
"""

from math import inf
from typing import Final

from groupcomm.config.view import SAFE_PACKET_BYTES

PROBES: Final = 6
"""Losses of one size before it counts as too large; MAX_PROBES is 3 there, but links are lossy."""

BLACK_HOLE: Final = 6
"""Losses of large packets in a row before they count as too large."""

CLOSE_BYTES: Final = 16
"""The search ends when no more than this is to be gained."""

RAISE_S: Final = 60.0
"""A narrow way is tried anew so often (PMTU_RAISE_TIMER, ten times as long there)."""


class PathSize:
    """What one direction of a link carries.

    Attributes:
        least: bytes of a packet on the link that are taken for granted.
        most: bytes of the largest packet that there is.
        carries: the largest that is known to pass.
        due: when a probe is to be sent; inf while one is under way or none is needed.
    """

    __slots__ = (
        "_heard_at",
        "_lost",
        "_lost_at",
        "_probe",
        "_probed_at",
        "_too_large",
        "_tries",
        "carries",
        "due",
        "least",
        "most",
    )

    def __init__(self, most: int) -> None:
        self.most = most
        self.least = self.carries = min(SAFE_PACKET_BYTES, most)
        self._probe = most  # the size that is tried
        self._too_large = most + 1  # the least that is thought not to pass
        self._tries = 0
        self._probed_at = -inf
        self._heard_at = -inf
        self._lost = 0  # large packets in a row
        self._lost_at = inf  # the first of these
        self.due = -inf if self.carries < most else inf

    @property
    def is_narrow(self) -> bool:
        """Whether it was found out that the largest packets do not pass."""
        return self._too_large <= self.most

    def take(self, now: float) -> int:
        """The size of the probe to send now; 0 for none. A small packet must follow it."""
        if now < self.due:
            return 0
        if self._closed:  # after a rest everything may be better
            self._begin(self.most + 1)
        self.due = inf
        self._probed_at = now
        return self._probe

    def arrived(self, size: int, now: float) -> None:
        """A packet of so many bytes is at the other end."""
        self._heard_at = now
        if size > self.least:
            self._lost, self._lost_at = 0, inf
        if size > self.carries:
            self.carries = size
            self._too_large = max(self._too_large, size + 1)
            self._next(now)

    def lost(self, size: int, now: float) -> bool:
        """One is lost; whether a small packet is to be sent, to see if the link is alive."""
        if size <= self.least:
            return False
        if size == self._probe and self.due == inf and size > self.carries:
            self._probe_lost(now)
        elif size <= self.carries:
            self._lost += 1
            self._lost_at = min(self._lost_at, now)
            if self._lost >= BLACK_HOLE and self._heard_at >= self._lost_at:
                self.carries = self.least
                self._lost, self._lost_at = 0, inf
                self._begin(self.most + 1)
                self.due = now
        return True

    def _probe_lost(self, now: float) -> None:
        self.due = now
        if self._heard_at < self._probed_at:
            return
        self._tries += 1
        if self._tries >= PROBES:
            self._too_large = self._probe
            self._next(now)

    def _begin(self, too_large: int) -> None:
        self._too_large = too_large
        self._probe = self.most
        self._tries = 0

    @property
    def _closed(self) -> bool:
        return self._too_large - self.carries <= CLOSE_BYTES and self.carries < self.most

    def _next(self, now: float) -> None:
        """A size has passed, or is too large: try the next one, if there is one."""
        self._tries = 0
        if self.carries >= self.most:
            self.due = inf
        elif self._closed:
            self.due = now + RAISE_S
        else:
            self._probe = (
                self.most if self._too_large > self.most else (self.carries + self._too_large) // 2
            )
            self.due = now
