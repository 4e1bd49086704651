"""A WebSocket (RFC 6455) on a stream of trio, with bounds on what its peer may have it do.

Nothing is compressed. Whoever is silent is asked for a sign of life; whoever does not read is left.
"""

from collections import deque
from typing import Final

import trio
from wsproto import WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Event, Message, Ping, Pong, TextMessage

from groupcomm.errors import RemoteProtocolError

READ_BYTES: Final = 65_536

PING_S: Final = 20.0
"""The silence after which a peer is asked for a sign of life; after as much again it is gone."""

SEND_S: Final = 30.0
"""The time in which a peer must have read what is sent to it at once."""

_SENDING: Final = (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING)

CLOSE_S: Final = 1.0
REASON_BYTES: Final = 120
"""The bytes that fit beside the code of a close."""


class Left(Exception):
    """The server ends a connection.

    Attributes:
        reason: a word for the metric.
        code: of WebSockets, told to the peer.
    """

    def __init__(self, reason: str, text: str, code: int = 1008) -> None:
        super().__init__(text)
        self.reason = reason
        self.code = code


class WebSocket:
    """The server's end of a WebSocket, after the handshake.

    Args:
        stream: carries the bytes.
        connection: the protocol.
        most_bytes: the most bytes of a message of the peer.
    """

    def __init__(self, stream: trio.abc.Stream, connection: WSConnection, most_bytes: int) -> None:
        self._stream = stream
        self._connection = connection
        self._most_bytes = most_bytes
        self._events: deque[Event] = deque()
        self._sending = trio.Lock()
        self._asked = False  # for a sign of life, without an answer yet

    async def receive(self) -> str | bytes | None:
        """Return the next message; None at the end. Only one task may wait.

        Raises:
            Left: the peer is silent, or its message too large.
            RemoteProtocolError: its bytes are no WebSocket's.
        """
        text, data = "", bytearray()
        while True:
            event = await self._next()
            match event:
                case Message():
                    if isinstance(event, TextMessage):
                        text += event.data
                    else:
                        data += event.data
                    if len(text) + len(data) > self._most_bytes:
                        raise Left("large", f"a frame has at most {self._most_bytes} bytes", 1009)
                    if event.message_finished:
                        return text if isinstance(event, TextMessage) else bytes(data)
                case Ping():
                    await self._write(Pong(payload=event.payload))
                case CloseConnection():
                    if self._connection.state is ConnectionState.OPEN:  # wsproto's own verdict
                        raise RemoteProtocolError(f"no WebSocket: {event.reason}")
                    if self._connection.state is ConnectionState.REMOTE_CLOSING:
                        await self._write(event.response())
                    return None
                case _:  # a pong
                    pass

    async def _next(self) -> Event:
        while not self._events:
            with trio.move_on_after(PING_S) as silence:
                data = await self._stream.receive_some(READ_BYTES)
            if silence.cancelled_caught:
                if self._asked:
                    raise Left("silent", f"nothing came for {2 * PING_S:g} s, and no pong", 1001)
                self._asked = True
                await self._write(Ping())
                continue
            self._asked = False
            self._connection.receive_data(bytes(data) or None)
            self._events += self._connection.events()
        return self._events.popleft()

    async def send(self, *frames: str | bytes) -> None:
        """Send messages.

        Raises:
            Left: the peer does not read.
        """
        await self._write(
            *(TextMessage(each) if isinstance(each, str) else BytesMessage(each) for each in frames)
        )

    async def _write(self, *events: Event) -> None:
        with trio.move_on_after(SEND_S) as patience:
            async with self._sending:
                if self._connection.state in _SENDING:
                    await self._stream.send_all(b"".join(map(self._connection.send, events)))
        if patience.cancelled_caught:
            raise Left("slow", f"nothing was read for {SEND_S:g} s")

    async def close(self, code: int, reason: str) -> None:
        """Tell the peer, if it can be told, that this is the end, and why.

        What it sends meanwhile is read, as the system would else take back what was told.
        """
        if self._connection.state is ConnectionState.OPEN:
            short = reason.encode()[:REASON_BYTES].decode(errors="ignore")
            with trio.move_on_after(CLOSE_S, shield=True):
                await self._write(CloseConnection(code=code, reason=short))
                while await self._stream.receive_some(READ_BYTES):
                    pass
