"""Requests to a group, and replies.

A server::

    async def double(request):
        return b"%d" % (2 * int(request.data))

    async with connect() as connection:
        await serve(connection, "doubler", double)

A caller::

    async with connect() as connection, calling(connection) as caller:
        print(await caller.call("doubler", b"21"))

`call` has one server handle a request: all servers see the same requests in the same order, so each
knows without further messages whose turn it is; if that server goes, or was parted for a while,
before it has replied, the next one handles the request. So a request is handled at least once:
twice, if its server was cut off or died between handling it and replying. `call_all` has every
server handle a request.
"""

import enum
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias, cast

import attrs
import msgspec

from groupcomm.errors import GroupCommError, LocalProtocolError, SessionEnded
from groupcomm.events import GroupView, MemberId, Message
from groupcomm.names import check_destination
from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from groupcomm_client.arguments import check_function, check_seconds
from groupcomm_client.basic_connection import BasicConnection
from groupcomm_client.connection import Connection
from groupcomm_client.coordination.driving import Driver, driving, running
from groupcomm_client.coordination.limits import check_data, clean, text_of
from groupcomm_client.events import Received
from groupcomm_client.first_number import first_number
from groupcomm_client.loops import Tasks
from groupcomm_client.undecodable import UNDECODABLE

AT_ONCE: Final = 16
"""The requests that one server works on at a time; others wait."""

REPLY_S: Final = 10.0


class NoReply(GroupCommError):
    """Raised if no reply came in time: there is no server, or it takes too long."""


class CallFailed(GroupCommError):
    """Raised if the server could not handle the request; the text is the server's."""


class Whom(enum.IntEnum):
    """The servers that are to handle a request."""

    ONE = 0
    ALL = 1


class Call(msgspec.Struct, frozen=True, tag="call", array_like=True):
    """A request, to the group of the servers; `number` is unique at its caller."""

    number: int
    whom: Whom
    data: bytes


class Reply(msgspec.Struct, frozen=True, tag="reply", array_like=True):
    """A reply, to the caller and, for ONE, to the servers.

    Attributes:
        caller: the member that made the request.
        number: the number of the call.
        data: the reply; if the request `failed`, the reason in UTF-8.
        failed: whether the server could not handle the request.
        servers: all servers that got the request.
    """

    caller: MemberId
    number: int
    data: bytes
    failed: bool
    servers: tuple[MemberId, ...]


_log = logging.getLogger("groupcomm_client")

Wire: TypeAlias = Call | Reply
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Wire] = msgspec.msgpack.Decoder(Wire)


def _decode_untrusted(data: bytes) -> Wire | None:
    try:
        return _decoder.decode(data)
    except UNDECODABLE:
        return None


def _encode_reply(key: "Key", data: object, failed: bool, servers: tuple[MemberId, ...]) -> bytes:
    """Return a reply; of one that cannot be sent the caller learns why, and so does the log."""
    try:
        check_data("the reply", data)
        wire = _encoder.encode(Reply(*key, cast(bytes, data), failed, servers))
        check_data("the reply with its head", wire, MAX_MESSAGE_BYTES)
    except LocalProtocolError as error:
        _log.error("a request of %s has failed: %s", key[0].name, error)
        wire = _encoder.encode(Reply(*key, clean(error).encode(), True, servers))
    return wire


@attrs.frozen
class Request:
    """A request, as a handler gets it.

    Attributes:
        data: the data of the request.
        caller: the member that made the request.
        servers: the servers that got the request, in the order in which they joined.
    """

    data: bytes
    caller: MemberId
    servers: tuple[MemberId, ...]


Handler: TypeAlias = Callable[[Request], Awaitable[bytes]]
Key: TypeAlias = tuple[MemberId, int]


