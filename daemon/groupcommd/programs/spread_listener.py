"""Listeners for clients of Spread: they shake hands, and find out the owner of a connection.

Spread's protocol has no authentication. For the unix socket, and for TCP within this host, the
system tells the user of a program: ``spread:ann``. Of a program of another host only the address is
known, ``spread:tcp:192.0.2.7``, so an operator has to allow such programs explicitly.
"""

import itertools
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from groupcomm.errors import Code, SessionError
from groupcomm.host.addresses import Address
from groupcomm.session.daemon_frames import encode_closed
from groupcomm.session.spread.handshake import Handshake, State
from groupcomm.session.spread.session import SpreadSession
from groupcomm.session.spread.views import SharedChanges
from groupcommd.host.bounded_log import BoundedLog
from groupcommd.programs.connection import AuthenticatedPeer
from groupcommd.programs.half_messages import HalfMessages
from groupcommd.programs.listeners import (
    MAX_HALF_OPEN,
    MAX_HALF_OPEN_LOCAL,
    REFUSED_S,
    Listener,
    refuse_plain,
)
from groupcommd.programs.local_users import Admits, tcp_user, unix_user
from groupcommd.programs.peer_names import PeerRefused, admitted_principal, principal_of
from groupcommd.programs.spread_socket import SpreadSocket

READ_BYTES: Final = 256
"""The size of one read; a handshake is smaller."""

NAME_ROUNDS: Final = 5
"""Rounds of the event loop after which the end of a connection has been read and processed."""

_OURS: Final = b"\0"
"""The first byte of groupcomm's own clients, of a length below 64 MiB; Spread's is a version."""

_invented = itertools.count()


class SpreadListener(Listener):
    """A listener for clients of Spread, and perhaps of groupcomm; their first bytes differ.

    Args:
        listener: the socket that accepts connections.
        most: the number of connections that may be half-open at one time.
        identify: returns the principal of a connection, or raises PeerRefused.
        own: authenticates groupcomm's own clients; None: they are refused here.
    """

    def __init__(
        self,
        listener: socket.socket,
        most: int,
        identify: Callable[[socket.socket], Awaitable[str]],
        own: Listener | None = None,
    ) -> None:
        super().__init__(listener, most, identify)
        self._own = own
        self._log = BoundedLog()
        self._halves = HalfMessages()
        self._shared = SharedChanges()

    async def refuse_untold(self, accepted: socket.socket, code: Code, text: str) -> None:
        """Send a program the reason of its refusal, in its protocol; see `Listener`.

        Where both kinds connect, the first byte tells which kind a program is. A program that sends
        no bytes in time gets no answer.
        """
        if self._own is not None:
            with trio.move_on_after(REFUSED_S) as patience, suppress(OSError):
                await trio.lowlevel.wait_readable(accepted)
                if accepted.recv(1, socket.MSG_PEEK) == _OURS:
                    await self._own.refuse_untold(accepted, code, text)
                    return
            if patience.cancelled_caught:
                return
        await refuse_plain(accepted, Handshake().reject(code))

    async def authenticate(self, accepted: socket.socket) -> AuthenticatedPeer:
        """Find out the principal, and shake hands up to the daemon's answer; see `Listener`."""
        await trio.lowlevel.wait_readable(accepted)
        if accepted.recv(1, socket.MSG_PEEK) == _OURS:
            if self._own is not None:
                return await self._own.authenticate(accepted)
            text = (
                "only programs of Spread connect here; connect other programs to "
                "clients.unix or clients.tcp"
            )
            await refuse_plain(accepted, encode_closed(Code.REJECT_AUTH, text))
            raise PeerRefused("protocol", text)
        handshake = Handshake()
        try:
            principal = await self._identify(accepted)
            await self._shake_hands(accepted, handshake)
        except (PeerRefused, SessionError) as error:
            await refuse_plain(accepted, handshake.reject(error.code))
            if isinstance(error, PeerRefused):
                raise
            raise PeerRefused("handshake", f"a client of Spread: {error}") from None
        user = handshake.user or _invent_user(accepted.fileno())
        session = SpreadSession(handshake, user, self._shared)
        end = SpreadSocket(accepted, session, self._log, principal, self._halves)
        return AuthenticatedPeer(end, principal, session.hello())

    async def _shake_hands(self, accepted: socket.socket, handshake: Handshake) -> None:
        """Shake hands until the client has sent all its bytes before the admission.

        Raises:
            SessionError: the client is refused.
            OSError: the client has gone.
        """
        while handshake.state is not State.DONE:
            try:
                data = accepted.recv(READ_BYTES)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(accepted)
                continue
            if not data:
                raise ConnectionResetError("the client has closed the connection too early")
            if answer := handshake.receive_untrusted(data):
                await self._check_name(handshake.user)
                accepted.send(answer)  # a few bytes, the first of the connection: there is room

    async def _check_name(self, user: str) -> None:
        """Refuse a client whose name is in use, before it is sent the methods, as Spread does.

        Otherwise the core refuses it, after the methods. The end of the session that has the name
        may have come, but not been read yet.
        """
        for _ in range(NAME_ROUNDS):
            if not (taken := self.why_taken(user)):
                return
            await trio.lowlevel.checkpoint()
        raise SessionError(Code.REJECT_NOT_UNIQUE, taken)


def _invent_user(descriptor: int) -> str:
    """Return a name of at most 10 bytes for a client that asks for none."""
    return f"r{next(_invented) % 10_000}-{descriptor % 10_000}"


def spread_unix(listener: socket.socket) -> SpreadListener:
    """Return the listener at the path that Spread's library uses; the system tells the user."""
    return SpreadListener(listener, MAX_HALF_OPEN_LOCAL, _identify_unix)


def spread_tcp(listener: socket.socket, admits: Admits, own: Listener | None) -> SpreadListener:
    """Return a listener for TCP.

    Args:
        listener: the socket that accepts connections.
        admits: returns whether a user of this host may connect.
        own: see `SpreadListener`.
    """
    return SpreadListener(listener, MAX_HALF_OPEN, partial(_identify_tcp, admits), own)


async def _identify_unix(accepted: socket.socket) -> str:
    uid = unix_user(accepted)
    if uid is None:
        raise PeerRefused(
            "user", "the user of this program does not exist in the daemon's container"
        )
    return _as_spread(await principal_of(uid))


async def _identify_tcp(admits: Admits, accepted: socket.socket) -> str:
    uid = tcp_user(accepted)
    host = str(accepted.getpeername()[0])
    if uid is not None:
        return _as_spread(await admitted_principal(admits, uid))
    if Address(host, 0).is_loopback:
        raise PeerRefused("user", "the system does not tell which user has opened this connection")
    return f"spread:tcp:{host}"


def _as_spread(principal: str) -> str:
    return f"spread:{principal.removeprefix('unix:')}"
