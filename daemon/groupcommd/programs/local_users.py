"""Users of this host: the user at the other end of a connection, and its principal.

A unix socket tells the user itself. For a TCP connection within a host, the kernel is asked for the
socket at the other end, by its addresses (sock_diag(7)): that takes as long with ten thousand
connections as with one, unlike reading /proc/net/tcp. An answer counts only if

- that socket is still connected and has an owner: the kernel reports user 0 for a closed one;
- this end is still connected afterwards: then no other socket can have had these addresses since.

Users are those of the daemon's user namespace; a user who is not mapped into it counts as unknown.
"""

import os
import pwd
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address
from groupcomm.host.peer_credentials import peer_credentials

# From linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_HEAD: Final = struct.Struct("=IHHII")  # length, type, flags, sequence, port id
_QUERY: Final = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states
_PLACE: Final = struct.Struct("!HH16s16s")  # ports and addresses of both ends, this end's first
_ANY_DEVICE: Final = struct.pack("=I", 0)
_NO_COOKIE: Final = b"\xff" * 8
_FOUND: Final = struct.Struct("=BBBB48xIIIII")  # family, state, ..., expires, queues, uid, inode
_ALL_STATES: Final = 0xFFFF_FFFF
_ESTABLISHED: Final = 1

_NOBODY: Final = 65_534
_ALL_USERS: Final = 0xFFFF_FFFF

NAMES_KEPT_S: Final = 60
"""The time for which names of users are cached, as they may pass to other users."""

MAX_NAMES: Final = 1024
"""The number of names that are cached."""

Admits = Callable[[int], bool]
"""Returns whether a user, by number, may connect."""


def unix_user(accepted: socket.socket) -> int | None:
    """Return the number of the user at the other end of a unix socket; None if it is unknown."""
    return _known(peer_credentials(accepted).uid)


def origin_of(accepted: socket.socket) -> str:
    """Return the place of the program at the other end of a connection, for the log.

    Returns:
        An address and a port; for a unix socket the process and the user; "" if it is gone.
    """
    try:
        if accepted.family != socket.AF_UNIX:
            return str(Address(*accepted.getpeername()[:2]))
        peer = peer_credentials(accepted)
    except OSError:
        return ""
    return f"process {peer.pid} of user {peer.uid}"


def _known(uid: int) -> int | None:
    """Return a user's number; None for the number of all users that the container does not have.

    In a user namespace the kernel reports one number, that of ``nobody``, for each user that is not
    mapped into it: two users of the host would look like one, to which rules may apply.
    """
    if uid == _overflow_uid() and not _maps_all_users():
        return None
    return uid


@cache
def _overflow_uid() -> int:
    try:
        return int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return _NOBODY


@cache
def _maps_all_users() -> bool:
    """Return whether this process is in a user namespace with all users of the host."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return True  # a system without user namespaces
    return any(int(line.split()[2]) == _ALL_USERS for line in lines)


def tcp_user(accepted: socket.socket) -> int | None:
    """Return the number of the user at the other end of a TCP connection within this host.

    Returns:
        None if the other end is closed or on another host, or the system does not tell.

    Raises:
        OSError: the connection is broken.
    """
    theirs, ours = _place(accepted.getpeername()), _place(accepted.getsockname())
    user = _ask(accepted.family, theirs, ours)
    info = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    return user if info[0] == _ESTABLISHED else None


def _place(address: tuple[str, int]) -> tuple[bytes, int]:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    return socket.inet_pton(family, address[0].partition("%")[0]), address[1]


def _ask(family: int, theirs: tuple[bytes, int], ours: tuple[bytes, int]) -> int | None:
    body = (
        _QUERY.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
        + _PLACE.pack(theirs[1], ours[1], theirs[0], ours[0])
        + _ANY_DEVICE
        + _NO_COOKIE
    )
    head = _HEAD.pack(_HEAD.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK
    with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as kernel:
        kernel.sendto(head + body, (0, 0))
        answer = kernel.recv(4096)  # the kernel has answered once the question is sent
    if len(answer) < _HEAD.size + _FOUND.size:
        return None
    if _HEAD.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    _, state, _, _, _, _, _, uid, inode = _FOUND.unpack_from(answer, _HEAD.size)
    return _known(uid) if state == _ESTABLISHED and inode else None


def check_tcp_users(host: str, key: str = "clients.tcp", instead: str = 'tcp = "off"') -> None:
    """Check that the system tells the users of TCP connections to an address of this host.

    Args:
        host: the address.
        key: its key in the configuration, for an error.
        instead: the text to write instead, for an error.

    Raises:
        ConfigError: it does not, so no program could connect there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found: int | None = None
    with suppress(OSError), ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((host, 0), family=family))
        stack.enter_context(socket.create_connection(listener.getsockname()[:2]))
        accepted, _ = listener.accept()
        found = tcp_user(stack.enter_context(accepted))
    if found != os.geteuid():
        raise ConfigError(
            f"{key}: this system does not tell the user of a TCP connection (sock_diag of Linux),"
            f" so no program could connect: set {instead}, and use the unix socket"
        )


def admission(opened_for: str, unix: Path) -> Admits:
    """Return a function that returns the users that may connect: those of the unix socket.

    Args:
        opened_for: "owner", "group" or "all".
        unix: the path of the socket, which has the group.
    """
    if opened_for == "all":
        return lambda _: True
    group = unix.stat().st_gid if opened_for == "group" else None
    return partial(_is_of, group, os.geteuid())


def _is_of(group: int | None, owner: int, uid: int) -> bool:
    if uid in (0, owner):
        return True
    if group is None:
        return False
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return False
    return group in os.getgrouplist(user.pw_name, user.pw_gid)


def unix_principal(uid: int) -> str:
    """Return ``unix:`` and the name of a user, or ``uid:`` and the number of one without a name.

    The kinds differ, as a user may be named ``1001``. While there is no descriptor to read the
    system's files, users keep the names that they had. This may wait for the system's name service:
    an event loop asks `known_principal` first, and else a thread.

    Raises:
        OSError: there is no descriptor, and this user's name was never read.
    """
    if (known := known_principal(uid)) is not None:
        return known
    try:
        principal = _look_up(uid)
    except OSError:
        if (known := known_principal(uid, of_any_age=True)) is None:
            raise
        return known
    if len(_names) >= MAX_NAMES:
        _names.clear()
    _names[uid] = principal, _period()
    return principal


_names: Final[dict[int, tuple[str, int]]] = {}  # by user: the principal, and when it was read


def known_principal(uid: int, *, of_any_age: bool = False) -> str | None:
    """Return the principal of a user if it was read lately, or at any time; None if not."""
    principal, period = _names.get(uid, (None, 0))
    return principal if of_any_age or period == _period() else None


def _period() -> int:
    return int(time.monotonic() / NAMES_KEPT_S)


def _look_up(uid: int) -> str:
    try:
        return f"unix:{pwd.getpwuid(uid).pw_name}"
    except KeyError:
        os.close(os.open(os.sep, os.O_RDONLY))  # raises if the cause is a lack of descriptors
        return f"uid:{uid}"


def owners() -> tuple[str, str]:
    """Return the principals of the daemon's own user and of root, which are looked up once.

    Whenever these users connect, they are looked up again.
    """
    return _owner(os.geteuid()), _owner(0)


def _owner(uid: int) -> str:
    try:
        return known_principal(uid, of_any_age=True) or unix_principal(uid)
    except OSError:
        return f"uid:{uid}"
