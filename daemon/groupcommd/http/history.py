"""The history of views: the latest ones with their causes, and the durations of changes."""

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
        at: the time of its installation, seconds since 1970.
        news: the view and its cause.
    """

    at: float
    news: ViewInstalled


class History:
    """The views of one start of a daemon.

    Attributes:
        views: the latest views, the last one first.
        changes: the durations of all changes, the first view of the start included.
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
