"""What a daemon needs for TLS with its programs: its certificate, whom it trusts, their tokens."""

import ssl
from pathlib import Path

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address
from groupcomm.host.private_files import open_private, open_unwritable


@attrs.frozen(kw_only=True)
class TlsConfig:
    """``[clients.tls]``, with paths as they are opened.

    Attributes:
        address: where programs connect.
        certificate, key: PEM files of this daemon.
        ca: PEM file with those who sign programs' certificates; None: nobody has one.
        tokens: the file of tokens; None: nobody has one.
        revoked: the file of programs' certificates that count no more; None: there are none.
    """

    address: Address
    certificate: Path
    key: Path
    ca: Path | None = None
    tokens: Path | None = None
    revoked: Path | None = None


def server_context(config: TlsConfig) -> ssl.SSLContext:
    """How this daemon speaks TLS: 1.3 and nothing older.

    A program without a certificate gets through; it must have a token then.

    Raises:
        ConfigError: a file does not hold what it should; others may change or replace it, or read
            the key.
        OSError: a file cannot be read.
    """
    open_private(config.key, "clients.tls.key").close()
    open_unwritable(config.certificate, "clients.tls.certificate").close()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # sessions are long: nothing is gained by resuming them
    try:
        context.load_cert_chain(config.certificate, config.key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"clients.tls.certificate {config.certificate} and key {config.key}: no certificate and"
            f" its key in PEM ({error}); make them with: groupcomm certs"
        ) from None
    if config.ca is not None:
        open_unwritable(config.ca, "clients.tls.ca").close()
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(config.ca)
        except ssl.SSLError as error:
            raise ConfigError(
                f"clients.tls.ca {config.ca}: no certificates in PEM ({error})"
            ) from None
    return context


def _no_password() -> str:
    raise ValueError("the key is locked with a password, which a daemon cannot type")
