"""Lines of the log that others cause: of each kind BURST at once, then one each INTERVAL_S.

Whoever reaches a socket causes such lines without being admitted. They must neither fill a disk nor
hide the other lines. What is left out is counted, and the next line of its kind says how many were.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import trio

BURST: Final = 10
"""Lines of a kind that are written at once after a quiet time."""

INTERVAL_S: Final = 60.0
"""After them, one line of the kind is written in this time."""

_log = logging.getLogger("groupcommd")


@attrs.define
class _Kind:
    """One kind of lines: how many may be written, since when that holds, and what was left out."""

    left: float
    at: float
    omitted: int = 0


class BoundedLog:
    """A writer of lines that others cause.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = trio.current_time) -> None:
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}

    def line(
        self,
        kind: str,
        level: int,
        text: str,
        *values: object,
        extra: Mapping[str, Any] | None = None,
        exc_info: bool = False,
    ) -> None:
        """Write a line, unless too many of its kind were written lately.

        Args:
            kind: a word of the code, never of a peer: there are as many as the code has.
            level: of `logging`.
            text: the line, with places for `values`.
            values: what goes there.
            extra: further fields.
            exc_info: whether the traceback of the present error follows.
        """
        now = self._clock()
        found = self._kinds.setdefault(kind, _Kind(BURST, now))
        found.left = min(BURST, found.left + (now - found.at) / INTERVAL_S)
        found.at = now
        if found.left < 1.0:
            found.omitted += 1
            return
        found.left -= 1.0
        if found.omitted:
            text += "; %d more lines like this were left out before it"
            values = *values, found.omitted
            found.omitted = 0
        _log.log(level, text, *values, extra=extra, exc_info=exc_info)
