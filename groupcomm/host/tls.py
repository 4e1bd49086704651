"""Certificates of programs: the principals that they prove, and how long.

Names of different kinds are kept apart: who may have certificates for names of hosts signed is not
for that reason whoever has a mail address, or a program of ours, of the same spelling.
"""

import enum
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import attrs
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from groupcomm.security.access import MAX_PRINCIPAL_BYTES
from groupcomm.wire.packet import Raw

PROGRAM: Final = "groupcomm:"
"""Begins the URI of a program to which `groupcomm certs` has issued a certificate."""

PROGRAM_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""No colon: so no principal of a program is one of another kind."""

_KINDS: Final = {"DNS": "dns", "email": "mail", "URI": "uri"}
"""What OpenSSL calls a name, and what principals do."""


def principal_of(names: Sequence[tuple[str, str]]) -> str | None:
    """Return the principal that a certificate proves: by the first name in it that is no address.

    ``cert:NAME`` is of a program with the URI ``groupcomm:NAME``; others are ``cert:dns:NAME``,
    ``cert:mail:NAME`` and ``cert:uri:NAME``.

    Args:
        names: (kind, name) pairs of its subjectAltName, with OpenSSL's words for kinds.

    Returns:
        None if it has no such name, or one that cannot be a principal.
    """
    found = next(((kind, name) for kind, name in names if kind in _KINDS), None)
    if found is None:
        return None
    kind, name = found
    own = name.removeprefix(PROGRAM)
    if kind == "URI" and own != name and PROGRAM_NAME.fullmatch(own):
        return f"cert:{own}"
    if kind == "DNS":
        name = name.lower()  # as RFC 4343 compares them
    principal = f"cert:{_KINDS[kind]}:{name}"
    is_one = name.isprintable() and name and len(principal.encode()) <= MAX_PRINCIPAL_BYTES
    return principal if is_one else None


@attrs.frozen
class PeerCertificate:
    """What a program has shown, after TLS has checked it.

    Attributes:
        names: (kind, name) pairs of its subjectAltName.
        serial: of its authority.
        ends: from then on it counts no more.
        der: all of it.
    """

    names: tuple[tuple[str, str], ...]
    serial: int
    ends: datetime
    der: bytes = attrs.field(repr=False)

    @property
    def principal(self) -> str | None:
        """See `principal_of`."""
        return principal_of(self.names)

    def is_signed_by(self, authorities: bytes) -> bool:
        """Tell whether one of some authorities, in PEM, has signed it, and not one in between."""
        try:
            certificate = x509.load_der_x509_certificate(self.der)
            return any(
                _has_signed(authority, certificate)
                for authority in x509.load_pem_x509_certificates(authorities)
            )
        except ValueError:  # OpenSSL can read it, and the other library cannot
            return False


def read_peer_certificate(found: Mapping[str, Any], der: bytes) -> PeerCertificate:
    """Return a certificate as the ssl module tells it, checked."""
    ends_s = ssl.cert_time_to_seconds(found["notAfter"])
    return PeerCertificate(
        found.get("subjectAltName", ()),
        int(found["serialNumber"], 16),
        datetime.fromtimestamp(ends_s, UTC),
        der,
    )


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


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
        peer_certificate: the certificate of the other end, checked during the handshake; None
            before, and if it has shown none.
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
        self.peer_certificate: PeerCertificate | None = None
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
                self.peer_certificate = _peer_certificate(self._tls)
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


def _peer_certificate(tls: ssl.SSLObject) -> PeerCertificate | None:
    found, der = tls.getpeercert(), tls.getpeercert(binary_form=True)
    return read_peer_certificate(found, der) if found and der else None


AnySocket: TypeAlias = socket.socket | TlsSocket
"""What the bytes of a session go over."""
