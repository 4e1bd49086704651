"""Doors: the listeners for programs, each with its way of finding out who comes in.

Nothing of the core is reachable before: of a program that comes by TLS the handshake and its first
frame, a HELLO, are looked at here; of others the system tells, or nobody needs to.
"""

import logging
import os
import pwd
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from math import inf
from typing import Final

import attrs
import trio

from groupcomm.errors import BadDatagram, ConfigError, GroupCommError
from groupcomm.host.shown_certificate import ShownCertificate
from groupcomm.host.tls_socket import AnySocket, TlsSocket, Wants
from groupcomm.session.codes import Code
from groupcomm.session.frame_reader import FrameReader
from groupcomm.session.frames import (
    HELLO_FRAME_BYTES,
    FrameKind,
    decode_hello_untrusted,
    encode_closed,
)
from groupcommd.connection import Connection
from groupcommd.local_users import Admits, tcp_user, unix_user
from groupcommd.revocation_file import Revocations, read_revocations
from groupcommd.tls import TlsConfig, server_context
from groupcommd.token_file import TokenBook

MAX_GREETING: Final = 512
"""Programs of this host that have not said hello; beyond it the oldest of them is cut off."""

GRACE_S: Final = 0.5
"""So long nobody is cut off for others, who wait in the system's queue meanwhile. It bounds how
many are accepted a second, however many try: 128 by TCP. A handshake of TLS takes two round trips.
"""

MAX_HALF_OPEN: Final = 64
"""The same of those that come by TCP: nobody knows yet who they are."""

NAMES_KEPT_S: Final = 60
"""So long the names of users are kept: they may be given to others."""

MAX_NAMES: Final = 1024
"""Of users, that are kept."""

REFUSED_S: Final = 1.0
"""So long a refused program may take to read why; a reset would overtake the reason."""

BUFFER_BYTES: Final = 1024 * 1024
"""Asked for with unix sockets: what a program is to get goes there in few pieces."""

_HANDSHAKE: Final = b"\x16"
"""The first byte of whoever speaks TLS (RFC 8446, 5.1)."""

_log = logging.getLogger("groupcommd")


class Refused(GroupCommError):
    """A program is not let in.

    Attributes:
        why: one word for the counters.
        code: what it is told, if it can be told anything.
    """

    def __init__(self, why: str, text: str, code: Code = Code.REJECT_AUTH) -> None:
        super().__init__(text)
        self.why = why
        self.code = code


@attrs.frozen
class Guest:
    """A program that is let in.

    Attributes:
        socket: what its session goes over.
        principal: whose session it is.
        first: what was read of the session's bytes already.
        shown: the certificate by which it came; None if it came otherwise.
    """

    socket: AnySocket
    principal: str
    first: bytes = b""
    shown: ShownCertificate | None = None


def _identify_unix(accepted: socket.socket) -> str:
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    uid = unix_user(accepted)
    if uid is None:
        raise Refused(
            "user",
            "this user is not one of the daemon's container, where all such users look alike, and"
            " as user nobody: run the program in it, as another user than nobody",
        )
    return unix_principal(uid)


def _identify_tcp(admits: Admits, accepted: socket.socket) -> str:
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    uid = tcp_user(accepted)
    if uid is None:
        raise Refused("user", "the system does not tell whose this connection is")
    if not admits(uid):
        text = f"user {uid} may not connect to this daemon: its clients.unix_for says who may"
        raise Refused("user", text)
    return unix_principal(uid)


