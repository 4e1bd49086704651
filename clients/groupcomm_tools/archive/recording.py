"""One log of an archive in one session: what its subscriber gives is written to it."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final, TypeAlias

import trio

from groupcomm.clocks.stamp import Position
from groupcomm.events import DaemonView, GroupView, Message
from groupcomm_client.connection import Connection
from groupcomm_client.events import Unfiltered, Unreadable
from groupcomm_client.history.channel_reader import ChannelReader
from groupcomm_client.history.subscriber import CaughtUp, Gap, Given, Start, State, Subscriber
from groupcomm_log.errors import LogError
from groupcomm_tools.archive.archive import Archive
from groupcomm_tools.archive.digesting import Digested
from groupcomm_tools.archive.recorded import RecordedLog

Tell: TypeAlias = Callable[[dict[str, Any]], None]
"""A function that is called with each event: ``event`` names it, the other keys depend on it."""

RETRY_S: Final = 1.0

NUMBER_BITS: Final = 32
"""The numbers of the subscriber of log n begin at n << NUMBER_BITS, so that answers find it."""


class Recording:
    """One log in one session.

    Attributes:
        log: the log.
        subscriber: the machine that gives its events.
        reader: its channels.
        place: the number of the log in the archive.
    """

    def __init__(
        self,
        log: RecordedLog,
        connection: Connection,
        view: DaemonView | None,
        archive: Archive,
        tell: Tell,
        act: Callable[[], None],
        *,
        buffer_bytes: int,
    ) -> None:
        """Begin in a session that is a member of none of the groups yet.

        Args:
            log: the log.
            connection: the session.
            view: the present view of daemons, if it was handled already.
            archive: the machine that answers for the log.
            tell: see `Tell`.
            act: carries out what the machines want.
            buffer_bytes: the memory of events that wait to be proven.
        """
        self.log = log
        self.place = archive.add(log.groups, log.intervals)
        self._archive = archive
        self._tell = tell
        start: Start | Position = log.intervals[-1][1] if log.intervals else Start.EARLIEST
        self.subscriber = Subscriber(
            connection.member,
            log.groups,
            start,
            now=trio.current_time(),
            view=view,
            stable=True,
            is_archive=True,
            queue_bytes=buffer_bytes,
            has_channels=True,
            first_number=self.place << NUMBER_BITS,
        )
        self.reader = ChannelReader(connection.loop, nullcontext(), self.subscriber, act)

    @property
    def is_live(self) -> bool:
        """Return whether it gets the events of the line as they happen."""
        return self.subscriber.state is State.LIVE

    @property
    def has_news(self) -> bool:
        """Return whether there is something to write, or a place up to which all is written."""
        position, intervals = self.subscriber.position, self.intervals
        return bool(self.subscriber.waiting) or (
            position is not None and (not intervals or position > intervals[-1][1])
        )

    @property
    def intervals(self) -> list[tuple[Position, Position]]:
        """Return what the log holds."""
        return self._archive.holdings[self.place].intervals

    async def write(self) -> None:
        """Write what has come, and answer for it then."""
        subscriber = self.subscriber
        position = subscriber.position
        given = list(subscriber.waiting)
        subscriber.waiting.clear()
        await self._store_all(given)
        now = trio.current_time()
        if position is not None and self.intervals:
            self._archive.stored(position, now, self.place)
        subscriber.taken(now)

    async def _store_all(self, given: list[Given]) -> None:
        """Store events; retry until they are on disk."""
        rows = [
            each
            for each in given
            if isinstance(each, Message | GroupView | DaemonView | Unfiltered | Unreadable | Gap)
        ]
        if rows:
            batch = [(time.time_ns() // 1000, rows)]
            while True:
                try:
                    await trio.to_thread.run_sync(self.log.store.append, batch)
                    break
                except OSError as error:
                    self._tell({"event": "trouble", "text": f"{error}; tried again"})
                    await trio.sleep(RETRY_S)
        for each in given:
            if isinstance(each, Gap):
                if each.after is not None:
                    self._archive.stored(each.after, trio.current_time(), self.place)
                    self._tell({"event": "gap", "text": str(each)})
                self._archive.begin_interval(each.upto, self.place)
            elif isinstance(each, CaughtUp):
                self._tell({"event": "caught up", "position": str(each.position)})

    async def tend(self) -> None:
        """Seal and remove files that are due."""
        try:
            removed = await trio.to_thread.run_sync(self.log.store.tend)
        except (OSError, LogError) as error:
            self._tell({"event": "trouble", "text": f"a file cannot be sealed: {error}"})
        else:
            if removed is not None:
                self._archive.removed(removed, self.place)

    async def digest(self, limiter: trio.CapacityLimiter) -> Digested | None:
        """Compute some digests behind the writer; return None if that failed."""
        step, intervals = self.log.digests.step, list(self.intervals)
        try:
            return await trio.to_thread.run_sync(step, intervals, limiter=limiter)
        except (OSError, LogError) as error:
            self._tell({"event": "trouble", "text": f"digests cannot be computed: {error}"})
            return None
