"""All sockets of a daemon, opened before it starts and closed after it has ended."""

import json
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address
from groupcomm.host.private_files import write_private
from groupcommd.config_file import DaemonConfig
from groupcommd.doors import Door, TlsDoor, loopback_door, read_keeper, unix_door
from groupcommd.listeners import close_unix, listen_tcp, listen_unix
from groupcommd.local_users import admission, check_tcp_users
from groupcommd.networks import Networks
from groupcommd.udp import UdpSocket

_Socket = TypeVar("_Socket")


class Sockets:
    """Opens everything that a configuration names, or nothing.

    Attributes:
        udp: towards the other daemons; over several networks if the daemon has several addresses.
        doors: for clients.
        tcp: where clients connect by TCP; None if they do not.
        tls: where they connect by TLS; None if they do not.
        tls_door: the door there.
    """

    def __init__(self, config: DaemonConfig) -> None:
        """Open them.

        Raises:
            ConfigError: an address cannot be used; the text names it.
        """
        self.udp: UdpSocket | Networks
        self.doors: list[Door] = []
        self.tcp: Address | None = None
        self.tls: Address | None = None
        self.tls_door: TlsDoor | None = None
        with ExitStack() as stack:
            self.udp = _open(_udp_addresses(config), lambda: _open_udp(config))
            stack.callback(self.udp.close)
            unix = _open(str(config.unix), lambda: listen_unix(config.unix, config.unix_for))
            stack.callback(close_unix, unix, config.unix)
            self.doors.append(unix_door(unix))
            if config.tcp is not None:
                check_tcp_users(config.tcp.host)
                tcp, self.tcp = _listen(config.tcp, stack)
                admits = admission(config.unix_for, config.unix)
                self.doors.append(loopback_door(tcp, admits))
            if config.tls is not None:
                keeper = read_keeper(config.tls)
                tls, self.tls = _listen(config.tls.address, stack)
                self.tls_door = TlsDoor(tls, keeper)
                self.doors.append(self.tls_door)
            self._stack = stack.pop_all()
        self._unix = config.unix

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def write_ports(self, path: Path) -> None:
        """Tell this user's programs in a file where the daemon listens."""
        found = {
            "udp": str(self.udp.address),
            "unix": str(self._unix),
            "tcp": str(self.tcp) if self.tcp else None,
            "tls": str(self.tls) if self.tls else None,
            "pid": os.getpid(),
        }
        write_private(path, json.dumps(found) + "\n")


def _listen(wanted: Address, stack: ExitStack) -> tuple[socket.socket, Address]:
    """A socket that listens for TCP until the stack ends, and where it does."""
    listener = _open(f"TCP {wanted}", lambda: listen_tcp(wanted))
    stack.callback(listener.close)
    return listener, Address(*listener.getsockname()[:2])


def _udp_addresses(config: DaemonConfig) -> str:
    own = config.addresses[config.name], *config.further.get(config.name, ())
    return f"UDP {', '.join(map(str, own))}"


def _open_udp(config: DaemonConfig) -> UdpSocket | Networks:
    me, further = config.name, config.further
    others = {name: address for name, address in config.addresses.items() if name != me}
    if me not in further:
        return UdpSocket(config.addresses[me], others, multicast=config.multicast, far=config.far)
    return Networks(
        (config.addresses[me], *further[me]),
        {name: (address, *further.get(name, ())) for name, address in others.items()},
        config.core.timing,
        multicast=config.multicast,
        far=config.far,
    )


def _open(what: str, make: Callable[[], _Socket]) -> _Socket:
    try:
        return make()
    except OSError as error:
        raise ConfigError(f"cannot listen at {what}: {error.strerror or error}") from None
