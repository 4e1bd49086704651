"""The program of an archive: it moves events between its session, its machines and its logs."""

import json
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import chain
from os import urandom
from typing import Any, Final, cast

import trio

from groupcomm.clocks.stamp import format_position
from groupcomm.errors import AccessRefused, CannotConnect, GroupCommError, SessionEnded
from groupcomm.events import DaemonView, GroupView, Message, Transition, Undeliverable
from groupcomm.host.addresses import Address
from groupcomm.level import ServiceLevel
from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from groupcomm_archive.agreement import Agreement, Difference
from groupcomm_archive.archive import Archive, Key, Listening, ReadStore
from groupcomm_archive.channels import ChannelServer
from groupcomm_archive.cluster_check import check_cluster
from groupcomm_archive.comparing import (
    Compact,
    decode_comparing_untrusted,
    encode_comparing,
)
from groupcomm_archive.cursor_file import CursorFile
from groupcomm_archive.cursors import ArchivedCursors, StoreCursors
from groupcomm_archive.disk_record import open_record
from groupcomm_archive.reader_process import ReaderProcess
from groupcomm_archive.recorded import RecordedLog, RecordedLogs, groups_text
from groupcomm_archive.recording import RETRY_S, Recording, Tell, log_of
from groupcomm_archive.rights import Pair, Rights
from groupcomm_client.connection import Connection
from groupcomm_client.events import Received
from groupcomm_client.history.frames import (
    ARCHIVES,
    HEAD,
    Channel,
    Find,
    Offer,
    Part,
    Piece,
    decode_untrusted,
)
from groupcomm_client.history.live import MARK, runs_of
from groupcomm_client.history.subscriber import Send
from groupcomm_client.reconnecting import FIRST_PAUSE_S, FOR_GOOD, LONGEST_PAUSE_S
from groupcomm_log.errors import LogError

Connect = Callable[[], AbstractAsyncContextManager[Connection]]

SYNC_S: Final = 0.02
"""The time from one write to the next; events that came in between are written together. While a
program waits until its message is kept, the next one follows at once."""

TEND_S: Final = 1.0

DIGEST_S: Final = 1.0
"""The time from one step of digests to the next."""

LOOK_S: Final = 2.0
"""The time from one look at the groups of the cluster to the next."""

MOST_GROUPS: Final = 1000
"""The logs of one archive; groups that match a pattern beyond that are not recorded."""

PAIRS: Final = 50
"""The principals of one question about rights; a question has a limit of bytes."""

READERS: Final = 2
"""The threads that read the store."""


class Serving:
    """An archive over all of its sessions.

    Attributes:
        archive: the machine of the present session; None before the first.
    """

    def __init__(
        self,
        logs: RecordedLogs,
        tell: Tell,
        *,
        buffer_bytes: int,
        channels: bool = True,
        address: Address | None = None,
        archives: int | None = None,
    ) -> None:
        """Begin with the logs.

        Args:
            logs: where to store; nothing else may write to them.
            tell: see `Tell`.
            buffer_bytes: the memory of events that wait to be proven, and for the disk.
            channels: whether subscribers may read by channels.
            address: where to listen for subscribers on other hosts.
            archives: how many archives of its groups there are to be; None for what the folder
                says.

        Raises:
            LogError: the file of the cursors, or the folder's record, is damaged.
            OSError: one cannot be read or written.
        """
        self._buffer_bytes = buffer_bytes
        self._reader_process = ReaderProcess()
        self._channels = ChannelServer(self._reader_process) if channels else None
        self._address = address
        self.archive: Archive | None = None
        self._logs = logs
        self._tell = tell
        self._readers = trio.CapacityLimiter(READERS)
        self._agreement = Agreement()
        self._cursor_file = CursorFile(logs.layout.folder)
        self._cursors = self._cursor_file.read()
        self._disk = open_record(logs.layout.folder, archives)

    async def run(self, connect: Connect, *, reconnect: bool = True) -> None:
        """Serve until cancelled, in one session after the other.

        Raises:
            CannotConnect, SessionEnded: there is no first session, or no other can follow.
            LogError: the logs are of another cluster, or one ends ahead of the history.
            ConfigError: nobody can listen at the address.
        """
        async with self._reader_process.running():
            await self._listen(connect, reconnect)

    async def _listen(self, connect: Connect, reconnect: bool) -> None:
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
                    await check_cluster(connection, self._logs.layout.folder, self._tell)
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
            self._channels.begin(session.archive, session.act, session.failed)
        try:
            async with trio.open_nursery() as nursery:
                session.start = nursery.start_soon
                session.begin()
                nursery.start_soon(session.join)
                nursery.start_soon(session.send)
                nursery.start_soon(session.write)
                nursery.start_soon(session.write_cursors)
                nursery.start_soon(session.tend)
                nursery.start_soon(session.compare)
                nursery.start_soon(session.keep_time)
                nursery.start_soon(session.decide)
                if self._logs.layout.patterns:
                    nursery.start_soon(session.look)
                    nursery.start_soon(session.open_wanted)
                await session.receive()
        except BaseExceptionGroup as group:
            raise _ended(group) or group from None
        finally:
            if self._channels is not None:
                self._channels.end()
            for recording in session.recordings:
                recording.log.intervals = list(recording.intervals)
            self._cursors = tuple(session.cursors.entries.values())


