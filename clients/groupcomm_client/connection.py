"""A program's connection to its daemon, with trio.

No task of its own runs behind a connection: whoever waits for something reads the socket, for
itself and for all others that wait. So a cancelled call loses nothing, and while nobody waits
nothing is read, and the daemon keeps what comes.
"""

import socket
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal, Self, overload

import trio

from groupcomm.errors import OrderUnknown, SessionEnded
from groupcomm.events import (
    Closed,
    Connected,
    DaemonView,
    Event,
    GroupView,
    MemberId,
    Message,
    Ordered,
    Transition,
    Undeliverable,
)
from groupcomm.level import ServiceLevel
from groupcomm.session.client import ClientSession, State
from groupcomm.session.codes import Code

READ_BYTES: Final = 65_536
WRITE_BYTES: Final = 256 * 1024
GOODBYE_S: Final = 2.0
"""How long the end of a connection waits for the daemon's answer."""

TURNS: Final = 64
"""After so many calls that had nothing to wait for, other tasks get their turn."""

Received = Message | GroupView | Undeliverable | Transition | DaemonView
"""What `receive` and iteration give."""


class Connection:
    """One session; made by `connect`.

    Attributes:
        member: the identity of this session.
        view: the daemons' view that the events given last belong to.
    """

    def __init__(self, socket_: socket.socket, session: ClientSession) -> None:
        """Take over a connected non-blocking socket; the session has not been greeted yet."""
        self._socket = socket_
        self._session = session
        self._unsent = memoryview(b"")
        self._events: deque[Received] = deque()
        self._groups: dict[str, GroupView] = {}
        self._orders: dict[int, Ordered | None] = {}
        self._closed: Closed | None = None
        self._reading = self._writing = False
        self._readers, self._writers = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()
        self._calls = 0
        self.member: MemberId = MemberId("", 0)
        self.view: DaemonView | None = None

    def __repr__(self) -> str:
        return f"<groupcomm connection {self.member.name or 'not admitted yet'}>"

    @property
    def name(self) -> str:
        """The private name, under which others reach this session: ``#user#daemon``."""
        return self.member.name

    @property
    def groups(self) -> dict[str, GroupView]:
        """The latest views of the groups that this session is a member of, by name."""
        return dict(self._groups)

    async def greet(self) -> None:
        """Say hello, and wait until the daemon admits this session.

        Raises:
            SessionEnded: it does not.
        """
        await self._flush()
        await self._until(lambda: self._session.state is State.OPEN)

    # ---- groups ----

    async def join(self, group: str) -> GroupView:
        """Become a member; return the first view, which also comes as an event.

        Raises:
            LocalProtocolError: a bad name, or it has joined already.
            SessionEnded: the session is over.
        """
        self._check_open()
        self._session.join(group)
        await self._flush()
        await self._until(lambda: group in self._groups)
        return self._groups[group]

    async def leave(self, group: str) -> None:
        """Be a member no longer; what was delivered before still comes as events.

        Raises:
            LocalProtocolError: it has not joined.
            SessionEnded: the session is over.
        """
        self._check_open()
        self._session.leave(group)
        await self._flush()
        await self._until(lambda: group not in self._groups)

    @asynccontextmanager
    async def group(self, name: str) -> AsyncIterator[GroupView]:
        """Be a member of a group for the length of a block; gives the first view."""
        view = await self.join(name)
        try:
            yield view
        finally:
            if self._closed is None:
                with trio.move_on_after(GOODBYE_S, shield=True):
                    await self.leave(name)

    # ---- messages ----

    @overload
    async def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel = ...,
        type: int = ...,
        self_discard: bool = ...,
        ordered: Literal[False] = ...,
    ) -> None: ...

    @overload
    async def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel = ...,
        type: int = ...,
        self_discard: bool = ...,
        ordered: Literal[True],
    ) -> Ordered: ...

    async def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
        ordered: bool = False,
    ) -> Ordered | None:
        """Send a message; it waits while the daemon takes no more.

        Args:
            groups: the destination, or up to 255 of them: groups and private names.
            data: up to 64 MiB.
            level: what it is promised.
            type: a tag for the receivers, 0 to 65,535.
            self_discard: the sender does not get it, member or not.
            ordered: wait for its place in the agreed order and return it; AGREED and SAFE only.

        Raises:
            LocalProtocolError: an argument is out of its range; nothing was sent.
            SessionEnded: the session is over.
            OrderUnknown: it ended before the place was known: the message may have been
                delivered, or not.
        """
        await self._admit()
        number = self._session.multicast(
            groups, data, level=level, type=type, self_discard=self_discard, ordered=ordered
        )
        if not ordered:
            await self._flush()
            return None
        return await self._order(number)

    async def multicast_many(
        self,
        groups: str | Sequence[str],
        messages: Iterable[bytes],
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> int:
        """Send many messages, several in one packet where they are small; return how many.

        When it is cancelled or fails, the messages taken so far are sent, and no others.
        """
        count = 0
        for data in messages:
            if not self._session.writable:
                await self._flush()
            await self._admit(flush=False)
            self._session.multicast(groups, data, level=level, type=type, self_discard=self_discard)
            count += 1
        await self._flush()
        return count

    async def _order(self, number: int) -> Ordered:
        self._orders[number] = None
        try:
            await self._flush()
            await self._until(lambda: self._orders[number] is not None)
        except SessionEnded as error:
            raise OrderUnknown(error.code, f"the order of a message is unknown: {error}") from None
        finally:
            found = self._orders.pop(number)
        assert found is not None
        return found

    # ---- events ----

    async def receive(self) -> Received:
        """The next event.

        Raises:
            SessionEnded: nothing follows; its code is 0 after an orderly end.
        """
        if not self._events:
            await self._until(lambda: bool(self._events))
        return self._take()

    async def receive_batch(self) -> list[Received]:
        """All events that are there, at least one; cheaper than one by one.

        Raises:
            SessionEnded: nothing follows.
        """
        if not self._events:
            await self._until(lambda: bool(self._events))
        return [self._take() for _ in range(len(self._events))]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received:
        await self._admit_turn()
        try:
            return await self.receive()
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopAsyncIteration from None
            raise

    def _take(self) -> Received:
        event = self._events.popleft()
        if type(event) is DaemonView:
            self.view = event
        return event

    # ---- the end ----

    async def aclose(self) -> None:
        """Say goodbye, wait a little for the daemon's answer, close the socket."""
        if self._closed is None and self._session.state is not State.CLOSED:
            self._session.close()
            with trio.move_on_after(GOODBYE_S, shield=True):
                try:
                    await self._flush()
                    await self._until(lambda: False)
                except SessionEnded:
                    pass  # which is what was asked for
        self.close_socket()

    def close_socket(self) -> None:
        """Break the connection off; what was not written yet is lost."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise SessionEnded(self._closed.code, self._closed.reason)

    # ---- bytes ----

    async def _admit_turn(self) -> None:
        """Let others run now and then, though there is nothing to wait for."""
        self._calls += 1
        if self._calls % TURNS == 0:
            await trio.lowlevel.checkpoint()

    async def _admit(self, *, flush: bool = True) -> None:
        """Before a message: the session is open, others get their turn, the daemon takes more."""
        await self._admit_turn()
        self._check_open()
        while flush and not self._session.writable:
            await self._flush()

    async def _until(self, ready: Callable[[], bool]) -> None:
        """Read until something is so, for all who wait; raises SessionEnded if nothing follows."""
        while not ready():
            if self._closed is not None:
                raise SessionEnded(self._closed.code, self._closed.reason)
            if self._reading:
                await self._readers.park()
                continue
            self._reading = True
            try:
                await trio.lowlevel.wait_readable(self._socket)
                self._read()
            finally:
                self._reading = False
                self._readers.unpark_all()

    def _read(self) -> None:
        """Take what has come; never waits."""
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        events = self._session.receive(data) if data else self._session.connection_lost()
        for event in events:
            self._dispatch(event)

    def _dispatch(self, event: Event) -> None:
        match event:
            case Message():
                self._events.append(event)
            case Connected():
                self.member = event.member
            case Ordered():
                if event.number in self._orders:  # else its sender was cancelled
                    self._orders[event.number] = event
            case Closed():
                self._closed = event
            case GroupView():
                if self.member in event.members:
                    self._groups[event.group] = event
                else:
                    self._groups.pop(event.group, None)
                self._events.append(event)
            case _:
                self._events.append(event)

    async def _flush(self) -> None:
        """Write all that waits."""
        while not self._write():
            if self._writing:
                await self._writers.park()
                continue
            self._writing = True
            try:
                await trio.lowlevel.wait_writable(self._socket)
            finally:
                self._writing = False
                self._writers.unpark_all()

    def _write(self) -> bool:
        """Write what the socket takes; whether nothing is left."""
        try:
            while True:
                if not self._unsent:
                    if not self._session.pending_bytes:
                        return True
                    self._unsent = memoryview(self._session.take(WRITE_BYTES))
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return False
        except OSError:
            return True  # reading tells why, behind all that the daemon has still said
