"""Addresses as users write them, and the folders of sockets and of state."""

import ipaddress
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from groupcomm.errors import ConfigError

DEFAULT_PORT: Final = 4803
TLS_PORT: Final = 4804
DEFAULT_HOST: Final = "127.0.0.1"
SOCKET_NAME: Final = "groupcomm.sock"
TLS: Final = "tls://"
SYSTEM_FOLDER: Final = Path("/run/groupcomm")
"""The folder for the socket of a daemon that the system starts."""
SYSTEM_STATE: Final = Path("/var/lib/groupcomm")
"""The folder for the data of such a daemon."""


@attrs.frozen
class Address:
    """An IP address and a port.

    Attributes:
        host: an IPv4 or IPv6 address in digits; names are not looked up.
        port: 0 to 65535; 0 lets the system choose.
    """

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Return whether only this host can reach the address."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def is_unspecified(self) -> bool:
        """Return whether it stands for all addresses of its host."""
        return ipaddress.ip_address(self.host).is_unspecified

    @property
    def is_multicast(self) -> bool:
        """Return whether the address stands for a group of hosts."""
        return ipaddress.ip_address(self.host).is_multicast


def parse_address(text: str, key: str, port: int = DEFAULT_PORT) -> Address:
    """Read ``host``, ``host:port`` or ``[host]:port``.

    Args:
        text: the address as a user has written it.
        key: its name in an error.
        port: the port, if the text has none.

    Raises:
        ConfigError: it is none of these.
    """
    host, digits = text, str(port)
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ConfigError(f"{key} is {text!r}; an address is HOST, HOST:PORT or [HOST]:PORT")
        digits = rest[1:] or digits
    elif text.count(":") == 1:
        host, _, digits = text.partition(":")
    try:
        host = str(ipaddress.ip_address(host))
    except ValueError:
        raise ConfigError(
            f"{key} is {text!r}; the host must be an IP address in digits, such as 10.0.0.1"
        ) from None
    if not (digits.isascii() and digits.isdigit()) or int(digits) > 65535:
        raise ConfigError(f"{key} is {text!r}; the port must be 0 to 65535")
    return Address(host, int(digits))


def scope_fault(host: str) -> str:
    """Return why nobody can send to a host or listen there without a scope; "" if there is none."""
    if not _is_ipv6(host) or "%" in host or not ipaddress.ip_address(host).is_link_local:
        return ""
    return (
        f"{host} is link-local: it counts on each link by itself, so add the network card that"
        f" leads there, such as {host}%eth0 (ip link lists them)"
    )


@attrs.frozen
class DaemonAddress:
    """The address at which programs connect to a daemon: a socket of this host, or a host.

    Attributes:
        path: the path of the socket; None for a host.
        host: a name or an IP address; "" for a socket.
        port: 1 to 65535; 0 for a socket.
        secure: whether the connection uses TLS.
    """

    path: Path | None
    host: str = ""
    port: int = 0
    secure: bool = False


def parse_daemon_address(text: str) -> DaemonAddress:
    """Parse the address of a daemon, as a user writes it.

    Args:
        text: a path with a slash in it or that ends with ``.sock``, ``host``, ``host:port`` or
            ``[host]:port``, and ``tls://`` before it for TLS.

    Raises:
        ConfigError: it is none of these.
    """
    secure = text.startswith(TLS)
    rest = text.removeprefix(TLS)
    if "://" in rest or (secure and "/" in rest):
        raise _no_address(text)
    if "/" in rest or (rest.endswith(".sock") and not secure):  # no host's name ends so
        return DaemonAddress(user_path(rest))
    host, colon, digits = rest.rpartition(":")
    if not colon or _is_ipv6(rest) or rest.endswith("]"):
        host, digits = rest, str(TLS_PORT if secure else DEFAULT_PORT)
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    labels = bare.removesuffix(".").split(".")
    if not all(labels) or any(each in "[]" or each.isspace() for each in bare):
        raise _no_address(text)
    if ":" in bare and not _is_ipv6(bare):
        raise _no_address(text)
    if not (digits.isascii() and digits.isdigit()) or not 0 < int(digits) <= 65535:
        raise _no_address(text)
    if fault := scope_fault(bare):
        raise ConfigError(f"{text!r}: {fault}")
    return DaemonAddress(None, bare, int(digits), secure)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _no_address(text: str) -> ConfigError:
    return ConfigError(
        f"{text!r} is not an address; an address is the path of a socket, such as ./x.sock, or"
        " HOST, HOST:PORT or tls://HOST:PORT with a port from 1 to 65535"
    )


def runtime_folder() -> Path:
    """Return the folder for sockets of this user, to which nobody else may write.

    ``$XDG_RUNTIME_DIR/groupcomm`` where it is set, for root ``/run/groupcomm``, else a folder of
    the user's own below the state folder; never a shared temporary folder.
    """
    return runtime_folders()[0]


def runtime_folders() -> list[Path]:
    """Return the folders in which a daemon for this user may have its socket, the default first.

    Not all programs of a user have ``$XDG_RUNTIME_DIR``: services and jobs often do not. The last
    folder is that of the host's own daemon, a service; only root can make it.
    """
    runtime, user = os.environ.get("XDG_RUNTIME_DIR"), os.geteuid()
    folders = [Path(runtime) / "groupcomm"] if runtime else []
    if not is_service_user():
        with suppress(ConfigError):  # a service may have no home
            folders.append(state_folder() / "run")
        folders.append(Path(f"/run/user/{user}/groupcomm"))
    return [*folders, SYSTEM_FOLDER]


def is_service_user() -> bool:
    """Return whether this user is root, or the one of the host's own daemon, a service.

    Its folders are those that systemd gives to the service, also for commands that this user runs
    elsewhere.
    """
    user = os.geteuid()
    try:
        return user in (0, SYSTEM_STATE.stat().st_uid)
    except OSError:
        return user == 0


def state_folder() -> Path:
    """Return the folder for data that outlasts a daemon: ``$XDG_STATE_HOME/groupcomm`` or the like.

    systemd names another one for services with ``StateDirectory=``, in ``$STATE_DIRECTORY``.
    """
    named = os.environ.get("STATE_DIRECTORY")
    if named:
        return Path(named.partition(":")[0])
    if is_service_user():
        return SYSTEM_STATE
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else user_path("~/.local/state")) / "groupcomm"


def user_path(text: str | Path) -> Path:
    """Return a path as a user writes it, with ``~`` for a home folder.

    Raises:
        ConfigError: that folder is not known.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ConfigError(
            f"{text}: the home folder is not known: set HOME, or give the path in full"
        ) from None