class Rota:
    """The rota of one server: it finds the requests that are this server's. Pure."""

    def __init__(self, me: MemberId) -> None:
        """Begin before the first view."""
        self._me = me
        self._members: tuple[MemberId, ...] = ()
        # The requests that none has replied to, and the servers that have come along with this one
        # since, in turn.
        self._open: dict[Key, tuple[Request, tuple[MemberId, ...]]] = {}

    def handle(self, event: Received, group: str) -> list[tuple[Key, Request, Whom]]:
        """Handle one event; return the requests that this server has to handle now."""
        if isinstance(event, GroupView) and event.group == group:
            return self._on_view(event)
        if isinstance(event, Message) and group in event.groups:
            word = _decode_untrusted(event.data)
            if isinstance(word, Reply):
                self._open.pop((word.caller, word.number), None)
            elif isinstance(word, Call):
                return self._on_call(event.sender, word)
        return []

    def _on_view(self, view: GroupView) -> list[tuple[Key, Request, Whom]]:
        self._members = view.members
        # Who has not come along may have replied elsewhere, even if this view has it again.
        together, mine = frozenset(view.vs_set), []
        for key, (request, servers) in self._open.items():
            left = tuple(server for server in servers if server in together)
            if left[:1] != servers[:1] and left[:1] == (self._me,):
                mine.append((key, request, Whom.ONE))
            self._open[key] = request, left
        return mine

    def _on_call(self, caller: MemberId, call: Call) -> list[tuple[Key, Request, Whom]]:
        key, request = (caller, call.number), Request(call.data, caller, self._members)
        if call.whom is Whom.ALL:
            return [(key, request, call.whom)]
        first = call.number % len(self._members)
        self._open[key] = request, self._members[first:] + self._members[:first]
        if self._members[first] == self._me:
            return [(key, request, call.whom)]
        return []


class _Server:
    """One server: its rota in the present session, and the requests that it works on."""

    is_busy = False

    def __init__(self, connection: Connection, group: str, handler: Handler, tasks: Tasks) -> None:
        self._group = group
        self._handler = handler
        self._tasks = tasks
        self._waiting: deque[tuple[Key, Request, Whom]] = deque()
        self._working = 0
        self.driver = Driver(connection, group, self)

    def begin(self, session: BasicConnection) -> None:
        """See `Participant`."""
        self._rota = Rota(session.member)

    def accept(self, event: Received) -> None:
        """See `Participant`."""
        self._waiting.extend(self._rota.handle(event, self._group))
        self._start_some()

    def lose(self) -> None:
        """See `Participant`: requests that wait are those of other servers now."""
        self._waiting.clear()

    def changed(self) -> None:
        """See `Participant`."""

    def _start_some(self) -> None:
        while self._waiting and self._working < AT_ONCE:
            self._working += 1
            self._tasks.start(self._do, *self._waiting.popleft())

    async def _do(self, key: Key, request: Request, whom: Whom) -> None:
        failed = False
        try:
            data = await self._handler(request)
        except Exception as error:  # the caller has to learn of every error
            data, failed = text_of(error).encode(), True
        to = [key[0].name, self._group] if whom is Whom.ONE else [key[0].name]
        with suppress(SessionEnded):
            await self.driver.until_session()  # a reply of an earlier session is still one
        self.driver.send(_encode_reply(key, data, failed, request.servers), to=to)
        with self.driver.thread_lock:
            self._working -= 1
            self._start_some()


async def serve(connection: Connection, group: str, handler: Handler) -> None:
    """Be a server, until the last session ends or the task is cancelled.

    Args:
        connection: a connection for this alone; nothing else may receive from it. With
            ``reconnect=True`` the next session serves, too; requests that wait when one ends are
            left to the other servers.
        group: the group of the servers.
        handler: handles a request, and returns the reply; an exception is reported to the caller,
            and so is a reply that is no bytes, or larger than a message, which the logger
            ``groupcomm_client`` tells, too.

    Raises:
        LocalProtocolError: the name of the group is invalid, or the handler is no function.
        AccessRefused: the daemon's rules do not allow to join it, or no longer.
        SessionEnded: the session is over, and no other follows.
    """
    check_function("handler", handler)
    connection.protocol.check_own()
    async with connection.loop.tasks() as tasks:
        server = _Server(connection, group, handler, tasks)
        try:
            async with driving(server.driver):
                await server.driver.until(lambda: False)  # raises when the last session ends
        finally:
            with server.driver.thread_lock:
                server.lose()


@attrs.frozen
class Replies:
    """The replies to a `call_all`.

    Attributes:
        data: the replies by server.
        failed: the reasons of the servers that could not handle the request.
        missing: the servers that got the request, and whose reply did not come in time.
    """

    data: dict[MemberId, bytes]
    failed: dict[MemberId, str]
    missing: tuple[MemberId, ...]


