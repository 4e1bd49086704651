"""One client's connection, as its daemon's shell sees it."""

import trio

from groupcomm.wire.raw import Raw
from groupcommd.doors import Guest
from groupcommd.tls_socket import AnySocket


class Connection:
    """One client's socket.

    Attributes:
        number: of its session.
        socket: non-blocking.
        scope: cancels the task that reads it.
        principal: whose it is.
        shown: the certificate by which it came; None if it came otherwise.
        is_greeting: it has not said who it is, as far as the core knows.
        readable: the core has looked at all that was read, and takes more.
        resumed: is set once it is readable, or closing; None if nobody waits for that.
        pending: parts of what the core had for it, not yet written.
        drained: the core has nothing more for it.
        writing: a task waits until its socket takes more.
        closing: the core is done with it; what is pending is still written.
    """

    __slots__ = (
        "closing",
        "drained",
        "is_greeting",
        "number",
        "pending",
        "principal",
        "readable",
        "resumed",
        "scope",
        "shown",
        "socket",
        "writing",
    )

    def __init__(self, number: int, guest: Guest, scope: trio.CancelScope) -> None:
        self.number = number
        self.socket: AnySocket = guest.socket
        self.scope = scope
        self.principal = guest.principal
        self.shown = guest.shown
        self.is_greeting = self.readable = self.drained = True
        self.resumed: trio.Event | None = None
        self.pending: list[Raw] = []
        self.writing = self.closing = False

    def read_on(self) -> None:
        """More may be read from it."""
        self.readable = True
        if self.resumed is not None:
            self.resumed.set()
            self.resumed = None
