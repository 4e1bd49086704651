"""Liveness: whether the other side of a session is still there; the same at clients and at daemons.

Pure. ``now`` is in seconds. A host that loses its power or its cable ends no stream, and a process
that is stopped keeps its own open. So each side tells the other how long it waits, and ends a
session in which nothing has come for that time. Any bytes count. A side from which nothing else
leaves sends a heartbeat, three times in the time for which the other waits.

A side that itself stood still has not read what has come meanwhile, and a side that does not read
hears nothing: in both cases the other side's silence begins anew.

docs/session.md says what follows for programs that are slow, blocked or stopped.
"""

from math import inf
from typing import Final

PARTS: Final = 3
"""A side sends something this often in the time for which the other waits."""

LATE_PART: Final = 4
"""A look that is late by this part of the timeout, a quarter, shows that this side stood still. A
shorter pause does no harm: before it, at least one heartbeat was missing."""


class PeerWatch:
    """The watch over one session, at one of its sides.

    Attributes:
        timeout_s: the other side's silence after which this side ends the session; 0: never.
        heard_at: when bytes of the other side were last read; set by the owner.
        sent_at: when bytes last left for the other side; set by the owner.
        wait_s: for how long the other side waits, as it has said; None before.
        due: the time of the next `is_silent`; -inf before the first one of a client.
    """

    __slots__ = ("_owes_s", "due", "heard_at", "sent_at", "timeout_s", "wait_s")

    def __init__(self, timeout_s: float, now: float) -> None:
        self.timeout_s = timeout_s
        self.heard_at = self.sent_at = self.due = now
        self.wait_s: float | None = None
        self._owes_s = inf

    def note_wait(self, wait_s: float) -> None:
        """Note for how long the other side waits, as its heartbeat says; 0: for ever.

        If that is shorter than before, `due` may be earlier.
        """
        self.wait_s = wait_s
        self._owes_s = wait_s / PARTS if wait_s else inf
        if self.due > -inf:
            self._set_due()

    def is_silent(self, now: float, *, reads: bool) -> bool:
        """Return whether the other side has been silent for too long; set `due` if not.

        Args:
            now: seconds.
            reads: whether all that has arrived was read, as far as this side knows.
        """
        if not reads or now > self.due + self.timeout_s / LATE_PART:
            self.heard_at = now
        if self.timeout_s and now >= self.heard_at + self.timeout_s:
            return True
        self._set_due()
        return False

    def owes(self, now: float) -> bool:
        """Return whether a heartbeat is due, as nothing else has left for long enough."""
        return now >= self.sent_at + self._owes_s

    def note_sent(self, now: float) -> None:
        """Note that bytes leave now, or wait to leave already."""
        self.sent_at = now
        self._set_due()

    def _set_due(self) -> None:
        silent_at = self.heard_at + self.timeout_s if self.timeout_s else inf
        self.due = min(silent_at, self.sent_at + self._owes_s)
