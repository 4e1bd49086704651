"""One connection of HTTP: requests are read, answered one after the other, and bounded.

Whatever comes, it ends this connection at most. Bytes become requests in h11; an answer is made
within the share of time that HTTP has (work_share.py).
"""

import enum
import socket
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, Protocol

import attrs
import h11
import trio

from groupcomm.host.tls import AnySocket, PeerCertificate
from groupcommd.http.gate import Refusal
from groupcommd.http.work_share import ShareOfAsker

MAX_HEAD_BYTES: Final = 8192
"""The most bytes of a request's line and headers."""

READ_BYTES: Final = 8192

REQUEST_S: Final = 5.0
"""A request is complete this long after its first byte; the first one, after connecting."""

IDLE_S: Final = 150.0
"""A connection may wait this long for its next request: longer than monitoring usually does."""

WRITE_S: Final = 10.0
"""An answer has to be read in this time."""

LINGER_S: Final = 1.0
"""A connection that is closed with an error has this time to read it; a reset would overtake it."""

_ALWAYS: Final = (
    (b"Cache-Control", b"no-store"),
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
    (b"Referrer-Policy", b"no-referrer"),
)


@attrs.frozen
class Answer:
    """An answer to a request.

    Attributes:
        body: the whole body; of a stream its first event.
        kind: the media type of the body.
        status: the status code of HTTP.
        headers: further headers.
        policy: the content security policy: the parts that a browser may load for it.
        is_stream: whether events follow, until one of both ends closes the connection.
        principal: of a stream, whose rights are checked again while events follow.
    """

    body: bytes
    kind: bytes = b"text/plain; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    policy: bytes = b"default-src 'none'; frame-ancestors 'none'"
    is_stream: bool = False
    principal: str = ""


class ConnectionState(enum.Enum):
    """The state of a connection."""

    WAITING = enum.auto()  # it waits for a request
    ANSWERING = enum.auto()
    STREAMING = enum.auto()  # it gets events


class Responder(Protocol):
    """A function that answers requests; see server.py."""

    def respond(self, request: h11.Request, principal: str | None) -> Answer:
        """Return the answer, at once.

        Raises:
            Refusal: there is none.
        """

    def needs(self, request: h11.Request, principal: str | None) -> bool:
        """Return whether `prepare` has to be awaited before `respond`."""

    async def prepare(self, request: h11.Request, principal: str | None) -> None:
        """Have the daemon tell what the answer is made from.

        Raises:
            Refusal: it does not.
        """

    def refuse(self, refusal: Refusal) -> Answer:
        """Return the answer that says why there is none."""

    def note_slow(self) -> None:
        """Note that a connection is closed, as no request has come in time."""

    def note_error(self) -> None:
        """Log the present exception, an error of this daemon that a request has caused."""

    async def stream(self, connection: "HttpConnection", principal: str) -> None:
        """Pass events to a connection of a principal until its end."""


