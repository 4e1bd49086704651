"""A session of a browser: its requests go to the daemon, and the events of the daemon to it.

A request is answered once the daemon has taken it, and the next one is read only then. So no
requests queue here: whoever sends too fast waits, and of who does not read none is accepted.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from groupcomm.errors import CannotConnect, GroupCommError, RemoteProtocolError, SessionEnded
from groupcomm.level import ServiceLevel
from groupcomm_client import ConnectOptions, TlsOptions, connect
from groupcomm_client.connection import Connection
from groupcomm_client.history.given import Given
from groupcomm_tools.commands.reading import parse_start
from groupcomm_tools.event_text import describe
from groupcomm_tools.web.frames import (
    Connect,
    Join,
    Leave,
    Multicast,
    Request,
    decode_untrusted,
    encode,
    encode_event,
)
from groupcomm_tools.web.websocket import Left, WebSocket

AT_ONCE_BYTES: Final = 65_536
"""Events are sent together up to this size."""

QUEUE_BYTES: Final = 2 * 1024 * 1024
"""The memory of live events that a session which reads history has here."""

Receive = Callable[[], Awaitable[list[Given]]]


@attrs.frozen
class Daemon:
    """Where the sessions are, and how the server tells who they are.

    Attributes:
        address: one address or several, with commas between them.
        ca: whom to trust over TLS.
        wants_token: whether each session authenticates by its own token; else all are the server's
            user.
    """

    address: str
    ca: Path | None
    wants_token: bool


async def open_session(
    websocket: WebSocket, daemon: Daemon, cookie: str, stack: AsyncExitStack
) -> tuple[Connection, Receive]:
    """Read the first request, and open the session that it asks for.

    Args:
        websocket: the connection of the browser.
        daemon: where to connect.
        cookie: the token of the browser's cookie; "" for none.
        stack: closes the session.

    Returns:
        The session, and what returns its events.

    Raises:
        Left: no session was opened; the browser was told why.
    """
    frame = await websocket.receive()
    if frame is None:
        raise Left("gone", "the browser has gone")
    request, _ = decode_untrusted(frame)
    if not isinstance(request, Connect):
        raise RemoteProtocolError("the first request is not connect")
    reason = "daemon"
    try:
        token = request.token or cookie
        if daemon.wants_token and not token:
            reason = "token"
            raise GroupCommError("this server needs a token: groupcomm tokens add makes one")
        tls = TlsOptions(ca=daemon.ca, token=token) if daemon.wants_token else TlsOptions()
        options = ConnectOptions(filters=())
        opening = connect(daemon.address, user=request.user, options=options, tls=tls)
        connection = await stack.enter_async_context(opening)
        receive: Receive = connection.receive_batch  # type: ignore[assignment]  # all are Given
        if request.groups:
            start = parse_start(request.start)
            subscribing = connection.subscribe(request.groups, start=start, queue_bytes=QUEUE_BYTES)
            receive = (await stack.enter_async_context(subscribing)).receive_batch
    except CannotConnect as error:
        await _refuse(websocket, request, "no daemon admits sessions now: try again later")
        raise Left(reason, str(error), 1013) from None
    except GroupCommError as error:
        await _refuse(websocket, request, str(error).removeprefix("--"))
        raise Left(reason, str(error)) from None
    await websocket.send(encode({"re": request.id, "name": connection.name}))
    return connection, receive


async def _refuse(websocket: WebSocket, request: Request, text: str) -> None:
    await websocket.send(encode({"re": request.id, "error": text}))


async def serve_session(
    websocket: WebSocket, connection: Connection, receive: Receive, counts: Counter[str], most: int
) -> None:
    """Pass on requests and events until one side ends; `most` is the size of a message.

    Raises:
        Left: the daemon has ended the session, or the browser breaks a bound.
        RemoteProtocolError: the browser breaks the protocol.
    """
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_pass_events, websocket, receive, counts, most)
            with suppress(SessionEnded):
                await _execute_all(websocket, connection, receive, counts)
                nursery.cancel_scope.cancel()
    except BaseException:
        connection.close_socket()  # a goodbye would collect what the browser has not read
        raise
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_drop_events, receive)
        await connection.aclose()
        nursery.cancel_scope.cancel()


async def _execute_all(
    websocket: WebSocket, connection: Connection, receive: Receive, counts: Counter[str]
) -> None:
    """Execute requests until the browser ends.

    Raises:
        SessionEnded: the session is over; the task of its events says why, after the last ones.
    """
    reads_history = receive != connection.receive_batch
    while (frame := await websocket.receive()) is not None:
        request, data = decode_untrusted(frame)
        counts["requests"] += 1
        answer: dict[str, Any] = {"re": request.id}
        try:
            answer |= await _execute(connection, request, data, reads_history)
        except SessionEnded:
            raise
        except GroupCommError as error:
            answer["error"] = str(error)
        await websocket.send(encode(answer))


async def _drop_events(receive: Receive) -> None:
    with suppress(GroupCommError):
        while True:
            await receive()


async def _execute(
    connection: Connection, request: Request, data: bytes, reads_history: bool
) -> dict[str, Any]:
    match request:
        case Multicast():
            await connection.multicast(
                request.groups,
                data,
                level=ServiceLevel[request.level],
                type=request.type,
                self_discard=request.self_discard,
            )
            return {}
        case Join() | Leave() if reads_history:
            raise GroupCommError("this connection reads history: join groups on another one")
        case Join():
            return {"view": describe(await connection.join(request.group))}
        case Leave():
            await connection.leave(request.group)
            return {}
        case _:
            raise GroupCommError("the session is open already")


async def _pass_events(
    websocket: WebSocket, receive: Receive, counts: Counter[str], most: int
) -> None:
    """Send the events of the session to the browser until it ends."""
    while True:
        try:
            events = await receive()
        except GroupCommError as error:  # also: no archive answers
            await websocket.send(encode({"event": "ended", "why": str(error)}))
            raise Left("daemon", str(error), 1001) from None
        counts["events"] += len(events)
        frames: list[str | bytes] = []
        size = 0
        for frame in map(partial(encode_event, most_bytes=most), events):
            frames.append(frame)
            size += len(frame)
            if size >= AT_ONCE_BYTES:
                await websocket.send(*frames)
                frames, size = [], 0
        if frames:
            await websocket.send(*frames)
