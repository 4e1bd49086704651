"""The calls of a connection that need nothing but its session: groups, messages, events, the end.

They are the same for trio, asyncio and threads. `Connection` (connection.py) has those, too, that
stand on these.

Every call is safe to cancel: input that has arrived is kept for the next call.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

import attrs

from groupcomm.errors import Code, LocalProtocolError, OrderUnknown, SessionEnded
from groupcomm.events import DaemonView, GroupView, MemberId, Message, Ordered
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.session.bundler import PART_BYTES, in_parts
from groupcomm.session.client_session import Minority
from groupcomm_client.arguments import check_seconds
from groupcomm_client.byte_stream import Stream
from groupcomm_client.client_protocol import MOST_UNREAD, ClientProtocol
from groupcomm_client.events import Received
from groupcomm_client.filters.factories import Factory
from groupcomm_client.filters.roles import Outgoing
from groupcomm_client.loops import Loop, Step
from groupcomm_client.requests import read_answer

if TYPE_CHECKING:
    from groupcomm_client.end_to_end.credentials import GroupSecret

GOODBYE_S: Final = 2.0
"""The time for which the end of a connection, with all blocks in it, waits for a daemon that says
nothing."""

TURNS: Final = 64
"""After this number of calls that had nothing to wait for, other tasks get their turn."""

SMALL_BYTES: Final = 32_768
"""With less to write, calls of one task that follow each other at once share a write: a bundle
costs daemons as much with five messages as with five hundred."""

Destinations: TypeAlias = str | MemberId | Sequence[str | MemberId]
"""Groups, private names, and members, which stand for their private names."""

_Found = TypeVar("_Found")

_BYTES: Final = (bytes, bytearray, memoryview)


@attrs.frozen(eq=False)
class Session:
    """One session: its protocol, and the stream that moves its bytes."""

    protocol: ClientProtocol
    stream: Stream


class BasicConnection:
    """A connection with the calls that need only its session; see `Connection`.

    Attributes:
        loop: the event loop of its program.
    """

    def __init__(self, session: Session, loop: Loop) -> None:
        """Take over a session in which nothing has been sent yet."""
        self.loop = loop
        self._session = session
        self._calls = 0
        self._silent_at = -1  # the inputs of the session when a wait for an answer was in vain

    def __repr__(self) -> str:
        return f"<groupcomm connection {self.name or 'not admitted yet'}>"

    # ---- state ----

    @property
    def protocol(self) -> ClientProtocol:
        """Return the client's side of the session."""
        return self._session.protocol

    @property
    def member(self) -> MemberId:
        """Return the identity of this session; between two sessions, that of the last one."""
        return self._session.protocol.member

    @property
    def name(self) -> str:
        """Return the private name, under which others reach this session: ``#user#daemon``."""
        return self.member.name

    @property
    def view(self) -> DaemonView | None:
        """Return the view of daemons to which the latest received events belong."""
        return self._session.protocol.view

    @property
    def groups(self) -> dict[str, GroupView]:
        """Return the latest view of each group that this session is a member of, by name."""
        return dict(self._session.protocol.groups)

    @property
    def in_doubt(self) -> int:
        """Return the most messages, of those sent last, that may never have reached the daemon."""
        return self._session.protocol.in_doubt

    # ---- sessions, for coordination ----

    def present_session(self) -> "BasicConnection":
        """Return a connection that is over when the present session is."""
        return self

    async def next_session(self, ended: "BasicConnection", why: SessionEnded) -> "BasicConnection":
        """Return the connection of the session after one that has ended; raise `why` if there is
        none."""
        raise why

    async def receive_of(
        self, session: "BasicConnection", may_move: Callable[[], bool]
    ) -> list[Received]:
        """Return the events of one session that have come, at least one.

        Args:
            session: the connection of that session.
            may_move: returns whether a session may be left whose daemon is about to stop.

        Raises:
            SessionEnded: that session is over.
        """
        return await session.receive_batch()

    def read_ready(self) -> None:
        """Read what has arrived, without waiting, unless much was not received yet."""
        if len(self._session.protocol.events) < MOST_UNREAD:
            self._session.stream.read_ready()

    # ---- groups ----

    async def greet(self) -> None:
        """Say hello, and wait until the daemon admits this session.

        Raises:
            SessionEnded: the daemon does not admit it.
        """
        session = self._session
        await session.stream.exchange(session.protocol.greet())

    async def join(
        self,
        group: str,
        *,
        secret: "GroupSecret | None" = None,
        views: bool = True,
        minority: Minority = "deliver",
    ) -> GroupView:
        """Become a member; return the first view, which is received as an event, too.

        Args:
            group: the name of the group.
            secret: a secret that all members join with, so that they read messages which no daemon
                can read. See docs/end-to-end.md.
            views: False to read the group: its messages are received, its views are not, and no
                member gets a view of this session. The returned view has only the session itself.
            minority: what happens while the daemon's view has no quorum (`DaemonView.majority` is
                False). "deliver": nothing special. "pause": no AGREED or SAFE message to the group
                is ordered there, not for any member; what is sent waits with all that its sender
                sends later, and so does this call. "leave": the same, and the session is taken out
                of the group, as a view and a `Refused` say. See docs/minority.md.

        Raises:
            LocalProtocolError: the name is invalid, or the session has joined the group already; or
                some daemon of the view is of a release that does not know `minority`.
            AccessRefused: the rules of the daemon, or a quota, do not allow it.
            SessionEnded: the session is over.
        """
        session = self._session
        answer = session.protocol.join(group, secret, views=views, minority=minority)
        await session.stream.exchange(answer.is_there)
        return answer.result()

    async def leave(self, group: str) -> None:
        """End the membership; messages that were delivered before are still received.

        Raises:
            LocalProtocolError: the session has not joined the group.
            SessionEnded: the session is over.
        """
        session = self._session
        await session.stream.exchange(session.protocol.leave(group).is_there)

    async def request_membership(self, group: str, *, join: bool) -> None:
        """Ask to join or to leave without waiting; asking twice does nothing.

        Raises:
            LocalProtocolError: the name is invalid.
            SessionEnded: the session is over.
        """
        session = self._session
        session.protocol.request_membership(group, join=join)
        await session.stream.flush()

    @asynccontextmanager
    async def group(
        self,
        name: str,
        *,
        secret: "GroupSecret | None" = None,
        views: bool = True,
        minority: Minority = "deliver",
    ) -> AsyncIterator[GroupView]:
        """Be a member of a group for the length of a block; yield the first view."""
        view = await self.join(name, secret=secret, views=views, minority=minority)
        try:
            yield view
        finally:
            # After the end of the session, or after a change of the rules, the program is no
            # member.
            with suppress(SessionEnded, LocalProtocolError):
                await self.part(lambda: self.leave(name))

    async def rekey(self, group: str) -> None:
        """Have the members of a group with a secret change its key; return once it is in use.

        Raises:
            LocalProtocolError: the group was not joined with a secret.
            SessionEnded: the session is over.
        """
        session = self._session
        await session.stream.exchange(session.protocol.rekey(group))

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """Use other filters from the next view on that the session receives.

        The earlier filters undo messages that others still send through them; see docs/filters.md.

        Raises:
            LocalProtocolError: a name is invalid, or occurs twice.
            ConfigError: one is no factory of a filter.
            SessionEnded: the session is over.
            Exception: that of a factory; the filters stay as they were.
        """
        self._session.protocol.set_filters(filters)

    # ---- messages ----

    async def multicast(
        self,
        groups: Destinations,
        data: bytes,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> None:
        """Send a message; wait while the daemon accepts no more, or the group has no key.

        A message is written at once. Messages that this task sends right after it, before it waits
        for something, are written together.

        Args:
            groups: the destination, or up to 255 of them: groups, private names and members.
            data: up to 64 MiB.
            level: the service level, which decides about order and losses.
            type: a tag for the receivers, 0 to 65,535.
            self_discard: whether the sender does not receive the message even as a member.

        Raises:
            LocalProtocolError: an argument cannot be sent; nothing was sent.
            SessionEnded: the session is over.
        """
        session = self._session
        protocol = session.protocol
        names = (groups,) if isinstance(groups, str) else names_of(groups)
        self._calls += 1
        if not self._calls % TURNS or not protocol.is_plain or protocol.pending_bytes >= PART_BYTES:
            await self._until_it_may_go(session, names)
        try:
            protocol.send(
                Outgoing(groups=names, data=data, level=level, type=type, self_discard=self_discard)
            )
        except TypeError as error:
            raise bad_argument(error, data, level, type) from error
        if protocol.pending_bytes < PART_BYTES:
            session.stream.write_soon()
        else:
            await session.stream.flush()

    async def multicast_ordered(
        self,
        groups: Destinations,
        data: bytes,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> Ordered:
        """Send a message; wait for its place in the agreed order, and return it.

        Args:
            groups, data, type, self_discard: see `multicast`.
            level: AGREED or SAFE.

        Raises:
            LocalProtocolError: an argument cannot be sent; nothing was sent.
            SessionEnded: the session is over.
            OrderUnknown: the session ended before the place was known: the message may have been
                delivered, or not.
            AccessRefused: the rules of the daemon do not allow it.
        """
        session = self._session
        protocol = session.protocol
        names = (groups,) if isinstance(groups, str) else names_of(groups)
        self._calls += 1
        await self._until_it_may_go(session, names)
        try:
            order = protocol.send_ordered(
                Outgoing(
                    groups=names,
                    data=data,
                    level=level,
                    type=type,
                    self_discard=self_discard,
                    ordered=True,
                )
            )
        except TypeError as error:
            raise bad_argument(error, data, level, type) from error
        try:
            await session.stream.exchange(order.is_there)
            return order.result()
        except SessionEnded as error:
            text = f"the order of a message is unknown: {error}"
            raise OrderUnknown(error.code, text, order.number) from None
        finally:
            protocol.forget_order(order)

    async def multicast_many(
        self,
        groups: Destinations,
        messages: Iterable[bytes],
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> int:
        """Send many messages, small ones packed together; return their number.

        They are written at once; a few that follow a write closely leave together with what this
        task sends before it waits for something, as with `multicast`. If the call is cancelled or
        fails, the messages accepted so far are sent, and no others.

        Args:
            groups, level, type, self_discard: see `multicast`.
            messages: the data of each.

        Raises:
            LocalProtocolError: an argument cannot be sent.
            SessionEnded: the session is over.
        """
        session = self._session
        names = (groups,) if isinstance(groups, str) else names_of(groups)
        alike = Outgoing(groups=names, data=b"", level=level, type=type, self_discard=self_discard)
        self._calls += 1
        await self._until_it_may_go(session, names)
        count = 0
        try:
            for part in in_parts(messages):
                if count:
                    await session.stream.flush()
                    await self.loop.checkpoint()
                    await self._until_key(session, names)
                try:
                    session.protocol.send_many(alike, part)
                except TypeError as error:
                    wrong = next((data for data in part if not isinstance(data, _BYTES)), b"")
                    raise bad_argument(error, wrong, level, type) from error
                count += len(part)
        finally:
            if session.protocol.pending_bytes < SMALL_BYTES:
                session.stream.write_soon()
            else:
                await session.stream.flush()
        return count

    async def flush(self) -> None:
        """Wait until the daemon has accepted all that was sent: no crash of it can lose that.

        Raises:
            SessionEnded: the session is over.
        """
        self.protocol.check_own()
        session, line = self._session, self._session.protocol.line

        def is_accepted() -> bool:
            return not session.protocol.in_doubt if line is None else line.note_answers()

        await session.stream.exchange(is_accepted)

    # ---- events ----

    async def receive(self, timeout_s: float | None = None) -> Received:
        """Return the next event.

        Args:
            timeout_s: the longest wait in seconds, 0 for less; None for no limit.

        Raises:
            TimeoutError: no event has arrived in time.
            LocalProtocolError: `timeout_s` is no number.
            SessionEnded: no event follows; its code is 0 after an orderly end.
        """
        if timeout_s is not None:
            return await self.in_time(timeout_s, self.receive)
        session = self._session
        while True:
            event = session.protocol.pop_event()
            if event is not None:
                return event
            await session.stream.until(session.protocol.has_events)

    async def receive_batch(self, timeout_s: float | None = None) -> list[Received]:
        """Return all events that have come, at least one; cheaper than one call for each.

        Args:
            timeout_s: the longest wait for the first event, in seconds; None for no limit.

        Raises:
            TimeoutError: no event has arrived in time.
            SessionEnded: no event follows.
        """
        if timeout_s is not None:
            return await self.in_time(timeout_s, self.receive_batch)
        session = self._session
        while True:
            await session.stream.until(session.protocol.has_events)
            events = session.protocol.pop_events()
            if events:  # otherwise another thread has received them
                return events

    def pop_waiting(self) -> list[Received]:
        """Return the events that were read and not received yet, without waiting."""
        return self._session.protocol.pop_events()

    async def in_time(
        self, seconds: float, call: Callable[[], Coroutine[Any, Any, _Found]]
    ) -> _Found:
        """Make a call that receives; raise TimeoutError if it takes longer than `seconds`."""
        seconds = check_seconds("timeout_s", seconds)
        self.protocol.check_own()
        if not self._session.protocol.has_events():
            self._session.stream.read_ready()  # with a timeout of 0, events that wait still count
        found: list[_Found] = []

        async def receive() -> None:
            found.append(await call())

        if not await self.loop.timeout(seconds, receive):
            raise TimeoutError(f"no event has arrived in {seconds:g} s")
        return found[0]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received:
        self._calls += 1
        if not self._calls % TURNS:
            await self.loop.checkpoint()
        try:
            return await self.receive()
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopAsyncIteration from None
            raise

    def messages(self) -> "Messages":
        """Iterate over the messages until the connection ends, skipping other events."""
        return Messages(self)

    async def ask(self, question: str) -> dict[str, Any]:
        """Ask the daemon for its ``status``, ``groups``, ``members GROUP``, or ``configuration``.

        Raises:
            AccessRefused: the daemon's rules do not allow it.
            SessionEnded: the session is over.
        """
        session = self._session
        answer = session.protocol.ask(question)
        await session.stream.exchange(answer.is_there)
        return read_answer(answer.result())

    # ---- the end ----

    async def aclose(self) -> None:
        """Say goodbye, wait a little for the daemon's answer, and close the socket."""
        session = self._session

        async def until_the_end() -> None:
            await session.stream.exchange(lambda: False)

        try:
            if session.protocol.say_goodbye():
                with suppress(SessionEnded):  # the end of the session is the purpose
                    await self.part(until_the_end)
        finally:  # a task that is cancelled meanwhile closes it, too
            session.stream.close()

    async def part(self, step: Step) -> None:
        """Run a step of an orderly end for GOODBYE_S at most, also in a task that is cancelled.

        If the daemon has not answered an earlier step in time, and sent nothing since, this one
        waits for nothing.

        Raises:
            SessionEnded: the session is over.
        """
        if self.protocol.owner:
            return  # the session goes on in the process that it belongs to
        is_silent = self.protocol.inputs == self._silent_at
        if not await self.loop.shielded(0.0 if is_silent else GOODBYE_S, step):
            self._silent_at = self.protocol.inputs

    def close_socket(self) -> None:
        """Break the connection off; output that was not written yet is lost."""
        self._session.stream.close()

    # ---- inside ----

    async def _until_it_may_go(self, session: Session, names: tuple[str, ...]) -> None:
        """Wait until a message may be sent; let other tasks run now and then.

        The daemon must accept more, and a group with a secret must have its key.

        Raises:
            SessionEnded: the session is over.
        """
        if not self._calls % TURNS:
            await self.loop.checkpoint()
        session.protocol.check_sending()
        if session.protocol.pending_bytes >= PART_BYTES:
            await session.stream.flush()
        await self._until_key(session, names)

    async def _until_key(self, session: Session, names: tuple[str, ...]) -> None:
        protocol = session.protocol
        while not protocol.may_send(names):
            await session.stream.exchange(lambda: protocol.may_send(names))


class Messages:
    """Iterator over the messages of a connection; see `Connection.messages`."""

    def __init__(self, connection: BasicConnection) -> None:
        self._connection = connection

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        while True:
            event = await anext(self._connection)
            if isinstance(event, Message):
                return event


def names_of(groups: Destinations) -> tuple[str, ...]:
    """Return the names of destinations.

    Raises:
        LocalProtocolError: one of them is neither a name nor a member.
    """
    if isinstance(groups, str | MemberId):
        groups = (groups,)
    try:
        names = tuple(one.name if isinstance(one, MemberId) else one for one in groups)
    except TypeError:
        names = ()
    if not names or not all(isinstance(name, str) for name in names):
        raise LocalProtocolError(
            f"{groups!r} is not a destination: write the name of a group, a private name "
            "or a MemberId, or a sequence of these"
        )
    return names


def bad_argument(error: TypeError, data: object, level: object, type_: object) -> Exception:
    """Return an error for an argument of a wrong type; it names the right one."""
    if not isinstance(level, int):
        names = [one.name for one in LEVELS]
        known = level.upper() if isinstance(level, str) else ""
        write = known if known in names else "AGREED, or another of the six"
        return LocalProtocolError(f"level is {level!r}; write ServiceLevel.{write}")
    if not isinstance(type_, int):
        return LocalProtocolError(f"type is {type_!r}; write a number, 0 to 65535")
    if isinstance(data, str):
        return LocalProtocolError(
            f"a message is {data[:20]!r}, a str, and messages are bytes: write "
            f"b{data[:20]!r}, or text.encode()"
        )
    try:
        memoryview(data)  # type: ignore[arg-type]  # whether it is bytes is the question
    except TypeError:
        return LocalProtocolError(f"a message is of type {type(data).__name__}; write bytes")
    return error
