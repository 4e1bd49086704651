"""``[http]`` of a configuration: the address at which the daemon answers HTTP, and its users."""

from pathlib import Path
from typing import Final

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address, parse_address, user_path
from groupcommd.programs.credentials import TlsConfig

HTTP_PORT: Final = 4805
_UNIX: Final = "unix:"


@attrs.frozen(kw_only=True)
class HttpTlsTable:
    """``[http.tls]``: certificates, for programs and browsers of other hosts.

    Attributes:
        certificate: PEM file of the certificate with which the daemon answers.
        key: PEM file of its private key.
        ca: PEM file of the authorities that sign the certificates of those who ask.
        revoked: the file of revoked certificates; needs ``ca``.
    """

    certificate: str
    key: str
    ca: str | None = None
    revoked: str | None = None


@attrs.frozen(kw_only=True)
class HttpTable:
    """``[http]``: where the daemon answers (docs/http.md), and who may ask.

    Attributes:
        listen: the address: HOST:PORT, with port 4805 if none is given, ``unix:PATH``, or ``off``.
            Beyond loopback it must require a token or a certificate.
        tokens: the file of tokens, which admit others than the host's users.
        tls: with it, HTTP goes over TLS.
    """

    listen: str = "off"
    tokens: str | None = None
    tls: HttpTlsTable | None = None


@attrs.frozen(kw_only=True)
class HttpConfig:
    """``[http]``, with resolved paths.

    Attributes:
        listen: an address for TCP, or the path of a unix socket.
        tokens: the file of tokens; None: no token is valid.
        tls: the settings for TLS; None: HTTP is plain.
    """

    listen: Address | Path
    tokens: Path | None = None
    tls: TlsConfig | None = None

    @property
    def is_local(self) -> bool:
        """Return whether only programs of this host can connect."""
        return isinstance(self.listen, Path) or self.listen.is_loopback


def read_http(table: HttpTable, base: Path) -> HttpConfig | None:
    """Return the settings of HTTP; None if the daemon does not answer it.

    Args:
        table: the table.
        base: the folder that paths are relative to.

    Raises:
        ConfigError: other hosts could ask without authentication; or keys contradict each
            other.
    """
    if table.listen == "off":
        if table.tokens is not None or table.tls is not None:
            raise ConfigError(
                "http has tokens or tls, and http.listen is not set: write listen ="
                f' "127.0.0.1:{HTTP_PORT}"'
            )
        return None
    listen = read_listen(table.listen, base)
    tokens = base / user_path(table.tokens) if table.tokens is not None else None
    tls = None
    if table.tls is not None:
        tls = _read_tls(table.tls, listen, tokens, base)
    config = HttpConfig(listen=listen, tokens=tokens, tls=tls)
    check_reach(config)
    return config


def table_of(config: HttpConfig) -> HttpTable:
    """Return the table from which `read_http` makes these settings."""
    listen = config.listen
    tls = config.tls
    return HttpTable(
        listen=f"{_UNIX}{listen}" if isinstance(listen, Path) else str(listen),
        tokens=_text(config.tokens),
        tls=None
        if tls is None
        else HttpTlsTable(
            certificate=str(tls.certificate),
            key=str(tls.key),
            ca=_text(tls.ca),
            revoked=_text(tls.revoked),
        ),
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def read_listen(text: str, base: Path) -> Address | Path:
    """Return the address or the path that a text names.

    Raises:
        ConfigError: it names neither.
    """
    if text.startswith(_UNIX):
        path = text.removeprefix(_UNIX)
        if not path:
            raise ConfigError(f"http.listen is {text!r}; write unix:PATH or HOST:PORT")
        return base / user_path(path)
    return parse_address(text, "http.listen", HTTP_PORT)


def listening(config: HttpConfig | None, text: str) -> HttpConfig:
    """Return settings with another address, as the option --http names it.

    Raises:
        ConfigError: it cannot be used.
    """
    listen = read_listen(text, Path())
    if config is None:
        config = HttpConfig(listen=listen)
    tls = config.tls
    if tls is not None:
        if isinstance(listen, Path):
            raise ConfigError(f"--http is {text}, and [http.tls] is set: a socket needs no TLS")
        tls = attrs.evolve(tls, address=listen)
    config = attrs.evolve(config, listen=listen, tls=tls)
    check_reach(config)
    return config


def check_reach(config: HttpConfig) -> None:
    """Check that everybody who can reach the daemon has to authenticate.

    Raises:
        ConfigError: other hosts reach it, and no token or certificate is asked for.
    """
    proves = config.tokens is not None or (config.tls is not None and config.tls.ca is not None)
    if not config.is_local and not proves:
        raise ConfigError(
            f"http.listen is {config.listen}, which other hosts can reach without"
            ' authentication: write tokens = "FILE" in [http] (made by: groupcomm tokens add), or'
            f' ca = "FILE" in [http.tls]; or listen = "127.0.0.1:{HTTP_PORT}"'
        )


def _read_tls(
    table: HttpTlsTable, listen: Address | Path, tokens: Path | None, base: Path
) -> TlsConfig:
    if isinstance(listen, Path):
        raise ConfigError("http.tls is set, and http.listen is a unix socket, which needs no TLS")
    if table.revoked is not None and table.ca is None:
        raise ConfigError(
            "http.tls.revoked is set, and http.tls.ca is not: without an authority no certificate"
            " counts"
        )
    return TlsConfig(
        table="http.tls",
        address=listen,
        certificate=base / user_path(table.certificate),
        key=base / user_path(table.key),
        ca=base / user_path(table.ca) if table.ca else None,
        tokens=tokens,
        revoked=base / user_path(table.revoked) if table.revoked else None,
    )
