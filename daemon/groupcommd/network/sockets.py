"""The sockets of a daemon: opened before it starts, and closed after it has ended."""

import json
import logging
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self, TypeVar

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address, scope_fault
from groupcomm.host.private_files import (
    ENTER_BY,
    folder_fault,
    make_private_folder,
    write_private,
)
from groupcomm.session.spread.names import daemon_fault
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.config.http_table import HttpConfig
from groupcommd.config.present_address import is_here
from groupcommd.config.roster_config import former_places
from groupcommd.network.networks import Networks
from groupcommd.network.udp import UdpSocket
from groupcommd.programs.credentials import read_tls_credentials
from groupcommd.programs.listeners import (
    Listener,
    TlsListener,
    loopback_listener,
    unix_listener,
)
from groupcommd.programs.local_users import admission, check_tcp_users
from groupcommd.programs.spread_listener import spread_tcp, spread_unix
from groupcommd.programs.token_file import TokenBook
from groupcommd.programs.unix_sockets import (
    BACKLOG,
    check_free,
    close_unix,
    listen_at,
    listen_for_spread,
)

MAX_PATH_BYTES: Final = 107
"""The longest path of a unix socket on Linux."""

_Socket = TypeVar("_Socket")
_log = logging.getLogger("groupcommd")


class Sockets:
    """All sockets that a configuration names; if one cannot be opened, none is.

    Attributes:
        udp: the socket for the other daemons; over several networks if the daemon has several
            addresses.
        listeners: the listeners for clients.
        tcp: the address at which clients connect by TCP; None without one.
        tls: the address at which clients connect by TLS; None without one.
        tls_listener: the listener at that address.
        spread_unix: the socket for clients of Spread on this host; None without one.
        spread_tcp: their addresses by TCP, the daemon's own first if it is one of them.
        http: the address for HTTP; None without one.
    """

    def __init__(self, config: DaemonConfig) -> None:
        """Open the sockets.

        Raises:
            ConfigError: an address cannot be used; the text names it.
        """
        self.udp: UdpSocket | Networks
        self.listeners: list[Listener] = []
        self.tcp: Address | None = None
        self.tls: Address | None = None
        self.tls_listener: TlsListener | None = None
        self.spread_unix: Path | None = None
        self.spread_tcp: list[Address] = []
        self.http: HttpSocket | None = None
        with ExitStack() as stack:
            self.udp = _open(_udp_addresses(config), lambda: _open_udp(config))
            stack.callback(self.udp.close)
            if config.core.agreed is not None:
                use_places(self.udp, config, config.known - config.remote)
            unix = _open(str(config.unix), lambda: listen_unix(config.unix, config.unix_for))
            stack.callback(close_unix, unix, config.unix)
            self.listeners.append(unix_listener(unix))
            if config.tcp is not None:
                check_tcp_users(config.tcp.host)
                tcp, self.tcp = _listen(config.tcp, stack)
                admits = admission(config.unix_for, config.unix)
                own = loopback_listener(tcp, admits)
                both = config.spread or config.spread_addresses
                self.listeners.append(spread_tcp(tcp, admits, own) if both else own)
            self._open_for_spread(config, stack)
            if config.tls is not None:
                credentials = read_tls_credentials(config.tls)
                tls, self.tls = _listen(config.tls.address, stack)
                self.tls_listener = TlsListener(tls, credentials)
                self.listeners.append(self.tls_listener)
            if config.http is not None:
                self.http = open_http(config, config.http, stack)
            self._stack = stack.pop_all()
        self._unix = config.unix

    def _open_for_spread(self, config: DaemonConfig, stack: ExitStack) -> None:
        """Open the listeners for clients of Spread; the daemon also runs if a path is in use."""
        fault = daemon_fault(config.name)
        if fault and (config.spread or config.spread_addresses):
            raise ConfigError(f"clients.spread: no client of Spread can use this daemon: {fault}")
        port = self.udp.address.port
        if config.spread_unix is not None:
            path = config.spread_unix / str(port)
            try:
                if fault:
                    raise ConfigError(fault)
                unix = listen_for_spread(path, config.unix_for)
            except (ConfigError, OSError) as error:
                _log.warning("clients of Spread cannot connect at %s: %s", path, error)
            else:
                stack.callback(close_unix, unix, path)
                self.listeners.append(spread_unix(unix))
                self.spread_unix = path
        self._open_tcp_for_spread(config, port, stack)

    def _open_tcp_for_spread(self, config: DaemonConfig, port: int, stack: ExitStack) -> None:
        """Listen at the daemon's own address if that is wanted, and at further ones if possible."""
        own = Address(config.addresses[config.name].host, port)
        further = [attrs.evolve(each, port=each.port or port) for each in config.spread_addresses]
        if config.spread:
            self._listen_for_spread(config, own, stack)
        for each in further:
            if each in self.spread_tcp or not is_here(each):
                continue
            try:
                if each.is_loopback:
                    check_tcp_users(each.host, "clients.spread_addresses", "no loopback address")
                self._listen_for_spread(config, each, stack)
            except ConfigError as error:
                _log.warning("clients of Spread cannot connect at %s: %s", each, error)
        if config.spread:
            _log.warning(
                "clients of Spread may connect at %s: their protocol has neither TLS nor tokens, so"
                " everybody who reaches this address can read and write unless [[access]] forbids"
                " it",
                ", ".join(str(at) for at in self.spread_tcp if at == own or not at.is_loopback),
            )

    def _listen_for_spread(self, config: DaemonConfig, at: Address, stack: ExitStack) -> None:
        if at != self.tcp:  # otherwise one listener is for both protocols
            tcp, at = _listen(at, stack)
            admits = admission(config.unix_for, config.unix)
            self.listeners.append(spread_tcp(tcp, admits, None))
        self.spread_tcp.append(at)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write_ports(self, path: Path) -> None:
        """Write the addresses of the daemon to a file for this user's programs."""
        found = {
            "udp": str(self.udp.address),
            "unix": str(self._unix),
            "tcp": str(self.tcp) if self.tcp else None,
            "tls": str(self.tls) if self.tls else None,
            "spread_unix": str(self.spread_unix) if self.spread_unix else None,
            "spread_tcp": str(self.spread_tcp[0]) if self.spread_tcp else None,
            "http": self.http.name if self.http else None,
            "pid": os.getpid(),
        }
        write_private(path, json.dumps(found) + "\n")