def _ended(group: BaseExceptionGroup[BaseException]) -> SessionEnded | None:
    """Return the end of the session if there is nothing else in a group of exceptions.

    `except*` would raise it in a group again.
    """
    of_sessions, others = group.split(SessionEnded)
    if of_sessions is None or others is not None:
        return None
    first: BaseException = of_sessions
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return cast(SessionEnded, first)


class _Session:
    """One session of an archive.

    Attributes:
        archive: the machine that answers.
        cursors: the machine that holds cursors.
        rights: the machine that decides who is answered.
        recordings: its logs, in this session.
    """

    def __init__(self, serving: Serving, connection: Connection) -> None:
        self._connection = connection
        self._logs = serving._logs
        self._tell = serving._tell
        self._readers = serving._readers
        self._buffer_bytes = serving._buffer_bytes
        self._channels = serving._channels
        listening = None if self._channels is None else Listening(self._channels.addresses, urandom)
        self.archive = Archive(connection.member, (), (), listening, serving._disk)
        self._cursor_file = serving._cursor_file
        self.cursors = ArchivedCursors(connection.member, serving._cursors, connection.view)
        self.rights = Rights(connection.member)
        self._has_held = trio.Event()
        self._agreement = serving._agreement
        self._agreement.begin_session(connection.member)
        self.recordings: list[Recording] = []
        self._recording_of: dict[str, Recording] = {}
        self._view = connection.view  # the last one that was handled
        self._regular = True
        # Groups that a pattern stands for, to be recorded, with their logs once these are open.
        self._wanted: dict[str, RecordedLog | None] = {}
        self._has_wanted = trio.Event()
        self._to_join: deque[str] = deque([ARCHIVES])
        self._has_to_join = trio.Event()
        self._own = frozenset((ARCHIVES, connection.member.name))
        self._is_marked = False  # whether a mark is on its way
        self._outgoing: deque[Send] = deque()
        self._has_outgoing = trio.Event()
        self._has_waiting = trio.Event()
        self._has_awaited = trio.Event()  # a program waits for what is written next
        self._to_store: StoreCursors | None = None
        self._has_cursors = trio.Event()
        self._timer = trio.CancelScope()
        self._is_live = False
        self.start: Callable[..., None]

    # ---- logs ----

    def begin(self) -> None:
        """Begin to record all logs that there are."""
        for log in self._logs.logs:
            self._record(log)

    def _record(self, log: RecordedLog) -> None:
        of = (log, self._connection, self._view, self.archive, self._tell, self.act)
        recording = Recording(*of, buffer_bytes=self._buffer_bytes)
        self.recordings.append(recording)
        self._recording_of.update(dict.fromkeys(log.groups, recording))
        self._to_join += log.groups
        self._has_to_join.set()
        self.start(recording.reader.run)

    async def join(self) -> None:
        """Become a member of the archives and of the groups, and of more groups as they come."""
        is_first = True
        while True:
            while self._to_join:
                await self._connection.join(self._to_join.popleft())
            groups = [group for each in self.recordings for group in each.log.groups]
            if is_first or self._logs.layout.patterns:
                text = f"archive of {groups_text(groups)} as {self._connection.name}"
                self._tell({"event": "joined", "groups": groups, "text": text})
            is_first = False
            self._has_to_join = trio.Event()
            await self._has_to_join.wait()

    def _want(self, groups: Sequence[str]) -> None:
        """Note groups that exist: those that a pattern stands for are recorded."""
        for group in groups:
            is_new = group not in self._recording_of and self._logs.layout.records(group)
            if is_new and len(self.recordings) + len(self._wanted) < MOST_GROUPS:
                self._wanted.setdefault(group)
        if self._wanted:
            self._has_wanted.set()

    async def open_wanted(self) -> None:
        """Open the logs of more groups, which waits for the disk, and record them then."""
        while True:
            await self._has_wanted.wait()
            self._has_wanted = trio.Event()
            for group in [group for group, log in self._wanted.items() if log is None]:
                spec = self._logs.layout.own(group)
                try:
                    self._wanted[group] = await trio.to_thread.run_sync(self._logs.open, spec)
                except LogError as error:
                    del self._wanted[group]
                    self._tell({"event": "trouble", "text": f"{group} is not recorded: {error}"})
            self._record_opened()
            self.act()

    def _record_opened(self) -> None:
        """Record the groups whose logs are open; a log must begin in a regular view."""
        if self._regular:
            for group, log in list(self._wanted.items()):
                if log is not None:
                    del self._wanted[group]
                    self._record(log)

    async def look(self) -> None:
        """Look which groups there are, again and again."""
        while True:
            try:
                self._want([*(await self._connection.ask("groups"))["groups"]])
            except SessionEnded:
                raise
            except GroupCommError as error:
                self._tell({"event": "trouble", "text": f"the groups are not known: {error}"})
            self.act()
            await trio.sleep(LOOK_S)

    # ---- rights ----

    async def decide(self) -> None:
        """Ask the daemon who may read what; ask again as long as there are streams."""
        while True:
            with trio.move_on_after(TEND_S):
                await self._has_held.wait()
            self._has_held = trio.Event()
            pairs = self.rights.questions(trio.current_time())
            for group in dict.fromkeys(group for _, group in pairs):
                of_group = [pair for pair in pairs if pair[1] == group]
                for start in range(0, len(of_group), PAIRS):
                    some = of_group[start : start + PAIRS]
                    decisions = zip(some, await self._ask_daemon(some), strict=True)
                    now = trio.current_time()
                    for message in self.rights.decide(decisions, now):
                        self._answer(message, now)
                for key in self.rights.ended:
                    self.archive.failed(key)
                self.rights.ended.clear()
            self.act()

    async def _ask_daemon(self, pairs: list[Pair]) -> list[bool]:
        """Return for each principal whether the rules of the daemon allow it the history."""
        try:
            found = await self._connection.ask(f"read-history {json.dumps(pairs)}")
        except AccessRefused as error:
            self._tell({"event": "trouble", "text": str(error)})
            return [False] * len(pairs)
        if "allowed" not in found:  # the daemon does not know the question: nobody is admitted
            self._tell({"event": "trouble", "text": str(found.get("error", found))})
            return [False] * len(pairs)
        return [bool(each) for each in found["allowed"]]

    # ---- events ----

    async def receive(self) -> None:
        """Pass events to the machines."""
        while True:
            events = await self._connection.receive_batch()
            now = trio.current_time()
            start = end = 0
            for run in runs_of(events):
                end += len(run)
                if self._is_only_recorded(run[0]):
                    continue
                if isinstance(run[0], Transition | DaemonView | Message):
                    self._pass_on(events[start:end], now)
                    start = end
                for event in run:
                    self._handle(event, now)
            self._pass_on(events[start:], now)
            self.act()
            self._check_places()

    def _check_places(self) -> None:
        """Raise LogError if a log ends ahead of the line: it is of another one."""
        for recording in self.recordings:
            line, place = recording.subscriber.ahead_of, recording.subscriber.position
            if line is not None and place is not None:
                raise LogError(
                    f"{recording.log.store.folder} ends at {format_position(place)}, ahead of the"
                    f" history, which is at {format_position(line)}: it is of another cluster, or"
                    " of this one before the state of its daemons was made anew; name another"
                    " folder (groupcomm history export --store reads the old one)"
                )

    def _is_only_recorded(self, event: Received) -> bool:
        """Return whether an event is a message that is neither for this archive nor for all."""
        return type(event) is Message and not self._own.intersection(event.groups)

    def _handle(self, event: Received, now: float) -> None:
        """Handle an event that is not only for the logs, and that these have."""
        if isinstance(event, Transition):
            self._regular = False
            self.cursors.handle(event)
        elif isinstance(event, DaemonView):
            self._view, self._regular = event, True
            self.cursors.handle(event)
            self._record_opened()
        elif isinstance(event, Undeliverable | GroupView | Message):
            if isinstance(event, Message) and not self.rights.admit(event, now):
                self._has_held.set()
            else:
                self._answer(event, now)
            self._agreement.handle(event)
            self.cursors.handle(event)
            if isinstance(event, Message):
                self._note_horizon(event)
                self._note_mark(event)

    def _answer(self, event: Undeliverable | GroupView | Message, now: float) -> None:
        """Pass on a request that the rules allow, or another event; record groups of a Find."""
        self.archive.handle(event, now)
        if self._logs.layout.patterns and isinstance(event, Message):
            frame = decode_untrusted(event.data)
            if isinstance(frame, Find):
                self._want(frame.groups)

    def _note_mark(self, message: Message) -> None:
        """Note whether a mark has come back: then the next one may be sent."""
        if message.data == MARK and message.sender == self._connection.member:
            self._is_marked = False

    def _note_horizon(self, message: Message) -> None:
        """Note up to where archives have agreed to compact a group."""
        if not self._agreement.is_archive(message.sender):
            return  # others do not say what may go
        frame = decode_comparing_untrusted(message.data)
        if isinstance(frame, Compact) and frame.group in self._recording_of:
            recording = self._recording_of[frame.group]
            recording.horizon = max(recording.horizon or frame.horizon, frame.horizon)

    def _pass_on(self, events: Sequence[Received], now: float) -> None:
        """Pass events to the subscribers of the logs that they are for."""
        if len(self.recordings) == 1:
            self.recordings[0].subscriber.handle_all(events, now)
            return
        found: list[list[Received]] = [[] for _ in self.recordings]
        for run in runs_of(events):
            parts = [run] if self._is_only_recorded(run[0]) else [[event] for event in run]
            for part in parts:
                for place in self._logs_of(part[0]):
                    found[place] += part
        for recording, part in zip(self.recordings, found, strict=True):
            if part:
                recording.subscriber.handle_all(part, now)

    def _logs_of(self, event: Received) -> Sequence[int]:
        """Return the numbers of the logs that an event is for."""
        if isinstance(event, Message):
            if event.data.startswith(HEAD):
                frame = decode_untrusted(event.data)
                if not isinstance(frame, Offer | Piece | Part | Channel):
                    return ()
                return log_of(frame.number, len(self.recordings))
            if event.data != MARK:
                of = self._recording_of
                return list({of[group].place for group in event.groups if group in of})
        elif isinstance(event, GroupView) and event.group != ARCHIVES:
            recording = self._recording_of.get(event.group)
            return () if recording is None else (recording.place,)
        return range(len(self.recordings))

    async def keep_time(self) -> None:
        """Wake the subscribers at their deadlines."""
        while True:
            with trio.CancelScope() as self._timer:
                self._set_timer()
                await trio.sleep_forever()
            now = trio.current_time()
            for recording in self.recordings:
                deadline = recording.subscriber.deadline
                if deadline is not None and deadline <= now:
                    recording.subscriber.wake(now)
            self.act()

    def _set_timer(self) -> None:
        deadlines = [recording.subscriber.deadline for recording in self.recordings]
        known = [deadline for deadline in deadlines if deadline is not None]
        self._timer.deadline = min(known, default=float("inf"))

    def act(self) -> None:
        """Carry out what the machines want."""
        self._wake_writer()
        self._note_state()
        for recording in self.recordings:
            for action in recording.subscriber.pop_actions():
                if isinstance(action, Send):
                    self._put(action)
                else:
                    recording.reader.do(action)
        self._outgoing += self._agreement.pop_actions()
        self._outgoing += self.rights.pop_actions()
        for wanted in self.archive.pop_actions():
            if isinstance(wanted, ReadStore):
                self._read(wanted)
            elif isinstance(wanted, Send):
                self._outgoing.append(wanted)
            elif self._channels is not None:
                self._channels.do(wanted)
        self._act_on_cursors()
        if self._outgoing:
            self._has_outgoing.set()
        self._set_timer()

    def _wake_writer(self) -> None:
        if any(recording.has_news for recording in self.recordings):
            self._has_waiting.set()
        if self.archive.is_awaited:
            self._has_awaited.set()

    def _act_on_cursors(self) -> None:
        for action in self.cursors.pop_actions():
            if isinstance(action, StoreCursors):
                self._to_store = action
                self._has_cursors.set()
            else:
                self._outgoing.append(action)

    def _note_state(self) -> None:
        """Note which logs get the events of the line as they happen; tell when that changes."""
        for recording in self.recordings:
            self.archive.holdings[recording.place].is_live = recording.is_live
        is_live = self._agreement.is_live = self.archive.is_live
        if is_live != self._is_live and self.recordings:
            self._is_live = is_live
            positions = [recording.subscriber.position for recording in self.recordings]
            last = max(filter(None, positions), default=None)
            state = "live" if is_live else "catching up"
            self._tell({"event": state, "position": str(last)})

    def _put(self, action: Send) -> None:
        """Send a message; one mark at a time is enough for all logs."""
        if action.data == MARK:
            if self._is_marked:
                return
            self._is_marked = True
        self._outgoing.append(action)

    async def send(self) -> None:
        """Send what the machines want to send, in order."""
        while True:
            await self._has_outgoing.wait()
            self._has_outgoing = trio.Event()
            while self._outgoing:
                action = self._outgoing.popleft()
                if len(action.data) > MAX_MESSAGE_BYTES:  # what everybody asks goes on
                    text = f"an answer to {action.to} has {len(action.data)} bytes, and is not sent"
                    self._tell({"event": "trouble", "text": text})
                    continue
                await self._connection.multicast(action.to, action.data, level=action.level)

    def _read(self, action: ReadStore) -> None:
        """Read a piece; if it is far from the end of its log, another process sends it."""
        store = self._logs.store_of(action)
        far = None if store is None else store.far(action)
        if self._channels is None or far is None or not self._channels.send_from_files(far):
            self.start(self._read_here, action)

    async def _read_here(self, action: ReadStore) -> None:
        try:
            piece = await trio.to_thread.run_sync(self._logs.read, action, limiter=self._readers)
        except (OSError, LogError) as error:
            self.failed(action.key, str(error))
        else:
            self.archive.read(action.key, piece, trio.current_time())
            self.act()

    def failed(self, key: Key, error: str) -> None:
        """Tell that the store cannot be read; the subscriber looks for another archive."""
        self._tell({"event": "trouble", "text": f"the store cannot be read: {error}"})
        self.archive.failed(key)
        self.act()

    # ---- the logs ----

    async def write(self) -> None:
        """Write the events of the line, and answer for them then."""
        while True:
            next_write = trio.current_time() + SYNC_S
            await self._has_waiting.wait()
            self._has_waiting = trio.Event()
            for recording in list(self.recordings):
                if recording.has_news:
                    await recording.write()
            self.act()
            with trio.move_on_at(next_write):
                await self._has_awaited.wait()
            self._has_awaited = trio.Event()

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
            self.rights.keep(self.archive.streams)
            for recording in list(self.recordings):
                await recording.tend()
                await recording.compact()
                wanted = await recording.wanted()
                if wanted is not None:
                    compact = encode_comparing(Compact(recording.log.groups[0], wanted))
                    self._outgoing.append(Send(ARCHIVES, compact, ServiceLevel.AGREED))
            self.act()

    async def compare(self) -> None:
        """Compute digests behind the writer, and compare them with those of other archives."""
        while True:
            recordings = list(self.recordings)
            found = [(each, await each.digest(self._readers)) for each in recordings]
            done = [(each, digested) for each, digested in found if digested is not None]
            self._agreement.update(
                {group: each.intervals for each in recordings for group in each.log.groups},
                {
                    group: digested.upto
                    for each, digested in done
                    for group in each.log.groups
                    if digested.upto is not None
                },
                chain.from_iterable(digested.whole for _, digested in done),
                chain.from_iterable(digested.still_open for _, digested in done),
            )
            self._agreement.wake(trio.current_time())
            for difference in self._agreement.pop_differences():
                self._tell(_event_of(difference))
            self.act()
            if not any(digested.is_behind for _, digested in done):
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
