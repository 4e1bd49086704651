"""`groupcomm web`: let browsers join groups, by WebSockets."""

import argparse
import logging
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import trio

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import TLS, Address, parse_address
from groupcomm.host.extras import install_hint
from groupcomm.host.option_types import daemon_addresses, existing_file, whole_number
from groupcomm.host.tls import load_certificate
from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from groupcomm_client.credentials import CERTIFICATE_VARIABLE, KEY_VARIABLE, TOKEN_VARIABLE
from groupcomm_client.targets import default_address
from groupcomm_tools.stopping import run_tasks
from groupcomm_tools.terminal import Reports
from groupcommd.host.bounded_log import BoundedLog
from groupcommd.host.process import raise_descriptor_limit

if TYPE_CHECKING:
    from groupcomm_tools.web.server import WebOptions, WebServer

EXAMPLE: Final = "groupcomm web --page examples/browser_chat/chat.html"

PORT: Final = 4806

RENEWAL_S: Final = 1.0
"""The time after which the files of the certificate are looked at again."""

OWN_DESCRIPTORS: Final = 64
"""The descriptors of the process besides two for each browser."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--listen",
        type=_listen,
        default=Address("127.0.0.1", PORT),
        metavar="HOST:PORT",
        help=f"where browsers connect (127.0.0.1:{PORT}); beyond this host only with --certificate,"
        " and a daemon at tls://",
    )
    parser.add_argument(
        "--address",
        type=daemon_addresses,
        metavar="WHERE",
        help="address of the daemon: with tls://HOST:PORT each browser needs a token of its own;"
        " with another one only this user's browsers may connect, as this user; several, separated"
        " by commas, are tried in turn; default: $GROUPCOMM_ADDRESS, or the daemon of this user",
    )
    for name, what in (
        ("ca", "authorities to trust for the daemon; default: $GROUPCOMM_CA, or the system's"),
        (
            "certificate",
            "certificate of the server, for wss://; one that is renewed is used a second later",
        ),
        ("key", "private key of that certificate; default: in the same file"),
        ("page", "page to show at /"),
    ):
        parser.add_argument(f"--{name}", type=existing_file, metavar="FILE", help=what)
    parser.add_argument(
        "--origin",
        action="append",
        default=[],
        metavar="URL",
        help="pages of this origin may connect, as https://shop.example, besides the server's own;"
        " more than once",
    )
    for name, default, most, what in (
        ("connections", 1000, 100_000, "most connections at one time"),
        ("message-bytes", 1_048_576, MAX_MESSAGE_BYTES, "most bytes of a message, either way"),
    ):
        parser.add_argument(
            f"--{name}",
            type=whole_number(1, most),
            default=default,
            metavar="N",
            help=f"{what} ({default})",
        )


def _listen(text: str) -> Address:
    """Return an address of the command line; errors are `argparse`'s."""
    try:
        return parse_address(text, "--listen", port=PORT)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(options: argparse.Namespace) -> int:
    """Serve browsers until ^C or SIGTERM.

    Raises:
        ConfigError: the options would let in who must stay out, or a package is missing.
    """
    try:
        import wsproto  # noqa: F401, PLC0415 - wsproto is an extra
    except ImportError:
        raise ConfigError(f"WebSockets need wsproto: {install_hint('web')}") from None
    for variable in (TOKEN_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE):
        os.environ.pop(variable, None)  # no browser may go by another one's rights
    run_tasks(_serve, options.listen, web_options(options), options.certificate, options.key)
    return 0


def web_options(options: argparse.Namespace) -> "WebOptions":
    """Return the options of the server.

    Raises:
        ConfigError: they would let in who must stay out, or a file is wrong.
    """
    from groupcomm_tools.web.server import WebOptions  # noqa: PLC0415 - wsproto is an extra
    from groupcomm_tools.web.session import Daemon  # noqa: PLC0415

    address = options.address or default_address()
    kinds = {each.strip().startswith(TLS) for each in address.split(",")}
    if len(kinds) > 1:
        raise ConfigError(f"--address {address}: either all begin with {TLS}, or none does")
    daemon = Daemon(address, options.ca, wants_token=kinds == {True})
    if not options.listen.is_loopback:
        if not daemon.wants_token:
            raise ConfigError(
                f"--listen {options.listen}: other hosts can reach it, and nothing tells who their"
                f" users are: give --address {TLS}HOST:PORT, so that they need tokens"
            )
        if options.certificate is None:
            raise ConfigError(
                f"--listen {options.listen}: whoever hears the network would read tokens: give"
                " --certificate and --key, or listen on 127.0.0.1 behind a proxy with TLS"
            )
    certificate = options.certificate
    return WebOptions(
        daemon=daemon,
        origins=frozenset(options.origin),
        page=options.page,
        tls=None if certificate is None else load_tls(certificate, options.key),
        connections=min(options.connections, (raise_descriptor_limit() - OWN_DESCRIPTORS) // 2),
        message_bytes=options.message_bytes,
    )


def load_tls(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """Return what speaks TLS as the server.

    Raises:
        ConfigError: the certificate or its key cannot be used.
    """
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        load_certificate(tls, certificate, key)
    except OSError as error:
        raise ConfigError(f"--certificate {certificate}: {error.strerror or error}") from None
    return tls


async def _serve(
    listen: Address, options: "WebOptions", certificate: Path | None, key: Path | None
) -> None:
    """Serve browsers for ever, each with an origin of the server itself or an allowed one."""
    from groupcomm_tools.web.server import WebServer  # noqa: PLC0415 - wsproto is an extra

    listeners = await trio.open_tcp_listeners(listen.port, host=listen.host)
    bound = Address(listen.host, listeners[0].socket.getsockname()[1])
    scheme = "http" if options.tls is None else "https"
    own = {f"{scheme}://{name}" for name in (bound, f"localhost:{bound.port}")}
    log = BoundedLog()
    with Reports() as reports, _lines_of(reports):
        reports.say(f"browsers connect to {scheme.replace('http', 'ws')}://{bound}/")

        def say(reason: str, text: str) -> None:
            log.line(reason, logging.WARNING, "%s: %s", reason, text)

        web = WebServer(attrs.evolve(options, origins=options.origins | own), say)
        async with trio.open_nursery() as nursery:
            if certificate is not None:
                nursery.start_soon(_renew, web, certificate, key, say)
            await trio.serve_listeners(web.serve, listeners)


async def _renew(
    web: "WebServer", certificate: Path, key: Path | None, say: Callable[[str, str], None]
) -> None:
    """Use a certificate that was renewed for the connections that come then."""
    files = [each for each in (certificate, key) if each is not None]
    known = [each.stat().st_mtime_ns for each in files]
    while True:
        await trio.sleep(RENEWAL_S)
        try:
            found = [(await trio.Path(each).stat()).st_mtime_ns for each in files]
            if found == known:
                continue
            web.tls = await trio.to_thread.run_sync(load_tls, certificate, key)
        except (ConfigError, OSError) as error:
            say("certificate", f"the one before stays in use: {error}")
        else:
            known = found
            say("certificate", "new connections get the renewed one")


@contextmanager
def _lines_of(reports: Reports) -> Iterator[None]:
    """Have lines of the log, which others cause, never wait for their reader."""
    handler = logging.Handler()
    handler.emit = lambda record: reports.say(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("groupcommd")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
