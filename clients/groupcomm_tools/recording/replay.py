"""Replay: recorded messages are sent once more."""

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
"""Time, groups, level and type of messages that are sent by one call."""


class Replay:
    """A replay of the messages of a log to groups.

    Attributes:
        sent: number of messages sent.
        gaps: number of gaps passed over.
        left_out: number of messages that were for private names only.
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
        """Prepare a replay; nothing is sent yet.

        Args:
            batches: rows of the log, in order.
            speed: multiple of the recorded pace; None for as fast as the daemon accepts messages.
            to: destination; None for the groups of each message.
            level: level of all messages; None for the level of each.
            count: maximum number of messages; None for all.
        """
        self._batches = batches
        self._speed = speed
        self._to = to
        self._level = level
        self._left = count
        self._began: tuple[datetime, float] | None = None  # time in the log, time here
        self.sent = self.gaps = self.left_out = 0

    async def run(self, connection: Connection) -> None:
        """Send the messages; return once the daemon has accepted the last one.

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
        """Wait until a message is due; if the wall clock was set back, it is due at once."""
        if self._speed is None:
            return
        if self._began is None:
            self._began = received, trio.current_time()
        begin, began = self._began
        await trio.sleep_until(began + (received - begin).total_seconds() / self._speed)