def _listen(wanted: Address, stack: ExitStack) -> tuple[socket.socket, Address]:
    """Return a socket that listens for TCP until the stack ends, and its address."""
    if fault := scope_fault(wanted.host):
        raise ConfigError(f"cannot listen at TCP {wanted}: {fault}")
    listener = _open(f"TCP {wanted}", lambda: listen_tcp(wanted))
    stack.callback(listener.close)
    return listener, Address(*listener.getsockname()[:2])


@attrs.frozen
class HttpSocket:
    """The address of the HTTP server.

    Attributes:
        socket: the socket that accepts connections.
        name: its address: an address of TCP, or unix:PATH.
    """

    socket: socket.socket
    name: str


def check_http_files(http: HttpConfig) -> None:
    """Check the files that authenticate requests.

    Raises:
        ConfigError: one cannot be read or is wrong.
    """
    if http.tls is not None:
        read_tls_credentials(http.tls)
    elif http.tokens is not None:
        _check_tokens(http.tokens)


def check_credentials(config: DaemonConfig) -> None:
    """Check all files by which programs and readers of HTTP authenticate themselves.

    Raises:
        ConfigError: one cannot be read or is wrong; the remedy stands behind the last semicolon.
    """
    if config.tls is not None:
        read_tls_credentials(config.tls)
    if config.http is not None:
        check_http_files(config.http)


