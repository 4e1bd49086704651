"""Credentials: how a program authenticates its daemon over TLS, and itself to the daemon."""

import os
import socket
import ssl
from pathlib import Path
from typing import Final, Self

import attrs

from groupcomm.errors import CannotConnect, ConfigError, LocalProtocolError
from groupcomm.host.tls import TlsSocket, Wants, load_certificate
from groupcomm_client.loops import Loop
from groupcomm_client.options import StrPath, TlsOptions

CA_VARIABLE: Final = "GROUPCOMM_CA"
CERTIFICATE_VARIABLE: Final = "GROUPCOMM_CERTIFICATE"
KEY_VARIABLE: Final = "GROUPCOMM_KEY"
TOKEN_VARIABLE: Final = "GROUPCOMM_TOKEN"

_NOT_SIGNED: Final = frozenset((18, 19, 20, 21))
"""Error numbers of OpenSSL: the certificate is self-signed, or its authority is not trusted."""

_NOT_NOW: Final = frozenset((9, 10))
_OTHER_PURPOSE: Final = 26
_OTHER_NAME: Final = frozenset((62, 63, 64))


@attrs.frozen(kw_only=True)
class Credentials:
    """The credentials that were passed to `connect`, or else those of the environment.

    Attributes:
        ca: PEM file of the authorities that sign daemons' certificates; None for those of the
            system.
        certificate, key: PEM files of this program; None if it has none.
        token: the token of this program; "" if it has none.
        insists: whether the program itself has passed the token, so that it must be sent.
        files: the versions of the files of the certificate and the key, as they were read.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    token: str = attrs.field(default="", repr=False)
    insists: bool = False
    files: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, tls: TlsOptions | None = None) -> Self:
        """Return credentials that a program has passed, or else those of the environment; read a
        token file.

        Raises:
            ConfigError: the token file cannot be read, or is empty.
        """
        tls = tls or TlsOptions()
        token = tls.token
        insists = token is not None
        if token is None:
            token = os.environ.get(TOKEN_VARIABLE, "")
        elif not isinstance(token, str):
            token = _read_token(Path(token))
        certificate = _path(tls.certificate, CERTIFICATE_VARIABLE)
        key = _path(tls.key, KEY_VARIABLE)
        return cls(
            ca=_path(tls.ca, CA_VARIABLE),
            certificate=certificate,
            key=key,
            token=token.strip(),
            insists=insists,
            files=tuple(_version(path) for path in (certificate, key) if path is not None),
        )

    def token_for(self, *, tls: bool) -> str:
        """Return the token for a connection with or without TLS; a token is sent over TLS only.

        Raises:
            LocalProtocolError: the program has passed a token, which cannot be sent.
        """
        if self.insists and not tls:
            raise LocalProtocolError(
                "a token is sent over TLS only, so that no other host learns it: connect "
                "to tls://HOST:PORT, or pass no token"
            )
        return self.token if tls else ""

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of this program: TLS 1.3 and nothing older.

        Raises:
            ConfigError: a file does not hold what it should, or cannot be read.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            if self.ca is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(self.ca)
        except OSError as error:
            raise ConfigError(f"ca {self.ca}: {_reason(error)}") from None
        if self.certificate is not None:
            try:
                load_certificate(context, self.certificate, self.key)
            except OSError as error:
                what = f"certificate {self.certificate}, key {self.key or 'in the same file'}"
                raise ConfigError(f"{what}: {_reason(error)}") from None
        return context

    async def secure(
        self, plain: socket.socket, context: ssl.SSLContext, host: str, address: str, loop: Loop
    ) -> TlsSocket:
        """Return a TLS socket over one that is connected to a host.

        Args:
            plain: the connected non-blocking socket.
            context: the result of `context`.
            host: the host whose certificate is expected.
            address: the address as the user wrote it.
            loop: the event loop of the program.

        Raises:
            CannotConnect: one side does not trust the other.
            OSError: the connection is lost.
        """
        tls = TlsSocket(plain, context, host=host)
        try:
            while (wants := tls.handshake()) is not Wants.NOTHING:
                await (loop.readable(tls) if wants is Wants.READABLE else loop.writable(tls))
        except ssl.SSLError as error:
            raise self.explain(address, error) from None
        return tls

    def explain(self, address: str, error: ssl.SSLError) -> CannotConnect:
        """Return the error for a user when TLS fails: what happened, why, and what to do."""
        return CannotConnect(f"cannot connect to {address}: {self._why(error)}")

    def _why(self, error: ssl.SSLError) -> str:
        ca = f"ca {self.ca}" if self.ca else "the system's certificates, as no ca is given"
        if isinstance(error, ssl.SSLCertVerificationError):
            if error.verify_code in _OTHER_NAME:
                return (
                    "the daemon's certificate is for another host "
                    f"({error.verify_message}): connect to a name in the certificate, or "
                    "issue one with groupcomm certs issue --host"
                )
            if error.verify_code == _OTHER_PURPOSE:
                return (
                    "the certificate at this address is not for a daemon, but perhaps "
                    "for a program: it may be an impostor; issue a daemon's certificate "
                    "with groupcomm certs issue --host"
                )
            if error.verify_code in _NOT_NOW:
                return (
                    f"the daemon's certificate is not valid now: {error.verify_message}: "
                    "have a new one issued"
                )
            if error.verify_code in _NOT_SIGNED:
                return (
                    f"the daemon's certificate is not signed by {ca}: pass as ca the "
                    "ca.pem of the authority that has issued it"
                )
            return f"the daemon's certificate: {error.verify_message}"
        reason = error.reason or str(error)
        if "UNKNOWN_CA" in reason or "CERTIFICATE" in reason:
            return (
                f"the daemon refuses certificate {self.certificate} ({reason}): it must "
                "be a program's certificate, valid, and signed by the ca in the daemon's "
                "clients.tls.ca"
            )
        if "WRONG_VERSION_NUMBER" in reason or "PACKET_LENGTH" in reason:
            return (
                "this port does not speak TLS: connect to the port for TLS, see clients.tls.address"
            )
        return f"TLS failed ({reason}): is this a daemon's port for TLS 1.3?"


def _path(given: StrPath | None, variable: str) -> str | None:
    found = os.environ.get(variable) if given is None else os.fspath(given)
    return os.path.expanduser(found) if found else None  # noqa: PTH111 - ssl takes no Path


def _version(path: str) -> tuple[int, ...]:
    """Return what changes when a file is replaced or written; nothing if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - ssl takes no Path
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read_token(file: Path) -> str:
    try:
        token = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token cannot be read: {error}") from None
    if not token.strip():
        raise ConfigError(
            f"the token cannot be read: {file} is empty; what can be read once only, as a pipe, is"
            " no file for a token"
        )
    return token


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"not in PEM, or they do not belong together ({error.reason or error})"
    return error.strerror or str(error)
