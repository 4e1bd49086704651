"""A program's connection to its daemon, with trio.

Every call is safe to cancel: what has come is kept for the next one (see `stream.py`).
"""

import json
import socket
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, Self, overload

import trio

from groupcomm.errors import OrderUnknown, SessionEnded
from groupcomm.events import (
    Answer,
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
from groupcomm.trace.session import SessionTrace
from groupcomm_client.stream import SessionStream
from groupcommd.trace_file import now_us, trace_session

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

    def __init__(
        self, socket_: socket.socket, session: ClientSession, trace: Path | None = None
    ) -> None:
        """Take over a connected non-blocking socket; the session has not been greeted yet.

        Args:
            socket_, session: see above.
            trace: the folder for a trace of the session; None for no trace.
        """
        self._session = session
        self._stream = SessionStream(socket_, session, self._dispatch)
        self._events: deque[Received] = deque()
        self._groups: dict[str, GroupView] = {}
        self._orders: dict[int, Ordered | None] = {}
        self._answers: dict[int, bytes | None] = {}
        self._asked = self._answered = 0
        self._calls = 0
        self._trace_folder = trace
        self._trace: SessionTrace | None = None  # begins once the session has its identity
        self._greeted = 0
        self._last_sent = self._seen_back = 0
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
        self._greeted = now_us()
        await self._stream.exchange(lambda: self._session.state is State.OPEN)

    # ---- groups ----

    async def join(self, group: str) -> GroupView:
        """Become a member; return the first view, which also comes as an event.

        Raises:
            LocalProtocolError: a bad name, or it has joined already.
            SessionEnded: the session is over.
        """
        self._stream.check_open()
        number = self._session.join(group)
        if self._trace is not None:
            self._trace.asked("join", group, number)
        await self._stream.exchange(lambda: group in self._groups)
        self._seen_back = max(self._seen_back, number)
        return self._groups[group]

    async def leave(self, group: str) -> None:
        """Be a member no longer; what was delivered before still comes as events.

        Raises:
            LocalProtocolError: it has not joined.
            SessionEnded: the session is over.
        """
        self._stream.check_open()
        number = self._session.leave(group)
        if self._trace is not None:
            self._trace.asked("leave", group, number)
        await self._stream.exchange(lambda: group not in self._groups)

    @asynccontextmanager
    async def group(self, name: str) -> AsyncIterator[GroupView]:
        """Be a member of a group for the length of a block; gives the first view."""
        view = await self.join(name)
        try:
            yield view
        finally:
            if self._stream.closed is None:
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

    @overload
    async def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel = ...,
        type: int = ...,
        self_discard: bool = ...,
        ordered: bool,
    ) -> Ordered | None: ...

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
        number = self._send(groups, data, level, type, self_discard, ordered)
        if not ordered:
            await self._stream.flush()
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
            await self._admit()
            self._send(groups, data, level, type, self_discard, False)
            count += 1
        await self._stream.flush()
        return count

    def _send(
        self,
        groups: str | Sequence[str],
        data: bytes,
        level: ServiceLevel,
        type: int,
        self_discard: bool,
        ordered: bool,
    ) -> int:
        number = self._session.multicast(
            groups, data, level=level, type=type, self_discard=self_discard, ordered=ordered
        )
        self._last_sent = number
        if self._trace is not None:
            to = (groups,) if isinstance(groups, str) else groups
            self._trace.sent(number, level, to, type, data, discard=self_discard, ordered=ordered)
        return number

    async def _order(self, number: int) -> Ordered:
        self._orders[number] = None
        try:
            await self._stream.exchange(lambda: self._orders[number] is not None)
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
            await self._stream.until(lambda: bool(self._events))
        return self._take()

    async def receive_batch(self) -> list[Received]:
        """All events that are there, at least one; cheaper than one by one.

        Raises:
            SessionEnded: nothing follows.
        """
        if not self._events:
            await self._stream.until(lambda: bool(self._events))
        return self.take_waiting()

    def take_waiting(self) -> list[Received]:
        """The events that have been read and not been taken, without waiting for any."""
        return [self._take() for _ in range(len(self._events))]

    @property
    def in_doubt(self) -> int:
        """At most so many of the messages sent last may never have reached the daemon.

        It is shown to have taken those before by giving one back, or its place in the order.
        """
        return self._last_sent - self._seen_back

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

    async def ask(self, question: str) -> dict[str, Any]:
        """Ask the daemon about itself: ``status``, ``groups`` or ``members GROUP``.

        Raises:
            SessionEnded: the session is over.
        """
        self._stream.check_open()
        self._session.ask(question)
        self._asked += 1
        mine = self._asked
        self._answers[mine] = None
        try:
            await self._stream.exchange(lambda: self._answers[mine] is not None)
        finally:
            data = self._answers.pop(mine)
        assert data is not None
        found: dict[str, Any] = json.loads(data)
        return found

    # ---- the end ----

    async def aclose(self) -> None:
        """Say goodbye, wait a little for the daemon's answer, close the socket."""
        if self._stream.closed is None and self._session.state is not State.CLOSED:
            self._session.close()
            if self._trace is not None:
                self._trace.asked("disconnect")
            # That the session ends is what is asked for.
            with trio.move_on_after(GOODBYE_S, shield=True), suppress(SessionEnded):
                await self._stream.exchange(lambda: False)
        self.close_socket()

    def close_socket(self) -> None:
        """Break the connection off; what was not written yet is lost."""
        self._stream.close()
        if self._trace is not None and self._stream.trace is not None:
            if self._stream.closed is None and self._session.state is not State.CLOSED:
                self._trace.asked("crash")
            self._stream.trace.close()

    # ---- inside ----

    async def _admit_turn(self) -> None:
        """Let others run now and then, though there is nothing to wait for."""
        self._calls += 1
        if self._calls % TURNS == 0:
            await trio.lowlevel.checkpoint()

    async def _admit(self) -> None:
        """Before a message: the session is open, others get their turn, the daemon takes more."""
        await self._admit_turn()
        self._stream.check_open()
        while not self._session.writable:
            await self._stream.flush()

    def _dispatch(self, event: Event) -> None:
        if self._trace is not None:
            self._trace.told(event)
        match event:
            case Connected():
                self._admitted(event.member)
            case Ordered():
                self._seen_back = max(self._seen_back, event.number)
                if event.number in self._orders:  # else its sender was cancelled
                    self._orders[event.number] = event
            case Answer():
                self._answered += 1
                if self._answered in self._answers:  # else who asked was cancelled
                    self._answers[self._answered] = event.data
            case Message() | GroupView() | Undeliverable() | Transition() | DaemonView():
                self._note(event)
                self._events.append(event)

    def _admitted(self, member: MemberId) -> None:
        self.member = member
        if self._trace_folder is not None:
            begun = trace_session(self._trace_folder, str(member), self._greeted)
            self._stream.trace, self._trace = begun

    def _note(self, event: Received) -> None:
        """Keep what an event says about this session itself."""
        if type(event) is Message:
            if event.sender == self.member:
                self._seen_back = max(self._seen_back, event.number)
        elif type(event) is GroupView:
            if self.member in event.members:
                self._groups[event.group] = event
            else:
                self._groups.pop(event.group, None)