class Door:
    """A listener of programs whose principal is known at once.

    Nothing of their protocol is asked for that, so it suits protocols that have no credentials.

    Args:
        listener: accepts them.
        most: so many may be half-open at one time.
        identify: whose a connection is, or Refused.

    Attributes:
        half_open: connections that have not said hello, by number, the oldest first.
    """

    def __init__(
        self,
        listener: socket.socket,
        most: int,
        identify: Callable[[socket.socket], str] = _identify_unix,
    ) -> None:
        self.listener = listener
        self.half_open: dict[int, Connection] = {}
        self._left = trio.lowlevel.ParkingLot()
        self._cut_at = -inf  # when somebody was cut off for another one
        self._most = most
        self._identify = identify

    @property
    def speaks_tls(self) -> bool:
        """Whether a program understands nothing but TLS here."""
        return False

    def shrink(self, most: int) -> None:
        """Have so many half-open connections at one time, if that is fewer; 1 at least."""
        self._most = max(1, min(self._most, most))

    async def room(self) -> None:
        """Wait until one more may be half-open: one has left, or the oldest has had its time.

        They are cut off one by one, so that what goes on beside is not kept waiting.
        """
        while len(self.half_open) >= self._most:
            oldest = next(iter(self.half_open.values()))
            at = max(oldest.since + GRACE_S, self._cut_at + GRACE_S / self._most)
            if trio.current_time() >= at:
                return
            with trio.move_on_at(at):
                await self._left.park()

    def enter(self, connection: Connection) -> bool:
        """Add one more that is half-open; return whether the oldest had to go for it."""
        self.half_open[connection.number] = connection
        if len(self.half_open) <= self._most:
            return False
        oldest = self.half_open.pop(next(iter(self.half_open)))
        oldest.scope.cancel()
        self._cut_at = trio.current_time()
        return True

    def leave(self, connection: Connection) -> None:
        """Remove one that has said hello, or has gone."""
        if self.half_open.pop(connection.number, None) is not None:
            self._left.unpark_all()

    async def admit(self, accepted: socket.socket) -> Guest:
        """Find out who somebody is.

        Raises:
            Refused: it may not come in.
            OSError: it has gone.
        """
        try:
            return Guest(accepted, self._identify(accepted))
        except Refused as refused:
            with suppress(OSError):
                accepted.send(encode_closed(refused.code, str(refused)))
            await _say_last(accepted, accepted)
            raise


def unix_door(listener: socket.socket) -> Door:
    """Programs of this host; the system tells whose they are."""
    return Door(listener, MAX_GREETING)


def loopback_door(listener: socket.socket, admits: Admits) -> Door:
    """Programs of this host that come by TCP; the system tells whose they are, and some may not."""
    return Door(listener, MAX_HALF_OPEN, partial(_identify_tcp, admits))


def unix_principal(uid: int) -> str:
    """Return ``unix:`` and the name of a user; ``uid:`` and the number of one without a name.

    They differ in their kind, as a user may be named ``1001``. While the system has no descriptor
    to look into its files with, users are called as before.

    Raises:
        OSError: it has none, and this one was never looked for.
    """
    try:
        principal = _unix_principal(uid, int(time.monotonic() / NAMES_KEPT_S))
    except OSError:
        if uid not in _last_names:
            raise
        return _last_names[uid]
    if len(_last_names) >= MAX_NAMES:
        _last_names.clear()
    _last_names[uid] = principal
    return principal


_last_names: Final[dict[int, str]] = {}


@lru_cache(maxsize=MAX_NAMES)
def _unix_principal(uid: int, period: int) -> str:
    try:
        return f"unix:{pwd.getpwuid(uid).pw_name}"
    except KeyError:
        os.close(os.open(os.sep, os.O_RDONLY))  # else it may only be that nothing can be opened
        return f"uid:{uid}"


def owners() -> tuple[str, str]:
    """Return the principals of the daemon's own user and of root."""
    return _owner(os.geteuid()), _owner(0)


def _owner(uid: int) -> str:
    try:
        return unix_principal(uid)
    except OSError:
        return f"uid:{uid}"


@attrs.frozen
class Keeper:
    """By what a door for TLS knows its programs.

    Attributes:
        context: of TLS.
        tokens: that count; None: none does.
        ca: those who sign programs' certificates, in PEM.
        revoked: certificates that count no more.
    """

    context: ssl.SSLContext
    tokens: TokenBook | None
    ca: bytes = b""
    revoked: Revocations = attrs.field(factory=Revocations)


def read_keeper(config: TlsConfig) -> Keeper:
    """Read what the files of a configuration hold now.

    Raises:
        ConfigError: a file cannot be read or does not hold what it should, or others may read it.
    """
    try:
        tokens = TokenBook(config.tokens) if config.tokens is not None else None
        context = server_context(config)  # it looks whether others could have changed the files
        ca = config.ca.read_bytes() if config.ca is not None else b""
        revoked = read_revocations(config.revoked) if config.revoked is not None else Revocations()
        return Keeper(context, tokens, ca, revoked)
    except OSError as error:
        what = f"{error.filename}: {error.strerror or error}"
        raise ConfigError(f"clients.tls: {what}; make the files with: groupcomm certs") from None


