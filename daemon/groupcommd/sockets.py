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
from groupcommd.addresses import Address
from groupcommd.config_file import DaemonConfig
from groupcommd.listeners import close_unix, listen_tcp, listen_unix
from groupcommd.udp import UdpSocket

_Socket = TypeVar("_Socket")


class Sockets:
    """Opens everything that a configuration names, or nothing.

    Attributes:
        udp: towards the other daemons.
        listeners: for clients.
        tcp: where clients connect by TCP; None if they do not.
    """

    def __init__(self, config: DaemonConfig) -> None:
        """Open them.

        Raises:
            ConfigError: an address cannot be used; the text names it.
        """
        self.listeners: list[socket.socket] = []
        self.tcp: Address | None = None
        own = config.addresses[config.name]
        others = {name: a for name, a in config.addresses.items() if name != config.name}
        with ExitStack() as stack:
            self.udp = _open(
                f"UDP {own}",
                lambda: UdpSocket(own, others, multicast=config.multicast, far=config.far),
            )
            stack.callback(self.udp.close)
            unix = _open(str(config.unix), lambda: listen_unix(config.unix))
            stack.callback(close_unix, unix, config.unix)
            self.listeners.append(unix)
            wanted = config.tcp
            if wanted is not None:
                tcp = _open(f"TCP {wanted}", lambda: listen_tcp(wanted))
                stack.callback(tcp.close)
                self.listeners.append(tcp)
                self.tcp = Address(*tcp.getsockname()[:2])
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
        """Tell in a file where the daemon listens; it is there whole or not at all."""
        found = {
            "udp": str(self.udp.address),
            "unix": str(self._unix),
            "tcp": str(self.tcp) if self.tcp else None,
            "pid": os.getpid(),
        }
        temporary = path.with_name(path.name + ".new")
        temporary.write_text(json.dumps(found) + "\n")
        temporary.rename(path)


def _open(what: str, make: Callable[[], _Socket]) -> _Socket:
    try:
        return make()
    except OSError as error:
        raise ConfigError(f"cannot listen at {what}: {error.strerror or error}") from None
