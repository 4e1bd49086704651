"""TLS 1.3 on a connected socket, used like a plain non-blocking one.

Daemons and all kinds of clients use it: whoever waits, waits for the socket below, and calls again.
The rules that make that right: `recv` leaves nothing behind that it could give, so nothing waits
here while the socket is not readable; and who was told to come back by `send` (BlockingIOError)
comes back with data that begin with the same bytes.

Bytes pass through memory and not straight from OpenSSL to the socket: that is as fast, and a write
that the socket took in part needs no further thought.
"""

import enum
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from groupcomm.host.shown_certificate import ShownCertificate, read_shown
from groupcomm.wire.raw import Raw

_RECORD_BYTES: Final = 16_384
_RECORD_HEAD_BYTES: Final = 32
"""More than what TLS adds to each record."""


class Wants(enum.Enum):
    """What a handshake waits for."""

    NOTHING = enum.auto()  # it is done
    READABLE = enum.auto()
    WRITABLE = enum.auto()


class TlsSocket:
    """One end of a connection.

    Args:
        socket_: connected, non-blocking.
        context: of this end.
        host: whom the certificate of the other end must name; None at the daemon.

    Attributes:
        shown: after the handshake the certificate of the other end, which was checked; None
            without one.
        fault: how TLS has failed after the handshake; None while it has not.
    """

    def __init__(
        self, socket_: socket.socket, context: ssl.SSLContext, *, host: str | None = None
    ) -> None:
        self._socket = socket_
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )
        self._unsent = memoryview(b"")  # encrypted
        self._owed = 0  # bytes of the data that these are
        self._ended = False
        self.shown: ShownCertificate | None = None
        self.fault: ssl.SSLError | None = None

    def fileno(self) -> int:
        """Of the socket below; wait for that."""
        return self._socket.fileno()

    def handshake(self) -> Wants:
        """Go on with it as far as the socket allows.

        Raises:
            ssl.SSLError: it has failed; the other end is told.
            OSError: the socket has.
        """
        while True:
            done = False
            try:
                self._tls.do_handshake()
                done = True
                self.shown = _shown(self._tls)
            except ssl.SSLWantReadError:
                pass  # what it has to say may come first
            except ssl.SSLError:
                with suppress(OSError):
                    self._flush()
                raise
            try:
                self._flush()
                if done:
                    return Wants.NOTHING
            except BlockingIOError:
                return Wants.WRITABLE
            try:
                self._fill(_RECORD_BYTES)
            except BlockingIOError:
                return Wants.READABLE

    # ---- as a socket ----

    def recv(self, size: int) -> bytes:
        """About so many bytes; much less only if no more are there, b"" at the end.

        Raises:
            BlockingIOError: nothing is there.
            OSError: the connection is broken, or what comes is no TLS.
        """
        parts = self._decrypt()  # something may be left from the handshake
        missing = size - sum(map(len, parts))
        with suppress(BlockingIOError):
            while missing > 0 and not self._ended:
                asked = _with_heads(missing)
                filled = self._fill(asked)
                more = self._decrypt()
                missing -= sum(map(len, more))
                parts += more
                if filled < asked:  # no more are there
                    break
        if not parts and self.fault is not None:
            raise self.fault
        if not parts and not self._ended:
            raise BlockingIOError
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _decrypt(self) -> list[bytes]:
        """All that is whole: a record of TLS at a time."""
        parts: list[bytes] = []
        try:
            while part := self._tls.read(_RECORD_BYTES):
                parts.append(part)
            self._ended = True  # in order
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            if not isinstance(error, ssl.SSLEOFError):
                self.fault = error
            self._ended = True
        return parts

    def send(self, data: Raw) -> int:
        """Send all of the data.

        Raises:
            BlockingIOError: come back with the same data, or more behind it.
            OSError: the connection is broken.
        """
        if not self._owed:
            self._owed = self._tls.write(data)
        self._flush()
        sent, self._owed = self._owed, 0
        return sent

    def sendmsg(self, parts: Sequence[Raw]) -> int:
        """Send all of several parts; see `send`."""
        return self.send(b"".join(parts) if not self._owed else b"")

    def shutdown(self, how: int) -> None:
        """Say that nothing follows, as far as the socket takes it now."""
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        with suppress(BlockingIOError):
            self._flush()
        self._socket.shutdown(how)

    def close(self) -> None:
        """Close the socket below."""
        self._socket.close()

    # ---- inside ----

    def _fill(self, size: int) -> int:
        raw = self._socket.recv(size)
        if raw:
            self._incoming.write(raw)
        else:
            self._incoming.write_eof()
        return len(raw)

    def _flush(self) -> None:
        more = self._outgoing.read()
        if more:
            self._unsent = memoryview(bytes(self._unsent) + more if self._unsent else more)
        while self._unsent:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]


def _with_heads(size: int) -> int:
    """Bytes in which there are so many once they are decrypted, though the last record be cut."""
    records = size // _RECORD_BYTES + 2
    return size + _RECORD_BYTES + records * _RECORD_HEAD_BYTES


def _shown(tls: ssl.SSLObject) -> ShownCertificate | None:
    found, der = tls.getpeercert(), tls.getpeercert(binary_form=True)
    return read_shown(found, der) if found and der else None


AnySocket: TypeAlias = socket.socket | TlsSocket
"""What the bytes of a session go over."""
