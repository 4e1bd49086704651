"""The wait before a gap: an archive that is away for a moment may have the events. Pure.

Archives say in each offer for how long every archive that is not among them has been away, so
nobody waits for one that has been away for longer, nor twice.
"""

from typing import Final

GAP_WAIT_S: Final = 30.0
"""The time for which an archive must have been away before a gap is given that it could fill."""


class GapWait:
    """The wait of one subscriber; see `GAP_WAIT_S`.

    Attributes:
        is_on: whether a gap is next, and waits.
    """

    def __init__(self, wait_s: float, now: float) -> None:
        """Begin to look for events now.

        Args:
            wait_s: the time in seconds, at least 0.
            now: the time in seconds.
        """
        self._wait_s = wait_s
        self.begin(now)

    def begin(self, now: float) -> None:
        """Note that what comes next is looked for from now on, or again."""
        self._began_at = self._away_since = now
        self.is_on = False

    def ask(self, *, now: float, is_on_line: bool) -> None:
        """Note that the archives are asked; what they have said before counts no more.

        Args:
            now: the time in seconds.
            is_on_line: whether the view is one of the line; if not, archives of the other part may
                have the events, and the wait begins anew.
        """
        if not is_on_line:
            self._began_at = now
        self._away_since = self._began_at

    def note_away(self, away_ms: int | None, now: float) -> None:
        """Note that every archive that is not here has been away for so long; None: unknown."""
        if away_ms is not None:
            self._away_since = min(self._away_since, now - away_ms / 1000)

    def is_over(self, now: float) -> bool:
        """Return whether an archive that may have the events has been away for long enough."""
        return now >= self._away_since + self._wait_s
