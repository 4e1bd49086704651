"""Listeners: accept the connections of programs, each with its way of authenticating the peer.

An unauthenticated peer reaches nothing of the core. For a program that connects by TLS, the
listener itself checks the handshake and the first frame, a HELLO; for any other connection, the
system tells the user.
"""

import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Final

import trio

from groupcomm.errors import BadDatagram, Code
from groupcomm.host.tls import AnySocket, TlsSocket, Wants
from groupcomm.session.daemon_frames import encode_closed
from groupcomm.session.frames import (
    HELLO_FRAME_BYTES,
    FrameKind,
    FrameReader,
    decode_hello_untrusted,
)
from groupcommd.host.bounded_log import BoundedLog
from groupcommd.programs.connection import AuthenticatedPeer, Connection
from groupcommd.programs.credentials import TlsCredentials
from groupcommd.programs.local_users import Admits, tcp_user, unix_user
from groupcommd.programs.peer_names import PeerRefused, admitted_principal, principal_of

MAX_HALF_OPEN_LOCAL: Final = 512
"""Unix connections without a HELLO; above this number the listener closes the oldest one."""

GRACE_S: Final = 0.5
"""A connection has this time before it is closed to make room for another one; new connections wait
in the system's queue meanwhile. The time limits the connections that a listener accepts a second,
however many programs try: 128 by TCP. A TLS handshake takes two round trips.
"""

MAX_HALF_OPEN: Final = 64
"""TCP connections without a HELLO, whose owners are not known yet."""

REFUSED_S: Final = 1.0
"""A refused program has this time to read the reason; a reset would overtake the reason."""

BUFFER_BYTES: Final = 256 * 1024
"""Requested for unix sockets, so that a program's output goes there in few pieces."""

_READING: Final = trio.CapacityLimiter(4)  # threads that read tokens; others write the state

_HANDSHAKE: Final = b"\x16"
"""The first byte of a TLS handshake (RFC 8446, 5.1)."""


async def _identify_unix(accepted: socket.socket) -> str:
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    uid = unix_user(accepted)
    if uid is None:
        raise PeerRefused(
            "user",
            "this user does not exist in the daemon's container, where all such users look alike,"
            " as user nobody: run the program in the container, as another user than nobody",
        )
    return await principal_of(uid)


async def _identify_tcp(admits: Admits, accepted: socket.socket) -> str:
    uid = tcp_user(accepted)
    if uid is None:
        raise PeerRefused("user", "the system does not tell which user has opened this connection")
    return await admitted_principal(admits, uid)


