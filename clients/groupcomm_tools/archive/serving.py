"""The program of an archive: it moves events between its session, its machines and its store."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from os import urandom
from typing import Any, Final

import trio

from groupcomm.clocks.stamp import Position, format_position
from groupcomm.errors import CannotConnect, SessionEnded
from groupcomm.events import DaemonView, GroupView, Message, Undeliverable
from groupcomm.host.addresses import Address
from groupcomm_client.connection import Connection
from groupcomm_client.events import Unfiltered, Unreadable
from groupcomm_client.history.channel_reader import ChannelReader
from groupcomm_client.history.frames import ARCHIVES, HEAD
from groupcomm_client.history.subscriber import CaughtUp, Gap, Given, Send, Start, State, Subscriber
from groupcomm_client.reconnecting import FIRST_PAUSE_S, FOR_GOOD, LONGEST_PAUSE_S
from groupcomm_log.errors import LogError
from groupcomm_tools.archive.agreement import Agreement, Difference
from groupcomm_tools.archive.archive import Archive, Listening, ReadStore
from groupcomm_tools.archive.channels import ChannelServer
from groupcomm_tools.archive.cursor_file import CursorFile
from groupcomm_tools.archive.cursors import ArchivedCursors, StoreCursors
from groupcomm_tools.archive.digesting import LogDigests
from groupcomm_tools.archive.store import LogStore

Connect = Callable[[], AbstractAsyncContextManager[Connection]]

Tell = Callable[[dict[str, Any]], None]
"""A function that is called with each event: ``event`` names it, the other keys depend on it."""

SYNC_S: Final = 0.02
"""The time from one write to the next; events that came in between are written together."""

TEND_S: Final = 1.0

DIGEST_S: Final = 1.0
"""The time from one step of digests to the next."""

RETRY_S: Final = 1.0

READERS: Final = 2
"""The threads that read the store."""


class Serving:
    """An archive over all of its sessions.

    Attributes:
        archive: the machine of the present session; None before the first.
    """

    def __init__(
        self,
        store: LogStore,
        groups: Sequence[str],
        tell: Tell,
        *,
        buffer_bytes: int,
        channels: bool = True,
        address: Address | None = None,
    ) -> None:
        """Begin with a store.

        Args:
            store: where to store; nothing else may write to it.
            groups: the groups to record.
            tell: see `Tell`.
            buffer_bytes: the memory of events that wait to be proven, and for the disk.
            channels: whether subscribers may read by channels.
            address: where to listen for subscribers on other hosts.

        Raises:
            LogError: the file of the cursors is damaged.
            OSError: it cannot be read.
        """
        self._buffer_bytes = buffer_bytes
        self._channels = ChannelServer() if channels else None
        self._address = address
        self.archive: Archive | None = None
        self._store = store
        self._groups = tuple(groups)
        self._tell = tell
        self._intervals = list(store.intervals)
        self._cursor_file = CursorFile(store.folder)
        self._cursors = self._cursor_file.read()
        self._readers = trio.CapacityLimiter(READERS)
        self._digests = LogDigests(store.folder, groups, store.parts)
        self._agreement = Agreement()

    async def run(self, connect: Connect, *, reconnect: bool = True) -> None:
        """Serve until cancelled, in one session after the other.

        Raises:
            CannotConnect, SessionEnded: there is no first session, or no other can follow.
            ConfigError: nobody can listen at the address.
        """
        if self._channels is None:
            await self._serve_all(connect, reconnect)
            return
        async with self._channels.listen(self._address):
            self._tell({"event": "listening", "addresses": list(self._channels.addresses)})
            await self._serve_all(connect, reconnect)

    async def _serve_all(self, connect: Connect, reconnect: bool) -> None:
        pause_s = FIRST_PAUSE_S
        count = 0
        while True:
            try:
                async with connect() as connection:
                    count, pause_s = count + 1, FIRST_PAUSE_S
                    await self._serve(connection)
            except (CannotConnect, SessionEnded) as error:
                if not count or not reconnect or error.code in FOR_GOOD:
                    raise
                self._tell({"event": "reconnecting", "text": f"the session has ended: {error}"})
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _serve(self, connection: Connection) -> None:
        session = _Session(self, connection)
        self.archive = session.archive
        if self._channels is not None:
            self._channels.begin(session.archive, session.act)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.join, self._groups)
                nursery.start_soon(session.send)
                nursery.start_soon(session.write)
                nursery.start_soon(session.write_cursors)
                nursery.start_soon(session.tend)
                nursery.start_soon(session.compare)
                nursery.start_soon(session.keep_time)
                nursery.start_soon(session.read_channels)
                session.start_reading = nursery.start_soon
                await session.receive()
        except* SessionEnded as ended:
            raise ended.exceptions[0] from None
        finally:
            if self._channels is not None:
                self._channels.end()
            self._intervals = list(session.archive.intervals)
            self._cursors = tuple(session.cursors.entries.values())


class _Session:
    """One session of an archive."""

    def __init__(self, serving: Serving, connection: Connection) -> None:
        self._connection = connection
        self._store = serving._store
        self._cursor_file = serving._cursor_file
        self._tell = serving._tell
        self._readers = serving._readers
        intervals = serving._intervals
        start: Start | Position = intervals[-1][1] if intervals else Start.EARLIEST
        me, now = connection.member, trio.current_time()
        self._channels = serving._channels
        listening = None if self._channels is None else Listening(self._channels.addresses, urandom)
        self.archive = Archive(me, serving._groups, intervals, listening)
        self.cursors = ArchivedCursors(me, serving._cursors, connection.view)
        self._groups = serving._groups
        self._digests = serving._digests
        self._agreement = serving._agreement
        self._agreement.begin_session(me)
        self._subscriber = Subscriber(
            me,
            serving._groups,
            start,
            now=now,
            view=connection.view,
            stable=True,
            is_archive=True,
            queue_bytes=serving._buffer_bytes,
            has_channels=True,
        )
        self._reader = ChannelReader(connection.loop, nullcontext(), self._subscriber, self.act)
        self._outgoing: deque[Send] = deque()
        self._has_outgoing = trio.Event()
        self._has_waiting = trio.Event()
        self._to_store: StoreCursors | None = None
        self._has_cursors = trio.Event()
        self._timer = trio.CancelScope()
        self._is_live = False
        self.start_reading: Callable[..., None]

    async def join(self, groups: Sequence[str]) -> None:
        """Become a member of the archives and of the groups."""
        for group in (ARCHIVES, *groups):
            await self._connection.join(group)
        text = f"archive of {', '.join(groups)} as {self._connection.name}"
        self._tell({"event": "joined", "groups": list(groups), "text": text})

    async def receive(self) -> None:
        """Pass events to both machines."""
        while True:
            events = await self._connection.receive_batch()
            now = trio.current_time()
            self._subscriber.handle_all(events, now)
            for event in events:
                if isinstance(event, Undeliverable | GroupView) or (
                    type(event) is Message and event.data.startswith(HEAD)
                ):
                    self.archive.handle(event, now)
                    self._agreement.handle(event)
                    self.cursors.handle(event)
                elif isinstance(event, DaemonView):
                    self.cursors.handle(event)
            self.act()

    async def keep_time(self) -> None:
        """Wake the subscriber at its deadlines."""
        while True:
            with trio.CancelScope() as self._timer:
                self._set_timer()
                await trio.sleep_forever()
            self._subscriber.wake(trio.current_time())
            self.act()

    def _set_timer(self) -> None:
        deadline = self._subscriber.deadline
        self._timer.deadline = float("inf") if deadline is None else deadline

    def act(self) -> None:
        """Carry out what the machines want."""
        subscriber, archive = self._subscriber, self.archive
        if subscriber.waiting or self._position_is_new:
            self._has_waiting.set()
        archive.is_live = self._agreement.is_live = subscriber.state is State.LIVE
        if archive.is_live != self._is_live:
            self._is_live = archive.is_live
            state = "live" if self._is_live else "catching up"
            self._tell({"event": state, "position": str(subscriber.position)})
        self._outgoing += self._agreement.pop_actions()
        for action in subscriber.pop_actions():
            if isinstance(action, Send):
                self._outgoing.append(action)
            else:
                self._reader.do(action)
        for wanted in archive.pop_actions():
            if isinstance(wanted, ReadStore):
                self.start_reading(self._read, wanted)
            elif isinstance(wanted, Send):
                self._outgoing.append(wanted)
            elif self._channels is not None:
                self._channels.do(wanted)
        self._act_on_cursors()
        if self._outgoing:
            self._has_outgoing.set()
        self._set_timer()

    def _act_on_cursors(self) -> None:
        for action in self.cursors.pop_actions():
            if isinstance(action, StoreCursors):
                self._to_store = action
                self._has_cursors.set()
            else:
                self._outgoing.append(action)

    @property
    def _position_is_new(self) -> bool:
        position, intervals = self._subscriber.position, self.archive.intervals
        return position is not None and (not intervals or position > intervals[-1][1])

    async def send(self) -> None:
        """Send what the machines want to send, in order."""
        while True:
            await self._has_outgoing.wait()
            self._has_outgoing = trio.Event()
            while self._outgoing:
                action = self._outgoing.popleft()
                await self._connection.multicast(action.to, action.data, level=action.level)

    async def read_channels(self) -> None:
        """Read from other archives by channels."""
        await self._reader.run()

    async def _read(self, action: ReadStore) -> None:
        try:
            piece = await trio.to_thread.run_sync(self._store.read, action, limiter=self._readers)
        except (OSError, LogError) as error:
            self._tell({"event": "trouble", "text": f"the store cannot be read: {error}"})
            self.archive.failed(action.key)
        else:
            self.archive.read(action.key, piece, trio.current_time())
        self.act()

    # ---- the store ----

    async def write(self) -> None:
        """Write the events of the line, and answer for them then."""
        while True:
            next_write = trio.current_time() + SYNC_S
            await self._has_waiting.wait()
            self._has_waiting = trio.Event()
            position = self._subscriber.position
            given = list(self._subscriber.waiting)
            self._subscriber.waiting.clear()
            await self._store_all(given)
            now = trio.current_time()
            if position is not None and self.archive.intervals:
                self.archive.stored(position, now)
            self._subscriber.taken(now)
            self.act()
            await trio.sleep_until(next_write)

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
                    await trio.to_thread.run_sync(self._store.append, batch)
                    break
                except OSError as error:
                    self._tell({"event": "trouble", "text": f"{error}; tried again"})
                    await trio.sleep(RETRY_S)
        for each in given:
            if isinstance(each, Gap):
                if each.after is not None:
                    self.archive.stored(each.after, trio.current_time())
                    self._tell({"event": "gap", "text": str(each)})
                self.archive.begin_interval(each.upto)
            elif isinstance(each, CaughtUp):
                self._tell({"event": "caught up", "position": str(each.position)})

    async def write_cursors(self) -> None:
        """Write the cursors that have changed; retry until they are on disk."""
        while True:
            await self._has_cursors.wait()
            self._has_cursors = trio.Event()
            assert self._to_store is not None
            entries = self._to_store.entries
            while True:
                try:
                    await trio.to_thread.run_sync(self._cursor_file.write, entries)
                    break
                except OSError as error:
                    self._tell({"event": "trouble", "text": f"cursors: {error}; tried again"})
                    await trio.sleep(RETRY_S)
            self.cursors.stored()
            self.act()

    async def tend(self) -> None:
        """Seal and remove files when they are due; end streams that nobody reads."""
        while True:
            await trio.sleep(TEND_S)
            self.archive.wake(trio.current_time())
            try:
                removed = await trio.to_thread.run_sync(self._store.tend)
            except (OSError, LogError) as error:
                self._tell({"event": "trouble", "text": f"a file cannot be sealed: {error}"})
            else:
                if removed is not None:
                    self.archive.removed(removed)

    async def compare(self) -> None:
        """Compute digests behind the writer, and compare them with those of other archives."""
        step = self._digests.step
        while True:
            intervals = list(self.archive.intervals)
            try:
                found = await trio.to_thread.run_sync(step, intervals, limiter=self._readers)
            except (OSError, LogError) as error:
                self._tell({"event": "trouble", "text": f"digests cannot be computed: {error}"})
                await trio.sleep(RETRY_S)
                continue
            digested = {} if found.upto is None else dict.fromkeys(self._groups, found.upto)
            held = dict.fromkeys(self._groups, self.archive.intervals)
            self._agreement.update(held, digested, found.whole, found.still_open)
            self._agreement.wake(trio.current_time())
            for difference in self._agreement.pop_differences():
                self._tell(_event_of(difference))
            self.act()
            if not found.is_behind:
                await trio.sleep(DIGEST_S)


def _event_of(difference: Difference) -> dict[str, Any]:
    """Return the event that tells a difference."""
    after, upto = format_position(difference.after), format_position(difference.upto)
    return {
        "event": "differs",
        "archive": difference.archive,
        "group": difference.group,
        "after": after,
        "upto": upto,
        "events": difference.own,
        "events_there": difference.other,
        "text": f"{difference.archive} holds other events of {difference.group} behind {after}, up"
        f" to {upto}: {difference.other} there, {difference.own} here; find out which is right:"
        " docs/history.md, Digests",
    }
