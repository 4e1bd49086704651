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
        pending: parts of what was taken from the session, not yet written.
        writing: a task waits until its socket takes more.
        closing: the core is done with it; what is pending is still written.
    """

    __slots__ = (
        "closing",
        "number",
        "pending",
        "principal",
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
        self.pending: list[Raw] = []
        self.writing = False
        self.closing = False