class Listener:
    """A listener for programs whose principal the system reports.

    It reads nothing of their protocol, so it suits protocols that have no credentials.

    Args:
        listening: the socket that accepts connections.
        most: the number of connections that may be half-open at one time.
        identify: returns the principal of a connection, or raises PeerRefused.

    Attributes:
        socket: the socket that accepts connections.
        half_open: connections without a HELLO by number, the oldest first.
        why_taken: says why no session can have a name now; "" if one can. `Connections` sets it.
    """

    why_taken: Callable[[str], str]

    def __init__(
        self,
        listening: socket.socket,
        most: int,
        identify: Callable[[socket.socket], Awaitable[str]] = _identify_unix,
    ) -> None:
        self.socket = listening
        self.half_open: dict[int, Connection] = {}
        self._left = trio.lowlevel.ParkingLot()
        self._closed_at = -inf  # when a connection was last closed to make room
        self._most = most
        self._identify = identify

    def shrink(self, most: int) -> None:
        """Lower the limit of half-open connections to `most`, 1 at least; never raise it."""
        self._most = max(1, min(self._most, most))

    async def wait_for_room(self) -> None:
        """Wait until one more connection may be half-open.

        That is the case once a half-open connection is gone or the oldest one has had its time. The
        oldest ones are closed one at a time, so that the daemon's other work is not delayed.
        """
        while len(self.half_open) >= self._most:
            oldest = next(iter(self.half_open.values()))
            at = max(oldest.since + GRACE_S, self._closed_at + GRACE_S / self._most)
            if trio.current_time() >= at:
                return
            with trio.move_on_at(at):
                await self._left.park()

    def add(self, connection: Connection) -> bool:
        """Add a half-open connection; return whether the oldest one was closed for it."""
        self.half_open[connection.number] = connection
        if len(self.half_open) <= self._most:
            return False
        oldest = self.half_open.pop(next(iter(self.half_open)))
        oldest.scope.cancel()
        self._closed_at = trio.current_time()
        return True

    def remove(self, connection: Connection) -> None:
        """Remove a connection that has sent its HELLO or is gone."""
        if self.half_open.pop(connection.number, None) is not None:
            self._left.unpark_all()

    async def refuse_untold(self, accepted: socket.socket, code: Code, text: str) -> None:
        """Send a program the reason of its refusal, before its owner is known."""
        await refuse_plain(accepted, encode_closed(code, text))

    async def authenticate(self, accepted: socket.socket) -> AuthenticatedPeer:
        """Find out the owner of an accepted connection.

        Raises:
            PeerRefused: the listener does not accept the program.
            OSError: the program is gone.
        """
        try:
            return AuthenticatedPeer(accepted, await self._identify(accepted))
        except PeerRefused as refused:
            with suppress(OSError):
                accepted.send(encode_closed(refused.code, str(refused)))
            await _drain_refused(accepted, accepted)
            raise


def unix_listener(listening: socket.socket) -> Listener:
    """Return a listener for programs of this host; the system reports their owners."""
    return Listener(listening, MAX_HALF_OPEN_LOCAL)


def loopback_listener(listening: socket.socket, admits: Admits) -> Listener:
    """Return a listener for programs of this host that connect by TCP.

    Args:
        listening: the socket that accepts connections.
        admits: tells whether a user may connect; the system tells which user it is.
    """
    return Listener(listening, MAX_HALF_OPEN, partial(_identify_tcp, admits))


class TlsListener(Listener):
    """A listener for programs from anywhere, which authenticate by a certificate or a token.

    Args:
        listening: the socket that accepts connections.
        credentials: authenticate its programs; may be replaced.
        most: see `Listener`.
    """

    def __init__(
        self, listening: socket.socket, credentials: TlsCredentials, most: int = MAX_HALF_OPEN
    ) -> None:
        super().__init__(listening, most)
        self.credentials = credentials

    async def refuse_untold(self, accepted: socket.socket, code: Code, text: str) -> None:
        """Say nothing, as a program here understands nothing but TLS; see `Listener`."""

    async def authenticate(self, accepted: socket.socket) -> AuthenticatedPeer:
        """Find out the principal from the handshake and the first frame; see `Listener`."""
        old = self.credentials
        tls = TlsSocket(accepted, old.context)
        await trio.lowlevel.wait_readable(accepted)
        if accepted.recv(1, socket.MSG_PEEK) not in (_HANDSHAKE, b""):
            text = "this port speaks TLS: connect to tls://HOST:PORT"
            await refuse_plain(accepted, encode_closed(Code.REJECT_AUTH, text))
            raise PeerRefused("tls", "TLS: the program has sent something other than a handshake")
        try:
            await shake_hands(tls)
        except ssl.SSLError as error:
            await _drain_refused(accepted, accepted)
            raise PeerRefused("tls", f"TLS: {error.reason or error}") from None
        try:
            frame, received = await _read_frame(tls)
            if tls.peer_certificate is None:  # its token may have been revoked just now
                await trio.to_thread.run_sync(
                    self.credentials.refresh, abandon_on_cancel=True, limiter=_READING
                )
            principal, shown = self._principal(tls, frame), tls.peer_certificate
            new = self.credentials  # they may have been replaced during the handshake
            if shown and new.ca != old.ca and not shown.is_signed_by(new.ca):
                raise PeerRefused(
                    "certificate",
                    f"the authority that has issued the certificate of {principal} is not "
                    "trusted any more",
                )
            return AuthenticatedPeer(tls, principal, received, shown)
        except PeerRefused as refused:
            with suppress(OSError):
                tls.send(encode_closed(refused.code, str(refused)))
            await _drain_refused(tls, accepted)
            raise

    def _principal(self, tls: TlsSocket, frame: bytes) -> str:
        if tls.peer_certificate is not None:
            principal = tls.peer_certificate.principal
            if principal is None:
                raise PeerRefused(
                    "certificate", "the certificate has no name in its subjectAltName"
                )
            if self.credentials.revoked.has(tls.peer_certificate):
                text = f"certificate {tls.peer_certificate.serial:x} of {principal} was revoked"
                raise PeerRefused("certificate", text)
            return principal
        try:
            token = decode_hello_untrusted(frame).token
        except BadDatagram as error:
            raise PeerRefused("hello", f"no HELLO: {error}", Code.NET_ERROR) from None
        tokens = self.credentials.tokens
        if tokens is None:
            raise PeerRefused("certificate", "this daemon needs a certificate, and got none")
        if not token:
            raise PeerRefused("token", "this daemon needs a certificate or a token, and got none")
        name = tokens.name_of(token, datetime.now(UTC))
        if name is None:
            raise PeerRefused("token", "the token is wrong, was revoked or has expired")
        return f"token:{name}"


