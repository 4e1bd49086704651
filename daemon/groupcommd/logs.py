"""Log lines for operators: text, or one JSON object each."""

import json
import logging
import sys
import time

from groupcomm.visible import visible

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class JsonFormatter(logging.Formatter):
    """Time, level, text, and what the line says as fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields = {name: value for name, value in vars(record).items() if name not in _PLAIN}
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "text": record.getMessage(),
            **fields,
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """Time, level and text, in one line: a program's name must not look like another line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line; the trace of an error follows it."""
        return visible(super().formatMessage(record))


def set_up_logs(*, as_json: bool, verbose: bool) -> None:
    """Send the daemon's log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    log = logging.getLogger("groupcommd")
    log.handlers[:] = [handler]
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    log.propagate = False
