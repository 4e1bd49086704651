"""A client's connection at its daemon, with one state from accept to close.

    ADMITTING --> GREETING --> OPEN --> CLOSING --> CLOSED

Any state may be followed by CLOSED, as the client or the daemon may close the connection, and
GREETING by CLOSING. Until it is OPEN, a connection is half-open (see `Listener`).
"""

import enum
from collections.abc import Sequence
from socket import socket as SystemSocket

import attrs
import trio

from groupcomm.host.tls import AnySocket, PeerCertificate
from groupcomm.wire.packet import Raw
from groupcommd.programs.spread_socket import SpreadSocket


@attrs.frozen
class AuthenticatedPeer:
    """A program whose principal is known.

    Attributes:
        socket: carries its session.
        principal: the owner of the session.
        received: bytes of the session that were read during authentication.
        certificate: the certificate that the program has shown; None if it has shown none.
    """

    socket: AnySocket | SpreadSocket
    principal: str
    received: bytes = b""
    certificate: PeerCertificate | None = None


class ConnectionState(enum.Enum):
    """The state of a connection."""

    ADMITTING = enum.auto()  # the listener authenticates the peer; the core does not know it
    GREETING = enum.auto()  # the core has a session for it, and waits for its HELLO
    OPEN = enum.auto()
    CLOSING = enum.auto()  # the core has ended the session; pending output is still written
    CLOSED = enum.auto()  # the core knows that the connection has ended


class Connection:
    """One client's connection.

    Attributes:
        number: the number of its session.
        scope: cancels the task that reads from it.
        since: the time at which it was accepted.
        state: its state.
        plain: the system's socket below.
        socket: its socket, non-blocking; set by `admit`, as are the next two.
        principal: its owner.
        certificate: the program's certificate; None without one.
        readable: whether the core has processed all input, and accepts more.
        arrived: the place, among all arrivals, of what has come and was not read; 0 without it.
        hung_up: whether the client has closed its end, so there is something to read until the end.
        over: whether its stream has ended, or broken.
        pending: parts of the core's output that are not written yet.
        writing: whether a task waits until the socket accepts more.
    """

    __slots__ = (
        "_changed",
        "_error",
        "arrived",
        "certificate",
        "hung_up",
        "number",
        "over",
        "pending",
        "plain",
        "principal",
        "readable",
        "scope",
        "since",
        "socket",
        "state",
        "writing",
    )

    socket: AnySocket | SpreadSocket
    principal: str
    certificate: PeerCertificate | None

    def __init__(self, number: int, scope: trio.CancelScope, plain: SystemSocket) -> None:
        self.number = number
        self.plain = plain
        self.scope = scope
        self.since = trio.current_time()
        self.state = ConnectionState.ADMITTING
        self.readable = True
        self.arrived = 0
        self.hung_up = self.over = False
        self._error: Exception | None = None
        self._changed: trio.Event | None = None  # set with the next change, if its task waits
        self.pending: Sequence[Raw] = ()
        self.writing = False

    def admit(self, peer: AuthenticatedPeer) -> None:
        """Enter GREETING: the peer is authenticated."""
        assert self.state is ConnectionState.ADMITTING, self.state
        self.socket, self.principal, self.certificate = (
            peer.socket,
            peer.principal,
            peer.certificate,
        )
        self.state = ConnectionState.GREETING

    def greet(self) -> None:
        """Enter OPEN: the core has the HELLO."""
        if self.state is ConnectionState.GREETING:
            self._change()
            self.state = ConnectionState.OPEN

    def begin_end(self, linger_s: float) -> None:
        """Enter CLOSING: the session is over, and the client has `linger_s` to read its output."""
        self.state = ConnectionState.CLOSING
        self.scope.deadline = trio.current_time() + linger_s

    def pause(self) -> None:
        """Allow nothing to be read from it until the core has processed all input."""
        self.readable = False
        self._change()

    def read_on(self) -> None:
        """Allow more to be read from it."""
        self.readable = True
        self._change()

    def end(self, error: Exception | None = None) -> None:
        """Note that its stream has ended, or why it broke."""
        self.over, self._error = True, error
        self._change()

    def _change(self) -> None:
        """Have its task look: it waits for the HELLO, or for the end."""
        if self._changed is not None and (self.over or self.state is not ConnectionState.OPEN):
            self._changed.set()
            self._changed = None

    async def await_change(self) -> None:
        """Wait until its state changes, it is readable again, or its stream ends."""
        self._changed = self._changed or trio.Event()
        await self._changed.wait()

    async def await_end(self) -> None:
        """Wait until its stream has ended, and the core has processed all input.

        Raises:
            Exception: the stream is broken.
        """
        while not (self.over and (self.readable or self._error)):
            await self.await_change()
        if self._error is not None:
            raise self._error
