"""TLS credentials: the files by which a TLS listener authenticates its programs.

They come from the files of ``[clients.tls]``: the daemon's own certificate, the authorities that
sign programs' certificates, the revoked ones, and the tokens.
"""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address
from groupcomm.host.private_files import open_private, open_unwritable
from groupcomm.host.tls import PeerCertificate, load_certificate
from groupcommd.programs.revocation_file import Revocations, read_revocations
from groupcommd.programs.token_file import TokenBook

# ssl reads a module from the disk when it reads the first date of a certificate: here, not then.
ssl.cert_time_to_seconds("Jan  1 00:00:00 2026 GMT")


@attrs.frozen(kw_only=True)
class TlsConfig:
    """``[clients.tls]`` or ``[http.tls]``, with resolved paths.

    Attributes:
        table: the table of the configuration, for errors.
        address: the address to which programs connect.
        certificate, key: PEM files of this daemon.
        ca: PEM file of the authorities that sign programs' certificates; None without any.
        tokens: the file of tokens; None without any.
        revoked: the file of programs' certificates that are not valid any more; None without any.
    """

    table: str = "clients.tls"
    address: Address
    certificate: Path
    key: Path
    ca: Path | None = None
    tokens: Path | None = None
    revoked: Path | None = None


@attrs.frozen
class TlsCredentials:
    """The contents of the files of a `TlsConfig`.

    Attributes:
        context: the context of TLS sockets.
        tokens: the valid tokens; None if no token is valid.
        ca: the authorities that sign programs' certificates, in PEM.
        revoked: certificates that are not valid any more.
    """

    context: ssl.SSLContext
    tokens: TokenBook | None
    ca: bytes = b""
    revoked: Revocations = attrs.field(factory=Revocations)

    def refresh(self) -> None:
        """Read the file of tokens again if it has changed, which may wait for the disk."""
        if self.tokens is not None:
            self.tokens.refresh()

    def accepts_token(self, name: str) -> bool:
        """Return whether the token of this name is valid."""
        return self.tokens is not None and self.tokens.knows(name, datetime.now(UTC))

    def still_trusts(self, shown: PeerCertificate, earlier: "TlsCredentials") -> bool:
        """Return whether a certificate that earlier credentials have let in is valid for these."""
        if self.revoked.has(shown):
            return False
        return self.ca == earlier.ca or shown.is_signed_by(self.ca)

    def expired_tokens(self) -> frozenset[str]:
        """Return the names of the tokens that have expired."""
        return frozenset() if self.tokens is None else self.tokens.expired(datetime.now(UTC))


def read_tls_credentials(config: TlsConfig) -> TlsCredentials:
    """Read the files of a configuration.

    Raises:
        ConfigError: a file cannot be read or has the wrong contents, or other users may read it.
    """
    try:
        tokens = TokenBook(config.tokens, by_itself=False) if config.tokens is not None else None
        context = server_context(config)  # also checks whether others could have changed the files
        ca = config.ca.read_bytes() if config.ca is not None else b""
        revoked = read_revocations(config.revoked) if config.revoked is not None else Revocations()
        return TlsCredentials(context, tokens, ca, revoked)
    except OSError as error:
        what = f"{config.table}: {error.filename}: {error.strerror or error}"
        remedy = "make the files with: groupcomm certs"
        if isinstance(error, PermissionError):
            remedy = "the user of the daemon must own the file, or be able to read it"
        elif error.filename == str(config.tokens):
            remedy = f"make it with: groupcomm tokens add {config.tokens} NAME"
        elif error.filename == str(config.revoked):
            remedy = "copy it from the folder of groupcomm certs, or leave `revoked` out"
        raise ConfigError(f"{what}; {remedy}") from None


def server_context(config: TlsConfig) -> ssl.SSLContext:
    """Return a context for TLS 1.3 and nothing older.

    The handshake of a program without a certificate succeeds; the program must have a token then.

    Raises:
        ConfigError: a file has the wrong contents; other users may change or replace it, or read
            the key.
        OSError: a file cannot be read.
    """
    open_private(config.key, f"{config.table}.key").close()
    open_unwritable(config.certificate, f"{config.table}.certificate").close()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # sessions are long: a resumption gains nothing
    try:
        load_certificate(context, config.certificate, config.key)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{config.table}.certificate {config.certificate} and key {config.key}: no certificate"
            f" and its key in PEM ({error}); make them with: groupcomm certs"
        ) from None
    if config.ca is not None:
        open_unwritable(config.ca, f"{config.table}.ca").close()
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(config.ca)
        except ssl.SSLError as error:
            raise ConfigError(
                f"{config.table}.ca {config.ca}: no certificates in PEM ({error})"
            ) from None
    return context