async def shake_hands(tls: TlsSocket) -> None:
    """Complete a handshake of TLS.

    Raises:
        ssl.SSLError, OSError: it has failed.
    """
    while (wants := tls.handshake()) is not Wants.NOTHING:
        if wants is Wants.READABLE:
            await trio.lowlevel.wait_readable(tls)
        else:
            await trio.lowlevel.wait_writable(tls)


async def _read_frame(tls: TlsSocket) -> tuple[bytes, bytes]:
    """Read the first frame; return it and all bytes that were read."""
    reader, read = FrameReader(HELLO_FRAME_BYTES), b""
    while True:
        try:
            data = tls.recv(HELLO_FRAME_BYTES)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(tls)
            continue
        if not data:
            raise ConnectionResetError("the program has closed the connection before its HELLO")
        read += data
        try:
            frame = next(iter(reader.feed(data)), None)
        except BadDatagram as error:
            raise PeerRefused("hello", f"no HELLO: {error}", Code.NET_ERROR) from None
        if frame is not None and frame[0] != FrameKind.HELLO:
            raise PeerRefused("hello", "the first frame is not a HELLO", Code.ILLEGAL_SESSION)
        if frame is not None:
            return frame, read


async def refuse_plain(plain: socket.socket, answer: bytes) -> None:
    """Send a refused program the answer that says why, and give it time to read it."""
    with suppress(OSError):
        plain.send(answer)
    await _drain_refused(plain, plain)


async def _drain_refused(end: AnySocket, below: socket.socket) -> None:
    """Give a refused program time to read the reason; discard the bytes that it still sends."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_WR)
        with trio.move_on_after(REFUSED_S):
            while True:
                await trio.lowlevel.wait_readable(below)
                if not below.recv(HELLO_FRAME_BYTES):
                    return


class Refusals:
    """Counters of refused programs by reason, and their lines in the log.

    Args:
        log: bounds these lines.
    """

    def __init__(self, log: BoundedLog) -> None:
        self.counts: Counter[str] = Counter()
        self._log = log

    def note(self, reason: str, text: str, where: str = "") -> None:
        """Count one refused program and log the text.

        Args:
            reason: one word for the counter.
            text: the reason of the refusal.
            where: the place of the program, as `origin_of` of local_users.py names it; "" if it is
                not known.
        """
        self.counts[reason] += 1
        self._log.line(
            f"refused: {reason}",
            logging.WARNING,
            "a program%s was refused: %s",
            f" at {where}" if where else "",
            text,
            extra={"refused": reason, "program": where or None},
        )
