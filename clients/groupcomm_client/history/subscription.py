"""A subscription on a connection of any kind: it moves events between the session and the machine.

Four tasks run while it lasts: one receives, one sends, one reads what archives send by channels,
and one lets time pass. So a program that is slow does not let events wait at its daemon.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from math import inf
from typing import Any, Final, Self, TypeAlias, TypeVar

from groupcomm.clocks.stamp import Position, format_position
from groupcomm.errors import Code, LocalProtocolError, PlaceAhead, SessionEnded
from groupcomm.events import Message
from groupcomm_client.arguments import check_count, check_names, check_seconds
from groupcomm_client.basic_connection import GOODBYE_S, BasicConnection
from groupcomm_client.events import Received, Reconnected
from groupcomm_client.first_number import first_number
from groupcomm_client.history.channel_reader import ChannelReader
from groupcomm_client.history.cursor_client import Cursor, CursorClient, CursorState
from groupcomm_client.history.frames import HEAD, decode_untrusted
from groupcomm_client.history.gap_wait import GAP_WAIT_S
from groupcomm_client.history.given import CaughtUp, Gap, Given, Start
from groupcomm_client.history.given_queue import QUEUE_BYTES
from groupcomm_client.history.places import Progress
from groupcomm_client.history.refusals import Refusal, is_refusal
from groupcomm_client.history.subscriber import FIND_S, Send, Subscriber

FOUND_S: Final = 30.0
"""The time in which an archive must answer a subscription that needs one."""

_BATCH: Final = 10_000
"""The most events of a batch."""

_MARKS: Final = frozenset((CaughtUp, Gap))

Begin: TypeAlias = Start | Position | datetime | Cursor | str
"""Where a subscription begins; a text is the name of a cursor."""


_Found = TypeVar("_Found")


class Subscription:
    """Events of groups, from any position on; made by `Connection.subscribe`."""

    def __init__(
        self,
        connection: BasicConnection,
        groups: Sequence[str],
        start: Start | Position | datetime,
        *,
        stable: bool,
        cursor: CursorClient | None = None,
        compacted: bool = False,
        gap_wait_s: float = GAP_WAIT_S,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        """Prepare a subscription; see `subscribe`.

        Args:
            connection, groups, start, stable, compacted, gap_wait_s, queue_bytes: see
                `Connection.subscribe`.
            cursor: its cursor, which was looked for already.
        """
        self._connection = connection
        self._loop = connection.loop
        self._lock = self._loop.thread_lock()
        self._subscriber = Subscriber(
            connection.member,
            groups,
            _start_of(start),
            now=time.monotonic(),
            view=connection.view,
            stable=stable,
            has_channels=True,
            first_number=first_number(),
            compacted=compacted,
            gap_wait_s=gap_wait_s,
            queue_bytes=queue_bytes,
        )
        self._channels = ChannelReader(self._loop, self._lock, self._subscriber, self._act)
        self._progress = Progress(start if isinstance(start, Position) else None)
        self._cursor = cursor
        self._makes_cursor = cursor is not None and cursor.position is None
        self._refusal: tuple[float, Refusal] | None = None  # the last one, and when it came
        self._ended: SessionEnded | None = None
        self._outgoing: deque[Send] = deque()
        self._has_outgoing = self._loop.event()
        self._has_events = self._loop.event()
        self._has_deadline = self._loop.event()
        self._wakes_at = -inf  # when the timer looks at the deadline again
        self._received = 0
        if self._makes_cursor and isinstance(start, Position):
            self._begin_cursor(start)

    @property
    def position(self) -> Position | None:
        """Return the last position of which everything was received; begin there the next time.

        None if nothing was received that has one.
        """
        return self._progress.after

    @property
    def is_live(self) -> bool:
        """Return whether history was joined with live events."""
        return self._subscriber.state.name == "LIVE"

    @property
    def waits_for_archive(self) -> bool:
        """Return whether a gap is next, unless an archive comes back that has these events."""
        return self._subscriber.waits_for_archive

    @property
    def misses_archive(self) -> bool:
        """Return whether an archive is needed now, and none has answered yet."""
        return self._subscriber.alone_since is not None

    @property
    def acknowledged(self) -> Position | None:
        """Return the highest place of the cursor that archives are known to hold."""
        return None if self._cursor is None else self._cursor.position

    async def receive(self, timeout_s: float | None = None) -> Given:
        """Return the next event: a message, a view, `CaughtUp` or `Gap`.

        Args:
            timeout_s: the longest wait in seconds, 0 for less; None for no limit.

        Raises:
            TimeoutError: no event has arrived in time.
            LocalProtocolError: no archive has answered, and only one can have what comes next; or
                `timeout_s` is no number.
            PlaceAhead: the place from which this goes on is ahead of the history.
            AccessRefused: the rules of the archives' daemons do not allow it.
            SessionEnded: the session is over, and no event is left.
        """
        return (await self._receive(1, timeout_s))[0]

    async def receive_batch(self, timeout_s: float | None = None) -> list[Given]:
        """Return all events that have come, at least one; see `receive`."""
        return await self._receive(_BATCH, timeout_s)

    async def in_time(
        self, seconds: float, call: Callable[[], Coroutine[Any, Any, _Found]]
    ) -> _Found:
        """Make a call that receives; raise TimeoutError if it takes longer than `seconds`."""
        found: list[_Found] = []
        seconds = check_seconds("timeout_s", seconds)

        async def receive() -> None:
            found.append(await call())

        if not await self._loop.timeout(seconds, receive):
            raise TimeoutError(f"no event has arrived in {seconds:g} s")
        return found[0]

    async def _receive(self, most: int, timeout_s: float | None) -> list[Given]:
        self._connection.protocol.check_own()
        self._received += 1
        if not self._received % 64:
            await self._loop.checkpoint()
        until = None
        if timeout_s is not None:
            until = time.monotonic() + check_seconds("timeout_s", timeout_s)
        while True:
            wake = self._has_events  # first, as a thread may add events as soon as this has looked
            while self._may_give and (popped := self._pop(1 if self._makes_cursor else most)):
                if found := self._noted(popped):
                    return found
            if self._ended is not None:
                raise SessionEnded(self._ended.code, str(self._ended))
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"no event has arrived in {timeout_s:g} s")
            await self._wait(wake.wait, left)

    async def _wait(self, wait: object, left: float | None) -> None:
        """Wait for events, or until an archive should have answered."""
        assert callable(wait)
        self._check_place()
        refused_at = self._check_refusal()
        if refused_at is not None:
            left = refused_at if left is None else min(left, refused_at)
        if self._subscriber.live.is_on_line:
            for alone_since in (self._subscriber.alone_since, self._cursor_alone_since):
                if alone_since is not None:
                    patience = alone_since + FOUND_S - time.monotonic()
                    if patience <= 0:
                        raise _no_archive(self._subscriber.groups)
                    left = patience if left is None else min(left, patience)
        if left is None:
            await wait()
        else:
            await self._loop.timeout(left, wait)

    def _check_place(self) -> None:
        """Raise PlaceAhead if the place from which this goes on is ahead of the line."""
        ahead_of, place = self._subscriber.ahead_of, self._subscriber.position
        if ahead_of is not None and place is not None:
            cursor = None if self._cursor is None else self._cursor.name
            raise _place_ahead(self._subscriber.groups, place, ahead_of, cursor)

    def _check_refusal(self) -> float | None:
        """Raise AccessRefused if archives have refused, and none offers what comes next.

        Returns:
            The seconds after which to check again; None for never.
        """
        with self._lock:
            refused = self._refusal
            if self._subscriber.alone_since is None:
                refused = self._refusal = None
        if refused is None:
            return None
        left = refused[0] + FIND_S - time.monotonic()
        if left <= 0:
            raise refused[1].error
        return left

    def _pop(self, most: int) -> list[Given]:
        """Remove and return events, as many as there are up to a number."""
        with self._lock:
            waiting = self._subscriber.waiting
            was_full = waiting.is_full
            found = waiting.pop(most)
            if found and (not waiting or (was_full and not waiting.is_full)):
                self._subscriber.taken(time.monotonic())
                self._act()
        return found

    def _noted(self, found: list[Given]) -> list[Given]:
        """Note the progress of events; leave out a gap before the first one."""
        if _MARKS.isdisjoint(map(type, found)):  # quicker than a look at each
            self._progress.give_all(found)
            return found
        last = 0
        for at, event in enumerate(found):
            if isinstance(event, CaughtUp | Gap):
                if self._makes_cursor:
                    self._begin_cursor(event.upto if isinstance(event, Gap) else event.position)
                self._progress.give_all(found[last:at])
                last = at + 1
                if isinstance(event, Gap):
                    self._progress.complete(event.upto)
                else:
                    self._progress.complete(event.position)
        self._progress.give_all(found[last:])
        return [each for each in found if not (isinstance(each, Gap) and each.after is None)]

    # ---- the cursor ----

    async def acknowledge(self, position: Position | None = None, *, wait: bool = False) -> None:
        """Have the archives hold a place of the cursor, from which the next program goes on.

        It is sent while the program goes on; of several that wait to be sent the highest counts.
        The end of the block waits up to 2 s for the last one.

        Args:
            position: everything up to here was processed; `position` of this subscription if None.
            wait: return once the archives have it on their disks.

        Raises:
            LocalProtocolError: the subscription has no cursor, or has not given as much; the
                archives refuse it; somebody else has moved the cursor; no archive answers.
            SessionEnded: the session is over.
        """
        self._connection.protocol.check_own()
        if self._cursor is None:
            raise LocalProtocolError(
                "this subscription has no cursor: begin it with start=Cursor(name)"
            )
        place = self.position if position is None else position
        if place is None:
            return
        if not isinstance(place, Position):
            raise LocalProtocolError(f"{place!r} is no position: write that of an event")
        if self.position is None or place > self.position:
            raise LocalProtocolError(
                f"{place} cannot be acknowledged, as the subscription has not given as much yet"
            )
        self._check_cursor()
        with self._lock:
            if self._cursor.acknowledge(place, time.monotonic()):
                self._act()
        if wait:
            await self._until_acknowledged(self._cursor, place)

    async def _until_acknowledged(self, cursor: CursorClient, place: Position) -> None:
        while True:
            with self._lock:
                changed = self._has_deadline
                if cursor.has_acknowledged(place):
                    return
            self._check_cursor()
            if self._ended is not None:
                raise SessionEnded(self._ended.code, str(self._ended))
            await self._wait(changed.wait, None)

    async def flush(self) -> None:
        """Wait until the archives hold what was acknowledged, for 2 s at most."""
        cursor = self._cursor
        if cursor is not None and cursor.wanted is not None:
            with suppress(SessionEnded, LocalProtocolError):  # the next program repeats some events
                await self._loop.timeout(
                    GOODBYE_S, partial(self._until_acknowledged, cursor, cursor.wanted)
                )

    @property
    def _may_give(self) -> bool:
        """Return whether events may be given: not before the archives hold a new cursor.

        Otherwise a program that ends before its first acknowledgement could begin later the next
        time, and miss events.
        """
        cursor = self._cursor
        if cursor is None or cursor.position is not None:
            return True
        self._check_cursor()
        return self._makes_cursor

    def _begin_cursor(self, place: Position) -> None:
        assert self._cursor is not None
        self._makes_cursor = False
        with self._lock:
            self._cursor.acknowledge(place, time.monotonic())
            self._act()

    def _check_cursor(self) -> None:
        if self._cursor is not None and self._cursor.state is CursorState.REFUSED:
            raise LocalProtocolError(self._cursor.refusal)

    @property
    def _cursor_alone_since(self) -> float | None:
        return None if self._cursor is None else self._cursor.alone_since

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Given:
        try:
            return await self.receive()
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopAsyncIteration from None
            raise

    # ---- tasks ----

    async def run_receiver(self) -> None:
        """Pass the events of the session to the machine, until it ends."""
        try:
            while True:
                events = await self._connection.receive_batch()
                now = time.monotonic()
                with self._lock:
                    self._subscriber.handle_all(events, now)
                    self._note_frames(events, now)
                    self._act()
        except SessionEnded as error:
            with self._lock:
                self._ended = error
                self._notify()

    def _note_frames(self, events: Sequence[Received], now: float) -> None:
        """Note refusals of archives; pass on what is for the cursor."""
        for event in events:
            if type(event) is Message:
                if not event.data.startswith(HEAD):
                    continue
                if is_refusal(event.data, HEAD):
                    frame = decode_untrusted(event.data)
                    if isinstance(frame, Refusal):
                        self._refusal = now, frame
                        self._notify()
                elif self._cursor is not None:
                    self._cursor.handle(event, now)
            elif isinstance(event, Reconnected) and self._cursor is not None:
                self._cursor.handle(event, now)

    async def run_sender(self) -> None:
        """Send what the machine wants to send, in order."""
        with suppress(SessionEnded):  # the receiver reports the end
            while True:
                await self._has_outgoing.wait()
                self._has_outgoing = self._loop.event()
                while self._outgoing:
                    action = self._outgoing.popleft()
                    await self._connection.multicast(action.to, action.data, level=action.level)

    async def run_channels(self) -> None:
        """Read pieces by channels."""
        await self._channels.run()

    async def run_timer(self) -> None:
        """Wake the machine at its deadlines."""
        while self._ended is None:
            changed = self._has_deadline
            with self._lock:
                deadline = self._subscriber.deadline
                if self._cursor is not None and self._cursor.deadline is not None:
                    times = self._cursor.deadline, deadline
                    deadline = min(each for each in times if each is not None)
                self._wakes_at = inf if deadline is None else deadline
            if deadline is None:
                await changed.wait()
                continue
            left = deadline - time.monotonic()
            if left > 0 and await self._loop.timeout(left, changed.wait):
                continue
            with self._lock:
                self._subscriber.wake(time.monotonic())
                if self._cursor is not None:
                    self._cursor.wake(time.monotonic())
                self._act()

    def _act(self) -> None:
        """Carry out what the machine wants; the caller holds the lock."""
        subscriber = self._subscriber
        actions = subscriber.pop_actions()
        for action in actions:
            if isinstance(action, Send):
                self._outgoing.append(action)
            else:
                self._channels.do(action)
        if self._cursor is not None:
            self._outgoing += self._cursor.pop_actions()
        if self._outgoing:
            self._has_outgoing.set()
        deadline = subscriber.deadline
        if self._cursor is not None or (deadline is not None and deadline < self._wakes_at):
            changed, self._has_deadline = self._has_deadline, self._loop.event()
            changed.set()
        if subscriber.waiting or subscriber.ahead_of is not None:
            self._notify()

    def _notify(self) -> None:
        wake, self._has_events = self._has_events, self._loop.event()
        wake.set()


def _no_archive(groups: Sequence[str]) -> LocalProtocolError:
    return LocalProtocolError(
        f"no archive of {', '.join(groups)} has answered in {FOUND_S:g} s:"
        " start one with groupcomm history serve, or begin with LATEST"
    )


def _place_ahead(
    groups: Sequence[str], place: Position, line: Position, cursor: str | None
) -> PlaceAhead:
    of = "" if cursor is None else f"cursor {cursor}: "
    again = f"groupcomm history cursors move {cursor} earliest" if cursor else "EARLIEST"
    return PlaceAhead(
        f"{of}{format_position(place)} is ahead of the history of {', '.join(groups)}, which is at"
        f" {format_position(line)}: it is a place of another cluster, or of this one before the"
        f" state of its daemons was made anew; connect to the right one, or begin anew ({again})"
    )


def _start_of(start: Start | Position | datetime) -> Start | Position | int:
    return int(start.timestamp() * 1_000_000) if isinstance(start, datetime) else start


def _check_start(start: Begin) -> Start | Position | datetime | Cursor:
    """Return a start; raise LocalProtocolError if it is none."""
    begin = Cursor(start) if isinstance(start, str) else start
    first = begin.first if isinstance(begin, Cursor) else begin
    if not isinstance(first, Start | Position | datetime):
        raise LocalProtocolError(
            f"start is {first!r}; it must be EARLIEST, LATEST, a Position, a datetime or a Cursor"
        )
    return begin


async def _find_cursor(
    connection: BasicConnection, name: str, groups: tuple[str, ...]
) -> CursorClient:
    """Ask the archives where a cursor is; nothing else may receive meanwhile.

    Raises:
        LocalProtocolError: no archive answers, or they refuse the cursor.
        SessionEnded: the session is over.
    """
    now = time.monotonic()
    cursor = CursorClient(connection.member, name, groups, first_number(), now=now)
    while cursor.state is CursorState.FINDING:
        now = time.monotonic()
        if cursor.alone_since is not None and now >= cursor.alone_since + FOUND_S:
            raise _no_archive(groups)
        for action in cursor.pop_actions():
            await connection.multicast(action.to, action.data, level=action.level)
        left = max(0.0, (cursor.deadline or now) - now)
        with suppress(TimeoutError):
            for event in await connection.receive_batch(left):
                cursor.handle(event, time.monotonic())
        cursor.wake(time.monotonic())
    if cursor.state is CursorState.REFUSED:
        raise LocalProtocolError(cursor.refusal)
    return cursor


@asynccontextmanager
async def subscribe(
    connection: BasicConnection,
    groups: str | Sequence[str],
    start: Begin,
    *,
    stable: bool,
    compacted: bool = False,
    gap_wait_s: float = GAP_WAIT_S,
    queue_bytes: int = QUEUE_BYTES,
) -> AsyncIterator[Subscription]:
    """Subscribe for the length of a block; see `Connection.subscribe`."""
    connection.protocol.check_own()
    names = check_names(groups)
    if not names:
        raise LocalProtocolError("there is no group to subscribe to; name one")
    if compacted and len(names) > 1:
        raise LocalProtocolError(
            "archives compact each group by itself: subscribe with compacted=True to one group"
        )
    if check_seconds("gap_wait_s", gap_wait_s) == inf or gap_wait_s < 0:
        raise LocalProtocolError(f"gap_wait_s is {gap_wait_s}; it must be 0 or more seconds")
    check_count("queue_bytes", queue_bytes)
    begin, cursor = _check_start(start), None
    if isinstance(begin, Cursor):
        cursor = await _find_cursor(connection, begin.name, names)
        begin = cursor.position or begin.first
    subscription = Subscription(
        *(connection, names, begin),
        stable=stable,
        cursor=cursor,
        compacted=compacted,
        gap_wait_s=gap_wait_s,
        queue_bytes=queue_bytes,
    )
    async with connection.loop.tasks() as tasks:
        tasks.start(subscription.run_receiver)
        tasks.start(subscription.run_sender)
        tasks.start(subscription.run_timer)
        tasks.start(subscription.run_channels)
        joined: list[str] = []
        try:
            for name in names:
                await connection.join(name)
                joined.append(name)
            yield subscription
            await subscription.flush()
        finally:
            await connection.part(partial(_leave_all, connection, joined))


async def _leave_all(connection: BasicConnection, groups: list[str]) -> None:
    """Leave these groups; after the end of the session the program is in none."""
    for name in groups:
        with suppress(SessionEnded, LocalProtocolError):
            await connection.leave(name)
