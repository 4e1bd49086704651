"""One client's connection, as its daemon's shell sees it: one state from accept to close.

    ADMITTING --> GREETING --> OPEN --> CLOSING --> CLOSED

Any state may be followed by CLOSED, as the client or this daemon may break the connection off, and
GREETING by CLOSING. Until it is OPEN a connection is half-open (see `Listener`).
"""

import enum

import attrs
import trio

from groupcomm.host.tls import AnySocket, PeerCertificate
from groupcomm.wire.raw import Raw
from groupcommd.spread_socket import SpreadSocket


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
    """How far a connection is."""

    ADMITTING = enum.auto()  # the listener finds out whose it is; the core does not know it
    GREETING = enum.auto()  # the core has a session for it, and no HELLO
    OPEN = enum.auto()
    CLOSING = enum.auto()  # the core has ended the session; what is pending is still written
    CLOSED = enum.auto()  # the core was told that it has ended


class Connection:
    """One client's socket.

    Attributes:
        number: of its session.
        scope: cancels the task that reads it.
        since: when it was accepted.
        state: how far it is.
        socket: non-blocking; set by `admit`, as are the two that follow.
        principal: whose it is.
        certificate: the certificate by which it came; None if it came otherwise.
        readable: the core has looked at all that was read, and takes more.
        resumed: is set once it is readable; None if nobody waits for that.
        pending: parts of what the core had for it, not yet written.
        writing: a task waits until its socket takes more.
    """

    __slots__ = (
        "certificate",
        "number",
        "pending",
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

    def __init__(self, number: int, scope: trio.CancelScope) -> None:
        self.number = number
        self.scope = scope
        self.since = trio.current_time()
        self.state = ConnectionState.ADMITTING
        self.readable = True
        self.resumed: trio.Event | None = None
        self.pending: list[Raw] = []
        self.writing = False

    def admit(self, peer: AuthenticatedPeer) -> None:
        """Enter GREETING: it is known whose it is."""
        assert self.state is ConnectionState.ADMITTING, self.state
        self.socket, self.principal, self.certificate = (
            peer.socket,
            peer.principal,
            peer.certificate,
        )
        self.state = ConnectionState.GREETING

    def greet(self) -> None:
        """Enter OPEN: the core has its HELLO."""
        if self.state is ConnectionState.GREETING:
            self.state = ConnectionState.OPEN

    def begin_end(self, linger_s: float) -> None:
        """Enter CLOSING: the core is done with it; it has so long to take what is its own."""
        self.state = ConnectionState.CLOSING
        self.scope.deadline = trio.current_time() + linger_s
        self.read_on()

    def read_on(self) -> None:
        """Have more read from it."""
        self.readable = True
        if self.resumed is not None:
            self.resumed.set()
            self.resumed = None
