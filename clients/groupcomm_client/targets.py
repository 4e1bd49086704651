"""The way from the address of a daemon, as a user writes it, to a connected socket, perhaps with
TLS."""

import errno
import ipaddress
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from groupcomm.errors import CannotConnect
from groupcomm.host.addresses import (
    SOCKET_NAME,
    DaemonAddress,
    parse_daemon_address,
    runtime_folders,
)
from groupcomm.host.peer_credentials import peer_credentials
from groupcomm.host.tcp import set_up_tcp
from groupcomm.session.client_session import DAEMON_TIMEOUT_S
from groupcomm_client.byte_stream import ByteSocket
from groupcomm_client.loops import Loop, Target

if TYPE_CHECKING:
    from groupcomm_client.credentials import Credentials

ADDRESS_VARIABLE: Final = "GROUPCOMM_ADDRESS"

BUFFER_BYTES: Final = 128 * 1024
"""Requested for unix sockets; Linux doubles it. So output reaches the daemon in few pieces. More
would only wait there, a queue that no daemon sees."""


def default_address() -> str:
    """Return the default address of this user's daemon, in a folder of the user's own or of root's.

    A port of the host would not be safe: while no daemon has it, any other user may listen there.
    """
    told = os.environ.get(ADDRESS_VARIABLE)
    if told:
        return told
    paths = [folder / SOCKET_NAME for folder in runtime_folders()]
    return str(next((path for path in paths if _may_exist(path)), paths[0]))


def _may_exist(path: Path) -> bool:
    """Return False if a path does not exist; connecting reports its other faults."""
    try:
        return path.exists()
    except PermissionError:
        return True


def is_on_this_host(address: str) -> bool:
    """Return whether an address is that of a daemon of this host, as far as one can see.

    Raises:
        ConfigError: the address is invalid.
    """
    where = parse_daemon_address(address)
    with suppress(ValueError):  # a name
        return where.path is not None or ipaddress.ip_address(where.host).is_loopback
    return where.host == "localhost"


async def open_socket(
    address: str, loop: Loop, credentials: "Credentials | None" = None
) -> ByteSocket:
    """Return a connected non-blocking socket; all addresses of a name are tried in turn.

    Args:
        address: an address in the form of `groupcomm.host.addresses.parse_daemon_address`.
        loop: the event loop of the program.
        credentials: the credentials for TLS.

    Raises:
        CannotConnect: nobody listens there, or either side does not trust the other.
        ConfigError: the address is invalid, or a file of the credentials cannot be used.
    """
    where = parse_daemon_address(address)
    if not where.secure:
        return await _open_plain(address, where, loop)
    assert credentials is not None, "those of the environment at least"
    context = await loop.from_disk(
        credentials.context
    )  # first, so that a file that cannot be used is reported at once
    plain = await _open_plain(address, where, loop)
    try:
        return await credentials.secure(plain, context, where.host, address, loop)
    except OSError as error:
        plain.close()
        raise _refused(address, [error.strerror or str(error)]) from None
    except BaseException:
        plain.close()
        raise


async def _open_plain(address: str, where: DaemonAddress, loop: Loop) -> socket.socket:
    failures: list[str] = []
    try:
        for family, target in await _targets(where, loop):
            try:
                return await connect_to(family, target, loop)
            except OSError as error:
                if family == socket.AF_UNIX and isinstance(error, PermissionError):
                    raise _forbidden(address) from None
                failures.append(error.strerror or str(error))
    except (OSError, UnicodeError) as error:  # the name is not known
        failures.append(getattr(error, "strerror", None) or str(error))
    raise _refused(address, failures)


async def _targets(where: DaemonAddress, loop: Loop) -> list[Target]:
    if where.path is not None:
        return [(socket.AF_UNIX, str(where.path))]
    return await loop.look_up(where.host, where.port)


async def connect_to(family: int, target: object, loop: Loop) -> socket.socket:
    """Return a connected non-blocking socket; raise OSError if nobody listens there."""
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        result = made.connect_ex(target)  # type: ignore[arg-type]  # as the family wants it
        if result == errno.EINPROGRESS:
            await loop.writable(made)
            result = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if result == errno.EAGAIN and family == socket.AF_UNIX:
            raise OSError(result, "the daemon has no room for another client now")
        if result:
            raise OSError(result, os.strerror(result))
        if family == socket.AF_UNIX:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        else:
            set_up_tcp(made, DAEMON_TIMEOUT_S)
    except BaseException:
        made.close()
        raise
    return made


def _refused(address: str, failures: list[str]) -> CannotConnect:
    reasons = ", ".join(dict.fromkeys(failures))
    return CannotConnect(
        f"cannot connect to {address}: {reasons} - is the daemon running? try: groupcomm daemon"
    )


def _forbidden(address: str) -> CannotConnect:
    return CannotConnect(
        f"cannot connect to {address}: permission denied - clients.unix_for in the daemon's"
        " configuration says who may connect: its owner, members of its group, or all"
    )


def not_admitted(address: str, seconds: float, end: ByteSocket | None = None) -> CannotConnect:
    """Return the error for a user when the time for an admission is over.

    Args:
        address: the address as the user has written it.
        seconds: the time limit that has passed.
        end: the connected socket; None if there was none.
    """
    text = f"the daemon at {address} did not admit this client in {seconds:g} s"
    stopped = _stopped_process(end)
    if stopped is not None:
        text += f": its process {stopped} is stopped; continue it with kill -CONT {stopped}"
    return CannotConnect(text)


def _stopped_process(end: ByteSocket | None) -> int | None:
    """Return the number of the process that listens at a unix socket, if it is stopped."""
    if not isinstance(end, socket.socket) or end.family != socket.AF_UNIX:
        return None
    try:
        process = peer_credentials(end).pid
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    return process if status.rpartition(")")[2].split()[0] in {"T", "t"} else None
