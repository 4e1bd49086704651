"""One log of an archive in one session: what its subscriber gives is written to it."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast

import attrs
import trio

from groupcomm.clocks.stamp import Position, format_position
from groupcomm.events import DaemonView, GroupView, Message
from groupcomm_archive.archive import Archive
from groupcomm_archive.compacting import TooManyKeys
from groupcomm_archive.digesting import Digested
from groupcomm_archive.keys import MOST_KEYS
from groupcomm_archive.recorded import RecordedLog
from groupcomm_client.connection import Connection
from groupcomm_client.events import Received, Unfiltered, Unreadable
from groupcomm_client.first_number import first_number
from groupcomm_client.history.channel_reader import ChannelReader
from groupcomm_client.history.given import CaughtUp, Compacted, Gap, Given, Start
from groupcomm_client.history.places import Line, place_of
from groupcomm_client.history.subscriber import State, Subscriber
from groupcomm_log.errors import LogError

Tell: TypeAlias = Callable[[dict[str, Any]], None]
"""A function that is called with each event: ``event`` names it, the other keys depend on it."""

RETRY_S: Final = 1.0

Done = TypeVar("Done")

_ROWS: Final = frozenset((Message, GroupView, DaemonView, Unfiltered, Unreadable, Gap))
"""What is written."""

_MARKS: Final = frozenset((Gap, CaughtUp))

NUMBER_BITS: Final = 32
"""The numbers of the subscriber of log n begin at n << NUMBER_BITS, so that answers find it."""


def log_of(number: int, logs: int) -> Sequence[int]:
    """Return the log whose subscriber has given a question its number; none for another number.

    Args:
        number: any integer: programs that are no archives send what they like.
        logs: the number of logs.
    """
    place = number >> NUMBER_BITS
    return (place,) if 0 <= place < logs else ()


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
        self.horizon: Position | None = None  # up to where archives have agreed to compact
        self._fetching: Compacted | None = None
        self._fetched: list[Line] = []
        if log.compacting is not None:
            archive.holdings[self.place].compacted = log.compacting.part
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
            first_number=(self.place << NUMBER_BITS) + first_number(NUMBER_BITS - 1),
            compacted=log.compacting is not None,
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
        given = subscriber.waiting.pop()
        if self._fetching is not None or Compacted in set(map(type, given)):
            given = await self._without_fetched(given, position)
            if self._fetching is not None:
                subscriber.taken(trio.current_time())
                return
        await self._store_all(given)
        now = trio.current_time()
        if position is not None and self.intervals:
            self._archive.stored(position, now, self.place)
        subscriber.taken(now)

    async def _store_all(self, given: list[Given]) -> None:
        """Store events; retry until they are on disk."""
        kinds = set(map(type, given))
        rows = given if kinds <= _ROWS else [each for each in given if type(each) in _ROWS]
        if rows:
            batch = [(_now_us(), cast(list[Received | Gap], rows))]
            await self._until_done(partial(self.log.store.append, batch))
        for each in given if kinds & _MARKS else ():
            if isinstance(each, Gap):
                if each.after is not None:
                    self._archive.stored(each.after, trio.current_time(), self.place)
                    self._tell({"event": "gap", "text": str(each)})
                self._archive.begin_interval(each.upto, self.place)
            elif isinstance(each, CaughtUp):
                self._tell({"event": "caught up", "position": str(each.position)})

    async def _until_done(self, work: Callable[[], Done]) -> Done:
        """Do something in a thread; retry until the disk has it."""
        while True:
            try:
                return await trio.to_thread.run_sync(work)
            except OSError as error:
                self._tell({"event": "trouble", "text": f"{error}; tried again"})
                await trio.sleep(RETRY_S)

    # ---- compaction ----

    async def _without_fetched(
        self, given: Sequence[Given], position: Position | None
    ) -> list[Given]:
        """Keep what comes of the compacted part of another archive; return what is behind it.

        What was fetched becomes the snapshot once its part is complete.
        """
        before: list[Given] = []
        for at, each in enumerate(given):
            if isinstance(each, Compacted):
                self._fetching = self._fetching or each
                self._fetching = attrs.evolve(self._fetching, upto=each.upto)
            elif self._fetching is None:
                before.append(each)
            elif isinstance(each, Message | GroupView | DaemonView):
                place = place_of(each)
                if place is not None and place > self._fetching.upto:
                    await self._adopt()
                    return [*before, *given[at:]]
                self._fetched += [each] if place is not None else []
        if self._fetching is not None:
            await self._store_all(before)
            before = []
            if position is not None and position >= self._fetching.upto:
                await self._adopt()
        return before

    async def _adopt(self) -> None:
        """Make a snapshot of what was fetched; the log goes on behind it."""
        compacting, fetching = self.log.compacting, self._fetching
        assert compacting is not None
        assert fetching is not None
        of = (fetching.after, fetching.upto, self._fetched, list(self.intervals), _now_us())
        try:
            removed = await self._until_done(partial(compacting.adopt, *of))
        except TooManyKeys:
            self._tell(_too_many(self.log.groups))
            removed = None
        after = fetching.after if self.intervals else None
        self._fetching, self._fetched = None, []
        await self._store_all([Gap(after=after, upto=fetching.upto)])
        self._note_compacted(removed)

    def _note_compacted(self, removed: Position | None) -> None:
        assert self.log.compacting is not None
        self._archive.holdings[self.place].compacted = self.log.compacting.part
        if removed is not None:
            self._archive.removed(removed, self.place)

    async def wanted(self) -> Position | None:
        """Return the place up to which the log should be compacted; None while it is small."""
        if self.log.compacting is None or not self.is_live or self.horizon is not None:
            return None
        try:
            return await trio.to_thread.run_sync(self.log.compacting.wanted)
        except (OSError, LogError) as error:
            self._tell({"event": "trouble", "text": f"files cannot be looked at: {error}"})
            return None

    async def compact(self) -> None:
        """Compact the log as the archives have agreed, once it has come as far."""
        compacting, horizon = self.log.compacting, self.horizon
        if compacting is None or horizon is None:
            return
        if not any(first < horizon <= last for first, last in self.intervals):
            if self.is_live and self.intervals and self.intervals[-1][1] > horizon:
                self.horizon = None  # it does not hold it
            return
        self.horizon = None
        intervals = list(self.intervals)
        try:
            removed = await trio.to_thread.run_sync(
                compacting.compact, horizon, intervals, _now_us()
            )
        except TooManyKeys:
            self._tell(_too_many(self.log.groups))
        except (OSError, LogError) as error:
            self._tell({"event": "trouble", "text": f"a log cannot be compacted: {error}"})
        else:
            self._note_compacted(removed)
            groups = ", ".join(self.log.groups)
            self._tell({"event": "compacted", "groups": groups, "upto": format_position(horizon)})

    # ---- files ----

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


def _now_us() -> int:
    return time.time_ns() // 1000


def _too_many(groups: Sequence[str]) -> dict[str, Any]:
    """Return the event that tells that a group has too many keys."""
    text = f"{', '.join(groups)} has more than {MOST_KEYS} keys, and is not compacted"
    return {"event": "trouble", "text": text}