class TlsDoor(Door):
    """Programs from anywhere, which prove who they are by a certificate or a token.

    Args:
        listener: accepts them.
        keeper: knows them; may be replaced.
        most: see `Door`.
    """

    def __init__(self, listener: socket.socket, keeper: Keeper, most: int = MAX_HALF_OPEN) -> None:
        super().__init__(listener, most)
        self.keeper = keeper

    @property
    def speaks_tls(self) -> bool:
        """It does."""
        return True

    def admits_token(self, name: str) -> bool:
        """Whether a token of this name counts."""
        tokens = self.keeper.tokens
        return tokens is not None and tokens.knows(name, datetime.now(UTC))

    def expired_tokens(self) -> frozenset[str]:
        """The names of tokens that were let in until they expired."""
        tokens = self.keeper.tokens
        return frozenset() if tokens is None else tokens.expired(datetime.now(UTC))

    async def admit(self, accepted: socket.socket) -> Guest:
        """See `Door`: the handshake, the first frame, and who that is."""
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keeper = self.keeper
        tls = TlsSocket(accepted, keeper.context)
        await trio.lowlevel.wait_readable(accepted)
        if accepted.recv(1, socket.MSG_PEEK) not in (_HANDSHAKE, b""):
            text = "this port speaks TLS: connect to tls://HOST:PORT"
            await say_last(accepted, encode_closed(Code.REJECT_AUTH, text))
            raise Refused("tls", "TLS: what it has sent is something else")
        try:
            await _shake_hands(tls)
        except ssl.SSLError as error:
            await _say_last(accepted, accepted)
            raise Refused("tls", f"TLS: {error.reason or error}") from None
        try:
            frame, first = await _read_frame(tls)
            principal = self._principal(tls, frame)
            shown = tls.shown
            if shown and self.keeper.ca != keeper.ca and not shown.is_signed_by(self.keeper.ca):
                raise Refused("certificate", f"the authority of {principal} is gone")
            return Guest(tls, principal, first, shown)
        except Refused as refused:
            with suppress(OSError):
                tls.send(encode_closed(refused.code, str(refused)))
            await _say_last(tls, accepted)
            raise

    def _principal(self, tls: TlsSocket, frame: bytes) -> str:
        if tls.shown is not None:
            principal = tls.shown.principal
            if principal is None:
                raise Refused("certificate", "the certificate has no name in its subjectAltName")
            if self.keeper.revoked.has(tls.shown):
                text = f"certificate {tls.shown.serial:x} of {principal} was revoked"
                raise Refused("certificate", text)
            return principal
        try:
            token = decode_hello_untrusted(frame).token
        except BadDatagram as error:
            raise Refused("hello", f"no HELLO: {error}", Code.NET_ERROR) from None
        tokens = self.keeper.tokens
        if tokens is None:
            raise Refused("certificate", "this daemon wants a certificate, and got none")
        if not token:
            raise Refused("token", "this daemon wants a certificate or a token, and got none")
        name = tokens.name_of(token, datetime.now(UTC))
        if name is None:
            raise Refused("token", "the token is wrong, was revoked or has expired")
        return f"token:{name}"


async def _shake_hands(tls: TlsSocket) -> None:
    while (wants := tls.handshake()) is not Wants.NOTHING:
        if wants is Wants.READABLE:
            await trio.lowlevel.wait_readable(tls)
        else:
            await trio.lowlevel.wait_writable(tls)


async def _read_frame(tls: TlsSocket) -> tuple[bytes, bytes]:
    """The first frame, and all that was read."""
    reader, read = FrameReader(HELLO_FRAME_BYTES), b""
    while True:
        try:
            data = tls.recv(HELLO_FRAME_BYTES)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(tls)
            continue
        if not data:
            raise ConnectionResetError("it has gone before its HELLO")
        read += data
        try:
            frame = next(iter(reader.feed(data)), None)
        except BadDatagram as error:
            raise Refused("hello", f"no HELLO: {error}", Code.NET_ERROR) from None
        if frame is not None and frame[0] != FrameKind.HELLO:
            raise Refused("hello", "the first frame is not a HELLO", Code.ILLEGAL_SESSION)
        if frame is not None:
            return frame, read


async def say_last(plain: socket.socket, said: bytes) -> None:
    """Tell a program that is refused why, and let it read that."""
    with suppress(OSError):
        plain.send(said)
    await _say_last(plain, plain)


async def _say_last(end: AnySocket, below: socket.socket) -> None:
    """Let a refused program read why: what it still sends is thrown away meanwhile."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_WR)
        with trio.move_on_after(REFUSED_S):
            while True:
                await trio.lowlevel.wait_readable(below)
                if not below.recv(HELLO_FRAME_BYTES):
                    return


class Refusals:
    """How many programs were not let in, by reason; in the log at most one line a second each."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._told: dict[str, float] = {}

    def note(self, why: str, text: str) -> None:
        """One more."""
        self.counts[why] += 1
        now = trio.current_time()
        if now >= self._told.get(why, -1.0) + 1.0:
            self._told[why] = now
            _log.warning("a program is not let in: %s", text, extra={"refused": why})
