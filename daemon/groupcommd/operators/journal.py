"""The journal of systemd: lines with fields, as `journalctl -o verbose` and `-o json` show them.

A service whose standard error is the journal sends its lines to the journal's socket instead, each
field with its name: the protocol is that of systemd's "Native Journal Protocol".
"""

import json
import logging
import os
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

SOCKET: Final = Path("/run/systemd/journal/socket")
IDENTIFIER: Final = "groupcommd"

_LENGTH: Final = struct.Struct("<Q")
_PRIORITIES: Final = (
    (logging.CRITICAL, 2),
    (logging.ERROR, 3),
    (logging.WARNING, 4),
    (logging.INFO, 6),
)
"""The priority of syslog for lines from each level on; below all of them 7, debugging."""


def is_standard_error() -> bool:
    """Return whether standard error is the journal, as $JOURNAL_STREAM says (systemd.exec(5)).

    A program whose standard error was redirected has the variable, and another file.
    """
    told = os.environ.get("JOURNAL_STREAM", "")
    try:
        found = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return told == f"{found.st_dev}:{found.st_ino}"


class JournalHandler(logging.Handler):
    """A handler that sends lines to the journal; a refused line goes to another handler.

    Args:
        fields: names of the attributes of a line that are no fields of its own.
        otherwise: the handler for lines that the journal does not accept, such as long ones, or
            those that come while it is full; it must not wait either.
        path: the path of the journal's socket; None for this host's socket.

    Attributes:
        otherwise: that handler.
    """

    def __init__(
        self, fields: frozenset[str], otherwise: logging.Handler, path: Path | None = None
    ) -> None:
        super().__init__()
        self._plain = fields
        self.otherwise = otherwise
        self._path = str(path or SOCKET)
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_UNIX, kind)

    def emit(self, record: logging.LogRecord) -> None:
        """Send one line; never wait for the journal."""
        fields = {
            "MESSAGE": record.getMessage(),
            "PRIORITY": str(priority_of(record.levelno)),
            "SYSLOG_IDENTIFIER": IDENTIFIER,
        }
        for name, value in vars(record).items():
            if name not in self._plain:
                fields[f"GROUPCOMM_{name.upper()}"] = _text_of(value)
        if record.exc_info:
            fields["GROUPCOMM_TRACE"] = logging.Formatter().formatException(record.exc_info)
        try:
            self._socket.sendto(encode(fields), self._path)
        except OSError:
            self.otherwise.emit(record)

    def flush(self) -> None:
        """Flush the other handler."""
        self.otherwise.flush()

    def close(self) -> None:
        """Close the socket, and the other handler."""
        self._socket.close()
        self.otherwise.close()
        super().close()


def priority_of(level: int) -> int:
    """Return the priority of syslog for a level of `logging`."""
    return next((priority for least, priority in _PRIORITIES if level >= least), 7)


def encode(fields: Mapping[str, str]) -> bytes:
    """Return a datagram with these fields; a value with line ends is preceded by its length."""
    parts = []
    for name, value in fields.items():
        raw = value.encode(errors="backslashreplace")
        if b"\n" in raw:
            parts.append(name.encode() + b"\n" + _LENGTH.pack(len(raw)) + raw + b"\n")
        else:
            parts.append(name.encode() + b"=" + raw + b"\n")
    return b"".join(parts)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