class _Asked:
    """A request whose replies are awaited."""

    def __init__(self) -> None:
        self.replies: dict[MemberId, Reply] = {}
        self.is_cut = False  # the session to which replies would come is over


class Caller:
    """A program that makes requests; made by `calling`."""

    is_busy = False

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._number = first_number()
        self._asked: dict[int, _Asked] = {}  # the calls that wait
        self.driver = Driver(connection, "", self)

    async def call(self, group: str, data: bytes, *, timeout_s: float = REPLY_S) -> bytes:
        """Have one server of a group handle a request; return its reply.

        Raises:
            LocalProtocolError: the name of the group is invalid; the request is no bytes, or
                larger than MAX_DATA_BYTES, 64 MiB less 1 KiB; `timeout_s` is no number.
            NoReply: no reply came in time, or the session ended first; the request may have been
                handled. With ``reconnect=True`` the next call waits for the next session.
            CallFailed: the server could not handle the request, or its reply is too large.
            SessionEnded: the session is over, and no other follows.
        """
        replies = await self._ask(group, Whom.ONE, data, timeout_s, bool)
        reply = next(iter(replies.values()))
        if reply.failed:
            raise CallFailed(reply.data.decode(errors="replace"))
        return reply.data

    async def call_all(self, group: str, data: bytes, *, timeout_s: float = REPLY_S) -> Replies:
        """Have every server of a group handle a request; return the replies that came in time.

        Raises:
            LocalProtocolError: see `call`.
            NoReply: no reply came in time, or before the session ended.
            SessionEnded: the session is over, and no other follows.
        """

        def is_whole(replies: dict[MemberId, Reply]) -> bool:
            return any(replies.keys() >= set(reply.servers) for reply in replies.values())

        replies = await self._ask(group, Whom.ALL, data, timeout_s, is_whole)
        servers = next(iter(replies.values())).servers
        return Replies(
            {server: reply.data for server, reply in replies.items() if not reply.failed},
            {s: r.data.decode(errors="replace") for s, r in replies.items() if r.failed},
            tuple(server for server in servers if server not in replies),
        )

    async def _ask(
        self,
        group: str,
        whom: Whom,
        data: bytes,
        timeout_s: float,
        enough: Callable[[dict[MemberId, Reply]], bool],
    ) -> dict[MemberId, Reply]:
        """Send a request; return the replies that have come in time, at least one."""
        self.driver.check_own()
        check_destination(group)
        check_data("the request", data)
        timeout_s = check_seconds("timeout_s", timeout_s)
        asked = _Asked()
        with self.driver.thread_lock:
            self._number += 1
            number = self._number

        async def ask() -> None:
            await self.driver.until_session()
            with self.driver.thread_lock:
                self._asked[number] = asked
                asked.is_cut = self.driver.session is None
                self.driver.send(_encoder.encode(Call(number, whom, data)), to=group)
            await self.driver.until(lambda: asked.is_cut or enough(asked.replies))

        try:
            await self.driver.loop.timeout(timeout_s, ask)
        finally:
            self._asked.pop(number, None)
        if asked.replies:
            return asked.replies
        if asked.is_cut:
            raise NoReply(
                f"the session ended before a reply of group {group!r} came: the request may have"
                " been handled; call again if it may be handled twice"
            )
        raise NoReply(f"no reply of group {group!r} came in {timeout_s:g} s; is a server running?")

    # ---- what the driver tells ----

    def begin(self, session: BasicConnection) -> None:
        """See `Participant`."""
        self._me = session.member

    def accept(self, event: Received) -> None:
        """See `Participant`."""
        if isinstance(event, Message):
            word = _decode_untrusted(event.data)
            if isinstance(word, Reply) and word.caller == self._me:
                asked = self._asked.get(word.number)
                if asked is not None:  # otherwise no caller waits any more
                    asked.replies[event.sender] = word

    def lose(self) -> None:
        """See `Participant`."""
        for asked in self._asked.values():
            asked.is_cut = True

    def changed(self) -> None:
        """See `Participant`."""


@asynccontextmanager
async def calling(connection: Connection) -> AsyncIterator[Caller]:
    """Make requests for the length of a block; several tasks may share it.

    Args:
        connection: a connection for this alone; nothing else may receive from it.
    """
    caller = Caller(connection)
    async with running(caller.driver):
        yield caller
