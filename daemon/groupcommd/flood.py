"""Junk in numbers: when it comes, datagrams are read a little later, and more of them at once.

To be woken and to take a turn costs a daemon some thirty times what it costs to drop a datagram. So
while junk comes faster than turns are taken, each piece of it would cost a turn.
"""

from typing import Final

from groupcommd.udp import MAX_READS

MANY_PER_S: Final = 2000
"""Rejected datagrams; no healthy cluster has so many."""

INTERVAL_S: Final = 0.01
"""Over so long they are counted."""

PAUSE_S: Final = 0.001
"""Junk waits so long for more of its kind, and so does what comes behind it."""

CALM_S: Final = 10.0
"""It counts as over when there was none for so long."""


class Flood:
    """Watches what one daemon rejects.

    Attributes:
        is_on: there was too much in the interval before this one.
        over_at: from when on there is none, if none comes; seconds.
    """

    def __init__(self) -> None:
        self._received = self._bad = 0  # since the last call of `pause_s`
        self._began = 0.0  # of the present interval
        self._bad_lately = 0  # in it
        self.is_on = False
        self.over_at = 0.0

    def note(self, received: int, rejected: int) -> None:
        """Count the datagrams of a turn, and those of them that were rejected."""
        self._received += received
        self._bad += rejected

    def pause_s(self, now: float) -> float:
        """How long not to read after a turn.

        Args:
            now: seconds.

        Returns:
            0 unless this turn has brought junk alone, all that there was, and there is much of it.
        """
        received, bad = self._received, self._bad
        self._received = self._bad = 0
        self._bad_lately += bad
        was_junk = bad == received > 0
        is_all = received < MAX_READS
        if now - self._began >= INTERVAL_S:
            self.is_on = self._bad_lately > MANY_PER_S * (now - self._began)
            self._began, self._bad_lately = now, 0
            if self.is_on:
                self.go_on(now)
        return PAUSE_S if self.is_on and was_junk and is_all else 0.0

    def go_on(self, now: float) -> None:
        """There is much of it, though the system drops it before it is read."""
        self.over_at = now + CALM_S
