"""The recorder: it receives events of a daemon, and has them written to a log.

Receiving never waits for the disk: events wait in memory (`WriteQueue`), and threads write them.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from groupcomm.errors import CannotConnect, SessionEnded
from groupcomm.events import MemberId, Message
from groupcomm_archive.cluster_check import check_cluster
from groupcomm_archive.columns import Cause, EventBatch, Gap, to_rows
from groupcomm_client.connection import Connection
from groupcomm_client.events import Received
from groupcomm_client.reconnecting import FIRST_PAUSE_S, FOR_GOOD, LONGEST_PAUSE_S
from groupcomm_log.errors import LogError
from groupcomm_log.schema import Offset
from groupcomm_log.writer import LogWriter

ROW_BYTES: Final = 150
"""Approximate memory of a message, besides its data."""

BATCH_BYTES: Final = 16 * 1024 * 1024
"""Maximum written at once, unless one delivery is larger."""


class WriteQueue:
    """A bounded queue of events for the disk. Events without room are dropped, and a gap marks the
    place.

    The alternative, to receive no more, would have the senders wait for this disk, or end the
    session of the recorder.

    Attributes:
        bytes: approximate size of the queue.
        dropped: messages that did not fit, since the beginning.
    """

    def __init__(self, cap_bytes: int) -> None:
        self._cap_bytes = cap_bytes
        self._queue: deque[tuple[EventBatch, int]] = deque()
        self._missing = 0  # messages dropped after the last one that waits
        self.bytes = 0
        self.dropped = 0

    def __bool__(self) -> bool:
        return bool(self._queue or self._missing)

    def put(self, events: Sequence[Received | Gap]) -> bool:
        """Add events; return False if they were dropped. Views are dropped with the messages."""
        messages = [event for event in events if type(event) is Message]
        size = sum([len(message.data) for message in messages]) + ROW_BYTES * len(events)
        if self.bytes and self.bytes + size > self._cap_bytes:
            self._missing += len(messages)
            self.dropped += len(messages)
            return False
        self._end_gap()
        self._queue.append((EventBatch(time.time_ns() // 1000, events), size))
        self.bytes += size
        return True

    def _end_gap(self) -> None:
        if self._missing:
            details = {"messages": self._missing, "why": "the disk did not keep up"}
            gap = Gap(cause="overrun", details=details)
            self._queue.append((EventBatch(time.time_ns() // 1000, [gap]), 0))
            self._missing = 0

    def pop(self) -> list[EventBatch]:
        """Remove and return the next events to write; the queue must not be empty."""
        if not self._queue:
            self._end_gap()
        taken: list[EventBatch] = []
        size = 0
        while self._queue and (not taken or size + self._queue[0][1] <= BATCH_BYTES):
            events, bytes_ = self._queue.popleft()
            taken.append(events)
            size += bytes_
        self.bytes -= size
        return taken


RETRY_S: Final = 1.0
"""Seconds after a failure until the disk is tried again."""

TEND_S: Final = 1.0
"""Seconds between checks whether a file is to be sealed or removed."""

Tell = Callable[[dict[str, Any]], None]
"""A function that is called with each event: ``event`` names it, the other keys depend on it."""


@attrs.frozen(kw_only=True)
class Pace:
    """The pace at which rows are written to the disk.

    Attributes:
        sync_s: seconds between two writes; rows that came in between are written and synced
            together.
        buffer_bytes: maximum size of the queue for the disk.
    """

    sync_s: float = 0.05
    buffer_bytes: int = 256 * 1024 * 1024


class Recorder:
    """Records the events of sessions in one log.

    Attributes:
        count: recorded messages.
        sessions: number of sessions.
    """

    def __init__(
        self, writer: LogWriter, groups: tuple[str, ...], pace: Pace, tell: Tell, count: int | None
    ) -> None:
        """Begin a recording.

        Args:
            writer: writer of the log.
            groups: names of the recorded groups.
            pace: see `Pace`.
            tell: see `Tell`.
            count: maximum number of messages; None for no limit.
        """
        self._writer = writer
        self._groups = groups
        self._pace = pace
        self._tell = tell
        self._wanted = count
        self._waiting = WriteQueue(pace.buffer_bytes)
        self._arrived = trio.Event()
        self._batches: list[EventBatch] = []  # batches that are being written
        self._problems: dict[str, str] = {}
        self.count = self.sessions = 0
        for damage in writer.found.damage:
            tell({"event": "damage", "text": str(damage)})

    async def check_cluster(self, connection: Connection) -> None:
        """Check that the log is of the cluster of a session; see `check_cluster`."""
        await check_cluster(connection, self._writer.folder, self._tell)

    # ---- input ----

    @property
    def is_done(self) -> bool:
        """Return whether as many messages were recorded as are wanted."""
        return self._wanted is not None and self.count >= self._wanted

    def begin_session(self, member: MemberId, why: str) -> None:
        """Begin a session: later events belong to it, and some may be missing before.

        Args:
            member: the session.
            why: why the session before ended; ignored for the first session.
        """
        found = self._writer.found
        cause: Cause = "begin" if found.epoch == 0 else "restart"
        details: dict[str, Any] = {}
        if self.sessions:
            cause, details = "reconnect", {"why": why}
        elif found.damage:
            details = {"damage": [str(each) for each in found.damage]}
        self.sessions += 1
        self._put([Gap(cause=cause, member=member, groups=self._groups, details=details)])

    def report_joined(self, member: MemberId) -> None:
        """Report that the session is a member of all groups: nothing from here on is missing."""
        groups = ", ".join(self._groups)
        text = f"recording {groups} as {member.name}"
        self._tell({"event": "joined", "groups": list(self._groups), "text": text})

    def record(self, events: list[Received]) -> None:
        """Queue events for the log."""
        messages = sum([type(event) is Message for event in events])
        if self._wanted is not None and self.count + messages > self._wanted:
            events = _up_to(events, self._wanted - self.count)
            messages = self._wanted - self.count
        self.count += messages
        self._put(events)

    def _put(self, events: list[Received] | list[Gap]) -> None:
        if not events:
            return
        if self._waiting.put(events):
            self._clear("buffer")
        else:
            self._note(
                "buffer", "the disk does not keep up: messages are dropped, and a gap is marked"
            )
        self._arrived.set()

    # ---- output ----

    async def write(self) -> None:
        """Write events, until cancelled."""
        while True:
            next_write = trio.current_time() + self._pace.sync_s
            await self._arrived.wait()
            try:
                await self._write_some()
                self._clear("write")
            except OSError as error:
                self._note("write", f"{error}; tried again until it can be written")
                await trio.sleep(RETRY_S)
            await trio.sleep_until(next_write)

    async def _write_some(self) -> None:
        """Write a part of the queue; after an error the same part is written next."""
        self._batches = self._batches or self._waiting.pop()
        offset = await trio.to_thread.run_sync(self._store)
        lag_ms = (time.time_ns() // 1000 - self._batches[0].received_us) / 1000
        self._batches = []
        if not self._waiting:
            self._arrived = trio.Event()
        self._tell(
            {
                "event": "synced",
                "epoch": offset.epoch,
                "row": offset.row,
                "lag_ms": round(lag_ms, 1),
                "waiting_bytes": self._waiting.bytes,
            }
        )

    def _store(self) -> Offset:
        return self._writer.append(to_rows(self._batches))

    async def tend(self) -> None:
        """Seal and remove files when they are due, until cancelled."""
        while True:
            await trio.sleep(TEND_S)
            try:
                self._sealed(await trio.to_thread.run_sync(self._writer.tend))
                self._clear("seal")
            except (OSError, LogError) as error:
                self._note("seal", f"a file cannot be sealed: {error}; tried again")

    def _sealed(self, paths: list[Path]) -> None:
        for path in paths:
            self._tell({"event": "sealed", "file": path.name})

    async def finish(self) -> None:
        """Write the rest of the queue and seal it; no other method may run.

        Raises:
            LogError: some received events are not on disk.
        """
        try:
            while self._batches or self._waiting:
                await self._write_some()
        except OSError as error:
            row = self._writer.next_row
            raise LogError(f"rows from {row} on are not on disk: {error}") from None
        finally:
            try:
                self._sealed(await trio.to_thread.run_sync(self._writer.close))
            except (OSError, LogError) as error:
                self._note("seal", f"a file cannot be sealed: {error}; the next recorder does it")
        if self._waiting.dropped:
            raise LogError(
                f"{self._waiting.dropped} messages are missing, as gaps in the log say: the disk"
                " did not keep up; see --buffer-mb"
            )

    # ---- trouble ----

    def _note(self, what: str, text: str) -> None:
        """Report trouble, once for as long as it lasts."""
        if self._problems.get(what) != text:
            self._problems[what] = text
            self._tell({"event": "trouble", "text": text})

    def _clear(self, what: str) -> None:
        if self._problems.pop(what, None) is not None:
            self._tell({"event": "trouble over", "text": _OVER[what]})


_OVER: Final = {
    "buffer": "the disk keeps up again",
    "write": "rows are written again",
    "seal": "files are sealed again",
}


def _up_to(events: list[Received], count: int) -> list[Received]:
    """Return the events up to this number of messages."""
    for at, event in enumerate(events):
        if not count:
            return events[:at]
        count -= type(event) is Message
    return events


FEW: Final = 256
GATHER_S: Final = 0.002
"""Wait in seconds after few events: waking up costs more than handling many events."""

Connect = Callable[[], AbstractAsyncContextManager[Connection]]


async def record(
    connect: Connect, groups: Sequence[str], recorder: Recorder, *, reconnect: bool = True
) -> None:
    """Record until the count is reached; received events are then on disk, also after a
    cancellation.

    A session that ends is followed by another one.

    Args:
        connect: opens a session for the length of a block.
        groups: groups to join, in this order.
        recorder: recorder of the log.
        reconnect: open another session when one ends.

    Raises:
        CannotConnect, SessionEnded: there is no first session, or no other can follow.
        LogError: some received events are not on disk; or the log is of another cluster.
    """
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorder.write)
            nursery.start_soon(recorder.tend)
            await _follow(connect, groups, recorder, reconnect=reconnect)
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await recorder.finish()


async def _follow(
    connect: Connect, groups: Sequence[str], recorder: Recorder, *, reconnect: bool
) -> None:
    why = ""
    pause_s = FIRST_PAUSE_S
    while True:
        sessions = recorder.sessions
        try:
            async with connect() as connection:
                await recorder.check_cluster(connection)
                recorder.begin_session(connection.member, why)
                for group in groups:
                    await connection.join(group)
                recorder.report_joined(connection.member)
                pause_s = FIRST_PAUSE_S
                while not recorder.is_done:
                    events = await connection.receive_batch()
                    recorder.record(events)
                    if len(events) < FEW:
                        await trio.sleep(GATHER_S)
                return
        except (CannotConnect, SessionEnded) as error:
            if not recorder.sessions or not reconnect or error.code in FOR_GOOD:
                raise
            if recorder.sessions > sessions:
                why = str(error)
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
