"""A subscription on a connection of any kind: it moves events between the session and the machine.

Four tasks run while it lasts: one receives, one sends, one reads what archives send by channels,
and one lets time pass. So a program that is slow does not let events wait at its daemon.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Final, Self, TypeAlias

from groupcomm.clocks.stamp import Position
from groupcomm.errors import Code, LocalProtocolError, SessionEnded
from groupcomm_client.connection import GOODBYE_S, Connection
from groupcomm_client.history.channel_reader import ChannelReader
from groupcomm_client.history.places import Progress
from groupcomm_client.history.subscriber import (
    READ_AHEAD,
    CaughtUp,
    Gap,
    Given,
    Send,
    Start,
    Subscriber,
)

FOUND_S: Final = 30.0
"""The time in which an archive must answer a subscription that needs one."""

_BATCH: Final = 10_000
"""The most events of a batch."""

Begin: TypeAlias = Start | Position | datetime
"""Where a subscription begins."""


class Subscription:
    """Events of groups, from any position on; made by `Connection.subscribe`."""

    def __init__(
        self, connection: Connection, groups: Sequence[str], start: Begin, *, stable: bool
    ) -> None:
        """Prepare a subscription; see `subscribe`."""
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
        )
        self._channels = ChannelReader(self._loop, self._lock, self._subscriber, self._act)
        self._progress = Progress(start if isinstance(start, Position) else None)
        self._ended: SessionEnded | None = None
        self._outgoing: deque[Send] = deque()
        self._has_outgoing = self._loop.event()
        self._has_events = self._loop.event()
        self._has_deadline = self._loop.event()
        self._received = 0

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

    async def receive(self, timeout_s: float | None = None) -> Given:
        """Return the next event: a message, a view, `CaughtUp` or `Gap`.

        Args:
            timeout_s: the longest wait in seconds; None for no limit.

        Raises:
            TimeoutError: no event has arrived in time.
            LocalProtocolError: no archive has answered, and only one can have what comes next.
            SessionEnded: the session is over, and no event is left.
        """
        return (await self._receive(1, timeout_s))[0]

    async def receive_batch(self, timeout_s: float | None = None) -> list[Given]:
        """Return all events that have come, at least one; see `receive`."""
        return await self._receive(_BATCH, timeout_s)

    async def _receive(self, most: int, timeout_s: float | None) -> list[Given]:
        self._received += 1
        if not self._received % 64:
            await self._loop.checkpoint()
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            wake = self._has_events  # first, as a thread may add events as soon as this has looked
            while popped := self._pop(most):
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
        subscriber = self._subscriber
        alone_since = subscriber.alone_since
        if alone_since is not None and subscriber.live.is_on_line:
            patience = alone_since + FOUND_S - time.monotonic()
            if patience <= 0:
                raise LocalProtocolError(
                    f"no archive of {', '.join(subscriber.groups)} has answered in {FOUND_S:g} s:"
                    " start one with groupcomm history serve, or begin with LATEST"
                )
            left = patience if left is None else min(left, patience)
        if left is None:
            await wait()
        else:
            await self._loop.timeout(left, wait)

    def _pop(self, most: int) -> list[Given]:
        """Remove and return events, as many as there are up to a number."""
        found: list[Given] = []
        with self._lock:
            waiting = self._subscriber.waiting
            before = len(waiting)
            if before <= most:
                found += waiting
                waiting.clear()
            else:
                found += [waiting.popleft() for _ in range(most)]
            if found and (not waiting or before > READ_AHEAD >= len(waiting)):
                self._subscriber.taken(time.monotonic())
                self._act()
        return found

    def _noted(self, found: list[Given]) -> list[Given]:
        """Note the progress of events; leave out a gap before the first one."""
        last = 0
        for at, event in enumerate(found):
            if isinstance(event, CaughtUp | Gap):
                self._progress.give_all(found[last:at])
                last = at + 1
                if isinstance(event, Gap):
                    self._progress.complete(event.upto)
                else:
                    self._progress.complete(event.position)
        self._progress.give_all(found[last:])
        return [each for each in found if not (isinstance(each, Gap) and each.after is None)]

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
                    self._act()
        except SessionEnded as error:
            with self._lock:
                self._ended = error
                self._notify()

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
            if deadline is None:
                await changed.wait()
                continue
            left = deadline - time.monotonic()
            if left > 0 and await self._loop.timeout(left, changed.wait):
                continue
            with self._lock:
                self._subscriber.wake(time.monotonic())
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
        if self._outgoing:
            self._has_outgoing.set()
        changed, self._has_deadline = self._has_deadline, self._loop.event()
        changed.set()
        if subscriber.waiting:
            self._notify()

    def _notify(self) -> None:
        wake, self._has_events = self._has_events, self._loop.event()
        wake.set()


def _start_of(start: Begin) -> Start | Position | int:
    if isinstance(start, datetime):
        return int(start.timestamp() * 1_000_000)
    if isinstance(start, Start | Position):
        return start
    raise LocalProtocolError(
        f"start is {start!r}; it must be EARLIEST, LATEST, a Position or a datetime"
    )


@asynccontextmanager
async def subscribe(
    connection: Connection, groups: str | Sequence[str], start: Begin, *, stable: bool
) -> AsyncIterator[Subscription]:
    """Subscribe for the length of a block; see `Connection.subscribe`."""
    names = (groups,) if isinstance(groups, str) else tuple(groups)
    if not names:
        raise LocalProtocolError("there is no group to subscribe to; name one")
    subscription = Subscription(connection, names, start, stable=stable)
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
        finally:
            for name in joined:
                with suppress(SessionEnded, LocalProtocolError):
                    await connection.loop.shielded(GOODBYE_S, partial(connection.leave, name))
