"""A client's connection at its daemon, with one state from accept to close.

    ADMITTING --> GREETING --> OPEN --> CLOSING --> CLOSED

Any state may be followed by CLOSED, as the client or the daemon may close the connection, and
GREETING by CLOSING. Until it is OPEN, a connection is half-open (see `Listener`).
"""

import enum
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
        resumed: set once the connection is readable; None if no task waits for that.
        pending: parts of the core's output that are not written yet.
        writing: whether a task waits until the socket accepts more.
    """

    __slots__ = (
        "certificate",
        "number",
        "pending",
        "plain",
        "principal",
        "readable",
        "resumed",
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
        self.resumed: trio.Event | None = None
        self.pending: list[Raw] = []
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
            self.state = ConnectionState.OPEN

    def begin_end(self, linger_s: float) -> None:
        """Enter CLOSING: the session is over, and the client has `linger_s` to read its output."""
        self.state = ConnectionState.CLOSING
        self.scope.deadline = trio.current_time() + linger_s
        self.read_on()

    def read_on(self) -> None:
        """Allow more to be read from it."""
        self.readable = True
        if self.resumed is not None:
            self.resumed.set()
            self.resumed = None
