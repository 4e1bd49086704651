"""Stalls: the times in which this daemon itself stood still, by which it judges nobody.

Pure. ``now`` is in seconds. A step that comes late shows that the process, or its host, stood
still, or that the step before took long. Nobody was silent meanwhile: what others have sent waits
to be read. So the daemon judges no other one before it has run for GRACE_PART of a token timeout.
A daemon that is late all the time would never notice a crash, so a run of late steps puts the
judgement off for one token timeout at most.

After a whole token timeout the others have certainly lost this daemon: that is a *pause*.
"""

from math import inf
from typing import Final

LATE_PART: Final = 1 / 12
"""A step that is later than this part of a token timeout is late: 50 ms of 0.6 s."""

GRACE_PART: Final = 1 / 6
"""The part of a token timeout in which all that had arrived is read after a late step."""


class Stalls:
    """The late steps of one daemon.

    Attributes:
        late_s: a step that comes later than this after its time is late.
        pause_s: a step that comes later than this is so late that the others have lost this daemon.
    """

    __slots__ = ("_late_at", "_run_began", "late_s", "pause_s")

    def __init__(self, token_timeout_s: float) -> None:
        self.pause_s, self.late_s = token_timeout_s, LATE_PART * token_timeout_s
        self._run_began = self._late_at = -inf

    def note_late(self, now: float) -> float:
        """Note a late step; return the time before which this daemon judges no other one."""
        if now > self._late_at + self.pause_s:
            self._run_began = now
        self._late_at = now
        return min(now + GRACE_PART * self.pause_s, self._run_began + self.pause_s)
