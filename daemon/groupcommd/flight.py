"""The flight recorder: the last protocol events, kept in memory and written out on request."""

import time
from collections import deque
from pathlib import Path
from typing import Any, Final

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.view import DaemonId, View
from groupcomm.host.private_files import write_private
from groupcomm.wire.bundle import Bundle

REMEMBERED: Final = 8192


class FlightRecorder:
    """Implements `groupcomm.engine.probe.Probe`: an entry for each call, the oldest are dropped."""

    def __init__(self) -> None:
        self._events: deque[tuple[Any, ...]] = deque(maxlen=REMEMBERED)
        self._note = self._events.append

    def __len__(self) -> int:
        return len(self._events)

    def dump(self, path: Path) -> None:
        """Write them as lines: seconds of the monotonic clock, what happened, the numbers.

        Raises:
            OSError: it cannot be written.
        """
        lines = (f"{at:.6f} {' '.join(map(str, what))}\n" for at, *what in self._events)
        write_private(path, "".join(lines))

    def installed(self, view: View) -> None:
        """See Probe."""
        names = ",".join(daemon.name for daemon in view.daemons)
        self._note((time.monotonic(), "installed", view.id, names))

    def transitional(self, old: ViewId, new: ViewId, members: tuple[DaemonId, ...]) -> None:
        """See Probe."""
        names = ",".join(daemon.name for daemon in members)
        self._note((time.monotonic(), "transitional", old, new, names))

    def stamped(self, ring: int, number: int, time_: int) -> None:
        """See Probe."""
        self._note((time.monotonic(), "stamped", ring, number, time_))

    def held(self, ring: int, number: int, time_: int) -> None:
        """See Probe."""
        self._note((time.monotonic(), "held", ring, number, time_))

    def horizon(self, ring: int, value: int, upto: int) -> None:
        """See Probe."""
        self._note((time.monotonic(), "horizon", ring, value, upto))

    def counted(self, ring: int, value: int, upto: int) -> None:
        """See Probe."""

    def released(
        self, ring: int, number: int, time_: int, bundle_index: int, bundle: Bundle, sender: str
    ) -> None:
        """See Probe."""
        self._note((time.monotonic(), "released", ring, number, bundle_index, sender))

    def table(self, position: Position, digest: str) -> None:
        """See Probe."""
        self._note((time.monotonic(), "table", position.time, position.ring, digest))

    def accepted(self, sender: str, connection: int, first: int, last: int) -> None:
        """See Probe."""
        self._note((time.monotonic(), "accepted", sender, connection, first, last))
