"""The history of views: the last ones with their causes, and how long changes took."""

import time
from collections import deque
from collections.abc import Iterable
from typing import Final

import attrs

from groupcomm.durations import Durations
from groupcomm.engine import News, ViewInstalled

REMEMBERED: Final = 50
"""The views that are remembered."""


@attrs.frozen
class PastView:
    """One view.

    Attributes:
        at: when it was installed, seconds since 1970.
        news: what it was.
    """

    at: float
    news: ViewInstalled


class History:
    """The views of one start of a daemon.

    Attributes:
        views: the last ones, the latest first.
        changes: how long all changes took, the first view of the start included.
    """

    def __init__(self) -> None:
        self.views: deque[PastView] = deque(maxlen=REMEMBERED)
        self.changes = Durations()

    def note(self, news: Iterable[News]) -> None:
        """Note the views among news."""
        for each in news:
            if isinstance(each, ViewInstalled):
                self.views.appendleft(PastView(time.time(), each))
                self.changes.add(each.took_s)
