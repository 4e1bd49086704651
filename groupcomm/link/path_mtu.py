"""Path MTU of a link: the largest packets that pass, and the fragments of larger ones.

Pure. ``now`` is in seconds. A size that every path carries is taken for granted. Larger packets are
cut into fragments of that size until a larger probe has arrived: zeros of the full size first, then
of sizes in between. The loss of a probe counts only if something has arrived since: otherwise the
link is down, and its losses say nothing about sizes. If several large packets in a row are lost and
none arrives, the path has become narrower, and the search starts again.

Every path carries a fragment, so none is cut again. Each is repaired on its own, and the other end
joins them before anything else sees the packet.

Source: RFC 8899 (DPLPMTUD), sections 4 and 5. Here the acknowledgements of the link confirm probes.
"""

from math import inf
from typing import Final

from groupcomm.config.view import SAFE_PACKET_BYTES
from groupcomm.wire.link import LINK_FRAGMENT_BYTES, LinkFragment

PROBES: Final = 6
"""This many losses make a size too large; MAX_PROBES is 3 in the RFC, but links lose more."""

BLACK_HOLE: Final = 6
"""The large packets in a row that must be lost before their size counts as too large."""

CLOSE_BYTES: Final = 16
"""The search ends when it can gain no more than this."""

RAISE_S: Final = 60.0
"""The time between probes of a narrow path (PMTU_RAISE_TIMER, ten times as long in the RFC)."""

MAX_UNFINISHED: Final = 1024
"""The most incomplete packets. Above it the oldest is given up: an UNRELIABLE packet may
never be complete, and daemons request the missing packets of a stream."""


class PathMtu:
    """The largest packets that one direction of a link carries.

    Attributes:
        least: the bytes of a packet on the link that every path carries.
        most: the bytes of the largest packet of the protocol.
        carries: the bytes of the largest packet that is known to pass.
        due: the time of the next probe; inf while one is in flight or none is needed.
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
        self._probe = most  # the size to try next
        self._too_large = most + 1  # the least size that probably does not pass
        self._tries = 0
        self._probed_at = -inf
        self._heard_at = -inf
        self._lost = 0  # large packets lost in a row
        self._lost_at = inf  # when the first of these was lost
        self.due = -inf if self.carries < most else inf

    @property
    def is_narrow(self) -> bool:
        """Return whether probes have shown that the largest packets do not pass."""
        return self._too_large <= self.most

    def pop_probe(self, now: float) -> int:
        """Return the size of the probe to send now; 0 for none. A small packet must follow it."""
        if now < self.due:
            return 0
        if self._closed:  # since the last search the path may have improved
            self._restart(self.most + 1)
        self.due = inf
        self._probed_at = now
        return self._probe

    def arrived(self, size: int, now: float) -> None:
        """Record that a packet of `size` bytes is at the other end."""
        self._heard_at = now
        if size > self.least:
            self._lost, self._lost_at = 0, inf
        if size > self.carries:
            self.carries = size
            self._too_large = max(self._too_large, size + 1)
            self._next(now)

    def lost(self, size: int, now: float) -> bool:
        """Record a loss; return whether to send a small packet to see if the link is alive."""
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
                self._restart(self.most + 1)
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

    def _restart(self, too_large: int) -> None:
        self._too_large = too_large
        self._probe = self.most
        self._tries = 0

    @property
    def _closed(self) -> bool:
        return self._too_large - self.carries <= CLOSE_BYTES and self.carries < self.most

    def _next(self, now: float) -> None:
        """Choose the next size to try, after one has passed or was found too large."""
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


def cut(packet: bytes, whole: int, size: int) -> list[LinkFragment]:
    """Return the fragments of a packet, equally long and each at most `size` bytes on the link."""
    count = -(-len(packet) // (size - LINK_FRAGMENT_BYTES))
    length = -(-len(packet) // count)
    return [
        LinkFragment(whole, part, count, packet[part * length : (part + 1) * length])
        for part in range(count)
    ]


class Reassembly:
    """The packets of one link of which some fragments are still missing."""

    __slots__ = ("_unfinished",)

    def __init__(self) -> None:
        self._unfinished: dict[int, dict[int, LinkFragment]] = {}  # by packet, then by part

    def accept(self, fragment: LinkFragment) -> bytes | None:
        """Add a fragment; return the packet that it completes, else None."""
        parts = self._unfinished.setdefault(fragment.whole, {})
        parts[fragment.part] = fragment
        if len(parts) < fragment.parts:
            while len(self._unfinished) > MAX_UNFINISHED:
                del self._unfinished[next(iter(self._unfinished))]
            return None
        del self._unfinished[fragment.whole]
        return b"".join(parts[part].content for part in sorted(parts))
