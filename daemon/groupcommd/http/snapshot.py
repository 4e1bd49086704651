"""Snapshots: the state of a daemon at one time, from which an answer is made."""

import attrs

from groupcomm.engine import Status
from groupcomm.engine.status import ProgramsStatus
from groupcomm.metrics import metric
from groupcommd.http.history import History
from groupcommd.http.watched_files import WatchedFiles
from groupcommd.operators.status import DaemonParts


@attrs.frozen(kw_only=True)
class HttpCounts:
    """The counts of HTTP, as its process has sent them last; the daemon adds `starts`, `work_s`."""

    starts: int = metric(
        "http_starts_total",
        "Starts of the process that answers HTTP: 1, unless it was lost.",
        default=0,
    )
    cpu_s: float = metric(
        "http_cpu_seconds_total", "Processor time of the process that answers HTTP.", default=0.0
    )
    resident_bytes: int = metric(
        "http_resident_memory_bytes", "Memory of the process that answers HTTP.", default=0
    )
    answered: dict[str, int] = metric(
        "http_answers_total", "Answers of HTTP, by status.", "code", factory=dict
    )
    refused: dict[str, int] = metric(
        "http_refused_total",
        "Requests and connections of HTTP that were refused.",
        "reason",
        factory=dict,
    )
    connections: int = metric("http_connections", "Connections of HTTP.", default=0)
    streams: int = metric("http_streams", "Open streams of events.", default=0)
    work_s: float = metric(
        "http_work_seconds_total",
        "Time that HTTP has taken of the daemon's own process.",
        default=0.0,
    )


@attrs.frozen
class Snapshot:
    """A daemon at one time.

    Attributes:
        parts: the parts of the daemon.
        status: its core's status.
        programs: the facts about all programs, and those for which output waits.
        http: counts of HTTP.
        history: the latest views.
        files: the files whose age is reported.
    """

    parts: DaemonParts
    status: Status
    programs: ProgramsStatus
    http: HttpCounts
    history: History
    files: WatchedFiles
