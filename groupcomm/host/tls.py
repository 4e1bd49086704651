"""TLS 1.3 on a connected socket, and the principals that certificates prove.

`TlsSocket` is used like a plain non-blocking socket, by daemons and all kinds of clients: they wait
for the socket below, and call again. Two rules make that correct. `recv` returns everything that it
can, so no data waits here while the socket is not readable. And after a BlockingIOError of `send`,
the caller calls again with data that begin with the same bytes.

Bytes pass through memory and not straight from OpenSSL to the socket: that is as fast, and a write
that the socket has accepted in part needs no further care.

Names of different kinds in certificates are different principals: the owner of a host's name is not
the owner of a mail address, or of a program's name, of the same spelling.
"""

import enum
import errno
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
from cryptography.exceptions import InvalidSignature

from groupcomm.security.access import MAX_PRINCIPAL_BYTES
from groupcomm.wire.packet import Raw

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

PROGRAM: Final = "groupcomm:"
"""The start of the URI of a program to which `groupcomm certs` has issued a certificate."""

PROGRAM_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Names without a colon, so that no principal of a program is one of another kind."""

_KINDS: Final = {"DNS": "dns", "email": "mail", "URI": "uri"}
"""Kinds of names, in OpenSSL's words and in those of principals."""


def load_certificate(
    context: ssl.SSLContext, certificate: Path | str, key: Path | str | None
) -> None:
    """Have a context show a certificate; its key may be in the same file.

    OpenSSL would ask for the password of a locked key, at a terminal or on standard input: a loop
    would stand still, and the first line that a program was to send would be the answer.

    Raises:
        OSError: a file cannot be read, or has the wrong contents; ssl.SSLError is one.
    """
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except _Locked:
        text = "the key is locked with a password, which nobody can type here: write it without one"
        raise OSError(errno.EINVAL, text, str(key or certificate)) from None


class _Locked(Exception):
    """A key needs a password."""


def _no_password() -> str:
    raise _Locked


def principal_of(names: Sequence[tuple[str, str]]) -> str | None:
    """Return the principal that a certificate proves, by its first name that is no address.

    ``cert:NAME`` is a program with the URI ``groupcomm:NAME``; others are ``cert:dns:NAME``,
    ``cert:mail:NAME`` and ``cert:uri:NAME``.

    Args:
        names: the (kind, name) pairs of its subjectAltName, with OpenSSL's words for kinds.

    Returns:
        The principal; None without such a name, or with one that cannot be a principal.
    """
    found = next(((kind, name) for kind, name in names if kind in _KINDS), None)
    if found is None:
        return None
    kind, name = found
    own = name.removeprefix(PROGRAM)
    if kind == "URI" and own != name and PROGRAM_NAME.fullmatch(own):
        return f"cert:{own}"
    if kind == "DNS":
        name = name.lower()  # RFC 4343 ignores case
    principal = f"cert:{_KINDS[kind]}:{name}"
    is_one = name.isprintable() and name and len(principal.encode()) <= MAX_PRINCIPAL_BYTES
    return principal if is_one else None


@attrs.frozen
class PeerCertificate:
    """The certificate of the other end, after TLS has checked it.

    Attributes:
        names: the (kind, name) pairs of its subjectAltName.
        serial: its serial number at its authority.
        ends: the time from which it is invalid.
        der: the whole certificate.
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
        """Return whether one of some authorities, in PEM, has signed it directly."""
        from cryptography import x509  # noqa: PLC0415 - few have certificates, and it takes long

        try:
            certificate = x509.load_der_x509_certificate(self.der)
            return any(
                _has_signed(authority, certificate)
                for authority in x509.load_pem_x509_certificates(authorities)
            )
        except ValueError:  # OpenSSL could read the certificate, and this library cannot
            return False


def read_peer_certificate(found: Mapping[str, Any], der: bytes) -> PeerCertificate:
    """Return a checked certificate of the ssl module."""
    ends_s = ssl.cert_time_to_seconds(found["notAfter"])
    return PeerCertificate(
        found.get("subjectAltName", ()),
        int(found["serialNumber"], 16),
        datetime.fromtimestamp(ends_s, UTC),
        der,
    )


def _has_signed(authority: "Certificate", certificate: "Certificate") -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


_RECORD_BYTES: Final = 16_384
_RECORD_HEAD_BYTES: Final = 32
"""More than the bytes that TLS adds to each record."""


class Wants(enum.Enum):
    """The condition that a handshake waits for."""

    NOTHING = enum.auto()  # the handshake is complete
    READABLE = enum.auto()
    WRITABLE = enum.auto()


class TlsSocket:
    """One end of a TLS connection.

    Args:
        socket_: the connected non-blocking socket.
        context: the context of this end.
        host: the name that the certificate of the other end must have; None at the daemon.

    Attributes:
        peer_certificate: the certificate of the other end, checked during the handshake; None
            before, and if it has shown none.
        fault: the error of TLS after the handshake; None without one.
    """

    def __init__(
        self, socket_: socket.socket, context: ssl.SSLContext, *, host: str | None = None
    ) -> None:
        self._socket = socket_
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )
        self._unsent = memoryview(b"")  # encrypted bytes that wait
        self._owed = 0  # the size of their plain data
        self._ended = False
        self.peer_certificate: PeerCertificate | None = None
        self.fault: ssl.SSLError | None = None

    def fileno(self) -> int:
        """Return the descriptor of the socket below, to wait for."""
        return self._socket.fileno()

    def handshake(self) -> Wants:
        """Continue the handshake as far as the socket allows.

        Raises:
            ssl.SSLError: the handshake has failed; the other end gets an alert.
            OSError: the socket has failed.
        """
        while True:
            done = False
            try:
                self._tls.do_handshake()
                done = True
                self.peer_certificate = _peer_certificate(self._tls)
            except ssl.SSLWantReadError:
                pass  # this side's output must be sent first
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
        """Return about `size` bytes; far fewer only if no more have come, and b"" at the end.

        Raises:
            BlockingIOError: nothing has come.
            OSError: the connection is broken, or the input is not TLS.
        """
        parts = self._decrypt()  # some data may be left from the handshake
        missing = size - sum(map(len, parts))
        with suppress(BlockingIOError):
            while missing > 0 and not self._ended:
                asked = _with_heads(missing)
                filled = self._fill(asked)
                more = self._decrypt()
                missing -= sum(map(len, more))
                parts += more
                if filled < asked:  # no more data has arrived
                    break
        if not parts and self.fault is not None:
            raise self.fault
        if not parts and not self._ended:
            raise BlockingIOError
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _decrypt(self) -> list[bytes]:
        """Return the data of all complete records of TLS."""
        parts: list[bytes] = []
        try:
            while part := self._tls.read(_RECORD_BYTES):
                parts.append(part)
            self._ended = True  # the other side has ended the stream in order
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
            BlockingIOError: call again with the same data, or with more behind it.
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
        """End the output, as far as the socket accepts that now."""
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
    """Return the encrypted bytes that hold `size` bytes, even if the last record is cut."""
    records = size // _RECORD_BYTES + 2
    return size + _RECORD_BYTES + records * _RECORD_HEAD_BYTES


def _peer_certificate(tls: ssl.SSLObject) -> PeerCertificate | None:
    found, der = tls.getpeercert(), tls.getpeercert(binary_form=True)
    return read_peer_certificate(found, der) if found and der else None


AnySocket: TypeAlias = socket.socket | TlsSocket
"""The socket of a session."""
