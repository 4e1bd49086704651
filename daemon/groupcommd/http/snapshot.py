"""Snapshots: the state of a daemon at one time, from which an answer is made."""

import attrs

from groupcomm.engine import Status
from groupcommd.http.history import History
from groupcommd.http.watched_files import WatchedFiles
from groupcommd.operators.status import DaemonParts


@attrs.frozen(kw_only=True)
class HttpCounts:
    """The counts of HTTP, as its process has sent them last.

    Attributes:
        answered: the number of answered requests, by status.
        refused: the number of refused requests, by reason.
        connections, streams: the number of open ones.
        cpu_s: the processor time of the process, in seconds.
        resident_bytes: its memory.
        starts: the number of its starts.
        work_s: the time of HTTP in the process of the daemon, in seconds.
    """

    answered: dict[str, int] = attrs.field(factory=dict)
    refused: dict[str, int] = attrs.field(factory=dict)
    connections: int = 0
    streams: int = 0
    cpu_s: float = 0.0
    resident_bytes: int = 0
    starts: int = 0
    work_s: float = 0.0


@attrs.frozen
class Snapshot:
    """A daemon at one time.

    Attributes:
        parts: the parts of the daemon.
        status: its core's status.
        http: counts of HTTP.
        history: the latest views.
        files: the files whose age is reported.
    """

    parts: DaemonParts
    status: Status
    http: HttpCounts
    history: History
    files: WatchedFiles
