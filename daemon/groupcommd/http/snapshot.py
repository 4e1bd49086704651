"""Snapshots: the state of a daemon at one time, taken once for all requests of a while."""

from collections.abc import Callable
from typing import Final

import attrs
import trio

from groupcomm.engine import Status
from groupcommd.http.history import History
from groupcommd.http.watched_files import WatchedFiles
from groupcommd.status import DaemonParts

FRESH_S: Final = 0.5
"""Answers are made anew after this time, and whenever a view was installed."""


@attrs.frozen
class HttpCounts:
    """The counts of HTTP itself.

    Attributes:
        answered: the number of answered requests, by status.
        refused: the number of refused requests, by reason.
        connections, streams: the number of open ones.
        work_s: the time of HTTP so far, in seconds.
    """

    answered: dict[int, int]
    refused: dict[str, int]
    connections: int
    streams: int
    work_s: float


@attrs.frozen
class Snapshot:
    """A daemon at one time.

    Attributes:
        parts: the parts of the daemon.
        status: its core's status.
        http: counts of HTTP.
        history: the latest views.
        files: the files whose age is reported.
        answers: the answers that were made from it, by path.
    """

    parts: DaemonParts
    status: Status
    http: HttpCounts
    history: History
    files: WatchedFiles
    answers: dict[str, bytes] = attrs.field(factory=dict, eq=False)


class Snapshots:
    """The latest snapshot, taken anew when it is too old.

    Args:
        parts: returns the parts of the daemon.
        counts: returns the counts of HTTP.
        history: the latest views.
        files: the files whose age is reported.
    """

    def __init__(
        self,
        parts: Callable[[], DaemonParts],
        counts: Callable[[], HttpCounts],
        history: History,
        files: WatchedFiles,
    ) -> None:
        self._parts = parts
        self._counts = counts
        self._history = history
        self._files = files
        self._latest: Snapshot | None = None

    def forget(self) -> None:
        """Have the next snapshot taken anew, as the state has changed."""
        self._latest = None

    def get(self) -> Snapshot:
        """Return a snapshot that is fresh."""
        now = trio.current_time()
        latest = self._latest
        if latest is None or now >= latest.status.at + FRESH_S:
            parts = self._parts()
            latest = self._latest = Snapshot(
                parts, parts.core.status(now), self._counts(), self._history, self._files
            )
        return latest
