"""Traces on disk: each process writes its events before any of them has an effect elsewhere."""

import logging
import os
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from groupcomm.config.view import DaemonId, Incarnation, Start
from groupcomm.errors import ConfigError
from groupcomm.host.forks import keep_own
from groupcomm.trace.events import Ask, Boot, TraceEvent
from groupcomm.trace.recorders import SessionTrace, TraceProbe

_log = logging.getLogger("groupcomm.trace")
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC
_encode_lines: Final = msgspec.json.Encoder().encode_lines


def now_us() -> int:
    """Return the microseconds of the clock that all processes of this host share."""
    return time.monotonic_ns() // 1000


class TraceFile:
    """A writer that appends events to a file of JSON lines.

    `record` keeps an event until `flush`, which writes all of them with one call: from then on a
    kill of this process loses none of them. When the disk is full, the trace ends with a line in
    the log, and the process continues. Only its user can read the file, as it has the senders of
    messages and their receivers.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        """Make a new file.

        Raises:
            ConfigError: it cannot be made.
        """
        self.path = path
        self._events: list[TraceEvent] = []
        self.record = self._events.append
        try:
            self._file = os.open(path, _NEW_FILE, 0o600)
        except FileExistsError:
            raise ConfigError(
                f"the trace cannot be written, as {path} exists: name another folder for this run"
            ) from None
        except OSError as error:
            raise ConfigError(f"the trace {path} cannot be written: {error.strerror}") from None
        keep_own(self)

    def forsake(self) -> None:
        """See `groupcomm.host.forks`: the process that has forked writes these events."""
        self._events.clear()
        self.close()

    @property
    def now(self) -> int:
        """Return the present time; see `now_us`."""
        return now_us()

    def flush(self) -> None:
        """Write the recorded events."""
        if not self._events:
            return
        lines = memoryview(_encode_lines(self._events))
        self._events.clear()
        if self._file < 0:
            return
        try:
            while lines:
                lines = lines[os.write(self._file, lines) :]
        except OSError as error:
            _log.error("the trace %s ends here, and is incomplete: %s", self.path, error.strerror)
            self.close()

    def close(self) -> None:
        """Write the recorded events, and close the file."""
        if self._file >= 0:
            self.flush()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def identity_of(daemon: DaemonId) -> str:
    """Return the name of a start in traces; the random id tells apart starts that an empty, old or
    copied disk has counted alike."""
    return f"{daemon.name}/{_start_of(daemon.incarnation)}"


def _start_of(incarnation: Incarnation) -> str:
    return f"{incarnation.restarts}.{incarnation.random_id >> 32:08x}"


class Identities(dict[DaemonId, str]):
    """The names of all starts, each made on demand."""

    def __missing__(self, daemon: DaemonId) -> str:
        name = self[daemon] = identity_of(daemon)
        return name


def trace_daemon(folder: Path, start: Start) -> tuple[TraceFile, TraceProbe]:
    """Open the trace of one start of a daemon."""
    identities = Identities()
    incarnation = start.incarnation
    name = f"daemon-{quote(start.name, safe='')}-{_start_of(incarnation)}.jsonl"
    file = TraceFile(folder / name)
    identity = identities[start.daemon]
    file.record(Boot(file.now, identity, f"{incarnation.restarts}.{incarnation.random_id:x}"))
    file.flush()
    return file, TraceProbe(file, file.record, identity, identities)


def trace_session(folder: Path, identity: str, greeted: int) -> tuple[TraceFile, SessionTrace]:
    """Open the trace of one session; `greeted` is the time of its HELLO."""
    file = TraceFile(folder / f"session-{quote(identity, safe='')}.jsonl")
    file.record(Ask(greeted, identity, "connect", "", 0))
    return file, SessionTrace(file, file.record, identity)
