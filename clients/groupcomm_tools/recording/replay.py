"""Sending recorded messages once more."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import trio

from groupcomm.level import ServiceLevel
from groupcomm_client.connection import Connection
from groupcomm_log.schema import GAP, MESSAGE

COLUMNS: Final = ("kind", "received", "groups", "level", "type", "data")

_Call = tuple[Any, ...]
"""When messages were received, to which groups, their level and type: the same for one call."""


class Replay:
    """Messages of a log, on their way into groups.

    Attributes:
        sent: messages.
        gaps: passed over on the way.
        left_out: messages that were sent to private names only.
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        *,
        speed: float | None,
        to: str | None,
        level: ServiceLevel | None,
        count: int | None,
    ) -> None:
        """Get ready.

        Args:
            batches: rows of the log, in order.
            speed: times the recorded pace; None: as fast as the daemon takes them.
            to: the destination; None: the groups that each was sent to.
            level: of all; None: that of each.
            count: so many messages are sent at most; None: all.
        """
        self._batches = batches
        self._speed = speed
        self._to = to
        self._level = level
        self._left = count
        self._began: tuple[datetime, float] | None = None  # in the log, and here
        self.sent = self.gaps = self.left_out = 0

    async def run(self, connection: Connection) -> None:
        """Send them; returns once the daemon has taken the last one.

        Raises:
            SessionEnded: the session is over.
            LogError, OSError: the log cannot be read.
        """
        while batch := await trio.to_thread.run_sync(next, self._batches, None):
            columns = [batch[name].to_pylist() for name in COLUMNS]
            for (kind, *call), rows in groupby(
                zip(*columns, strict=True), key=lambda row: row[:-1]
            ):
                if kind == MESSAGE:
                    await self._send(connection, call, [row[-1] for row in rows])
                self.gaps += kind == GAP
            if self._left == 0:
                return

    async def _send(self, connection: Connection, call: Sequence[Any], data: list[bytes]) -> None:
        received, groups, level, type_ = call
        to = [self._to] if self._to is not None else [g for g in groups if not g.startswith("#")]
        if not to:
            self.left_out += len(data)
            return
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        await self._until_due(received)
        await connection.multicast_many(
            to, data, level=self._level or ServiceLevel[level], type=type_
        )
        self.sent += len(data)

    async def _until_due(self, received: datetime) -> None:
        """Wait for the time of a message; one that the wall clock has put back is due at once."""
        if self._speed is None:
            return
        if self._began is None:
            self._began = received, trio.current_time()
        begin, began = self._began
        await trio.sleep_until(began + (received - begin).total_seconds() / self._speed)