def open_http(config: DaemonConfig, http: HttpConfig, stack: ExitStack) -> HttpSocket:
    """Listen for HTTP, and check the files that authenticate requests."""
    check_http_files(http)
    if isinstance(http.listen, Path):
        path, opened_for = http.listen, config.unix_for
        unix = _open(str(path), lambda: listen_unix(path, opened_for, "http.listen"))
        stack.callback(close_unix, unix, path)
        return HttpSocket(unix, f"unix:{path}")
    if http.is_local and http.tokens is None and http.tls is None:
        check_tcp_users(http.listen.host, "http.listen", 'listen = "unix:PATH"')
    tcp, at = _listen(http.listen, stack)
    if not http.is_local and http.tls is None:
        _log.warning(
            "HTTP at %s is plain: everybody on the network can read its tokens and its answers; set"
            " [http.tls] to change that",
            at,
        )
    return HttpSocket(tcp, str(at))


def _check_tokens(path: Path) -> None:
    try:
        TokenBook(path)
    except OSError as error:
        raise ConfigError(
            f"http.tokens {path}: {error.strerror or error}; make the file with: groupcomm"
            " tokens add"
        ) from None


def _udp_addresses(config: DaemonConfig) -> str:
    own = config.addresses[config.name], *config.further.get(config.name, ())
    return f"UDP {', '.join(map(str, own))}"


def _open_udp(config: DaemonConfig) -> UdpSocket | Networks:
    me, remote, absent = config.name, config.remote, config.known - config.addresses.keys()
    if me not in config.further:
        others = {name: address for name, address in config.addresses.items() if name != me}
        own = config.addresses[me]
        return UdpSocket(own, others, multicast=config.multicast, remote=remote, absent=absent)
    places = config.places
    return Networks(
        places.pop(me),
        places,
        config.core.timing,
        multicast=config.multicast,
        remote=remote,
        absent=absent,
    )


def use_places(udp: UdpSocket | Networks, config: DaemonConfig, near: frozenset[str]) -> None:
    """Send to the daemons of a configuration with other addresses or another roster from now on.

    The own addresses stay as they are until the next start.

    Args:
        udp: the sockets.
        config: the configuration.
        near: the daemons to which datagrams for the site go.
    """
    places, former = config.places, former_places(config)
    for name, address in config.located.items():
        if name not in config.relayed:
            places[name] = (address, *places.get(name, ())[1:])
    del places[config.name]
    remote, absent = places.keys() - near, config.known - places.keys() - {config.name}
    if isinstance(udp, Networks):
        udp.use(places, remote, former, absent)
    else:
        first = {name: found[0] for name, found in former.items()}
        udp.use({name: found[0] for name, found in places.items()}, remote, first, absent)


def _open(what: str, make: Callable[[], _Socket]) -> _Socket:
    try:
        return make()
    except OSError as error:
        raise ConfigError(f"cannot listen at {what}: {error.strerror or error}") from None


def listen_unix(path: Path, opened_for: str = "owner", key: str = "clients.unix") -> socket.socket:
    """Listen on a path in a private folder; replace the socket of a daemon that has ended.

    Anything else at the path is left as it is.

    Args:
        path: the path of the socket.
        opened_for: the users of this host that may connect: "owner", "group" or "all".
        key: the key of the path in the configuration, for errors.

    Raises:
        ConfigError: the path is too long or taken, or others have too many rights in the folder.
        OSError: the socket cannot be made.
    """
    if path.name in ("", ".."):
        raise ConfigError(f"{key} is {path}, a folder: name the socket in it, as in ./x.sock")
    if len(os.fsencode(path)) + len(".new") > MAX_PATH_BYTES:
        raise ConfigError(f"{key} is {path}; a socket's path may have {MAX_PATH_BYTES - 4} bytes")
    _make_folder(path.parent, opened_for, key)
    check_free(path, key)
    temporary = path.with_name(path.name + ".new")
    check_free(temporary, key)
    temporary.unlink(missing_ok=True)
    return listen_at(path, temporary, opened_for)


def _make_folder(path: Path, opened_for: str, key: str) -> None:
    if not path.exists():
        make_private_folder(path)
        path.chmod(0o700 | ENTER_BY[opened_for])
    if fault := folder_fault(path, path.stat(), opened_for):
        raise ConfigError(f"{key} is {path}/...: {fault}")


def listen_tcp(address: Address) -> socket.socket:
    """Listen on an address.

    Raises:
        OSError: the address is in use, or not one of this host.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