class HttpConnection:
    """One connection.

    Args:
        socket_: accepted and non-blocking.
        share: limits the time of HTTP; this is the connection's own.

    Attributes:
        socket: the socket of its bytes.
        principal: the principal of all its requests; None if each has to bring its own.
        shown: the certificate that proves it; None without one.
        state: its present state.
        since: the time at which that state began.
        scope: the scope that ends it.
        share: see above.
    """

    def __init__(self, socket_: AnySocket, share: ShareOfAsker) -> None:
        self.socket = socket_
        self.principal: str | None = None
        self.shown: PeerCertificate | None = None
        self.state = ConnectionState.WAITING
        self.since = trio.current_time()
        self.scope = trio.CancelScope()
        self.share = share
        self._unprepared: h11.Request | None = None  # a request whose answer takes long to make
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def serve(self, responder: Responder) -> None:
        """Answer requests until one of both ends closes the connection.

        Raises:
            OSError: it is broken.
        """
        wait_s = REQUEST_S
        while True:
            answer = await self._next_answer(responder, wait_s)
            if answer is None:
                return
            if answer.is_stream:
                self._enter(ConnectionState.STREAMING)
                await responder.stream(self, answer.principal)
                return
            if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
                await self._linger()
                return
            self._h11.start_next_cycle()
            self._enter(ConnectionState.WAITING)
            wait_s = IDLE_S

    def _enter(self, state: ConnectionState) -> None:
        self.state = state
        self.since = trio.current_time()

    async def _next_answer(self, responder: Responder, wait_s: float) -> Answer | None:
        """Read a request and answer it; return the answer, None if the client has gone."""
        answer, out, is_new = None, b"", True
        with trio.move_on_after(wait_s) as patience:
            while answer is None:
                async with self.share:
                    answer, out = self._process(responder)
                if self._unprepared is not None:
                    answer, out = await self._prepare(responder, self._unprepared)
                    self._unprepared = None
                elif answer is None:
                    data = await self.read()
                    if not data:
                        return None
                    if is_new:
                        is_new = False
                        patience.deadline = min(patience.deadline, trio.current_time() + REQUEST_S)
                    self._h11.receive_data(data)
        if answer is None:
            responder.note_slow()
            return None
        self._enter(ConnectionState.ANSWERING)
        with trio.move_on_after(WRITE_S) as patience:
            await self._write(out)
        return None if patience.cancelled_caught else answer

    def _process(self, responder: Responder) -> tuple[Answer | None, bytes]:
        """Return the answer to a request that is complete, and its bytes; None if none is."""
        try:
            event = self._h11.next_event()
            if not isinstance(event, h11.Request):
                return None, b""
            self._h11.next_event()  # its end; if a body follows, that is not read
        except h11.RemoteProtocolError as error:
            refusal = Refusal(error.error_status_hint, "request", f"no HTTP request: {error}")
            answer = responder.refuse(refusal)
            return answer, self._encode(answer, with_body=True)
        if responder.needs(event, self.principal):
            self._unprepared = event
            return None, b""
        return self._answer(responder, event)

    async def _prepare(self, responder: Responder, request: h11.Request) -> tuple[Answer, bytes]:
        try:
            await responder.prepare(request, self.principal)
        except Refusal as refusal:
            answer = responder.refuse(refusal)
            return answer, self._encode(answer, with_body=request.method != b"HEAD")
        async with self.share:
            return self._answer(responder, request)

    def _answer(self, responder: Responder, request: h11.Request) -> tuple[Answer, bytes]:
        """Return the answer to a request, and its bytes."""
        try:
            answer = responder.respond(request, self.principal)
        except Refusal as refusal:
            answer = responder.refuse(refusal)
        except Exception:
            responder.note_error()
            answer = responder.refuse(Refusal(500, "error", "an error of this daemon: see its log"))
        if request.method == b"HEAD":
            answer = attrs.evolve(answer, is_stream=False)
        return answer, self._encode(answer, with_body=request.method != b"HEAD")

    def _encode(self, answer: Answer, *, with_body: bool) -> bytes:
        headers = [(b"Date", formatdate(usegmt=True).encode()), (b"Content-Type", answer.kind)]
        headers += _ALWAYS
        headers += answer.headers
        headers.append((b"Content-Security-Policy", answer.policy))
        if answer.is_stream:
            headers.append((b"Transfer-Encoding", b"chunked"))
        else:
            headers.append((b"Content-Length", b"%d" % len(answer.body)))
        if self._h11.their_state is not h11.DONE:
            headers.append((b"Connection", b"close"))
        phrase = HTTPStatus(answer.status).phrase
        head = h11.Response(status_code=answer.status, headers=headers, reason=phrase)
        out = self._send(head)
        if answer.is_stream:
            return out + chunk(answer.body)
        if with_body:
            out += self._send(h11.Data(data=answer.body))
        return out + self._send(h11.EndOfMessage())

    def _send(self, event: h11.Event) -> bytes:
        return self._h11.send(event) or b""

    # ---- bytes ----

    async def read(self) -> bytes:
        """Return the bytes that have come, b"" at the end."""
        while True:
            with suppress(BlockingIOError):  # not only when readable: the request may have come
                return self.socket.recv(READ_BYTES)  # it may come with the end of TLS's handshake
            await trio.lowlevel.wait_readable(self.socket)

    async def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[self.socket.send(left) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self.socket)

    async def _linger(self) -> None:
        """Let the client read the last answer, whatever it still sends."""
        self.socket.shutdown(socket.SHUT_WR)
        with trio.move_on_after(LINGER_S):
            while await self.read():
                pass


def chunk(data: bytes) -> bytes:
    """Return data as a chunk of HTTP (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)
