"""Spread's Python module, pure: ``import spread``, with its names, its types and its errors.

It speaks the protocol of Spread's clients (docs/spread-clients.md), so the same program runs with
Spread's daemons and with groupcomm's. Names are str, messages are received as bytes, whatever they
were sent as. A mailbox reads no further than the message that it returns, so select and its kin may
be asked about it.
"""

import array
import fcntl
import socket
import sys
import termios
import threading
from contextlib import suppress
from typing import Final, NamedTuple

from groupcomm.errors import BadDatagram
from groupcomm.session.spread import layout
from groupcomm_client.spread_api import SP_strerror
from groupcomm_client.spread_api import SP_version as version
from groupcomm_client.spread_api import constants as _spread
from groupcomm_client.spread_api.constants import *  # noqa: F403  Spread's names

MAX_GROUP_NAME: Final = layout.NAME_BYTES  # type: ignore[misc]
MAX_PRIVATE_NAME: Final = 10  # type: ignore[misc]
MAX_PROC_NAME: Final = 20  # type: ignore[misc]
DEFAULT_BUFFER_SIZE: Final = 10_000
DEFAULT_GROUPS_SIZE: Final = 10
"""Of no effect: each message has the room that it needs."""

_CAUSES: Final = 0xF00
_SERVICES: Final = _spread.REGULAR_MESS | _spread.SELF_DISCARD
_SETS_AT: Final = 20  # in the data of a membership message, behind the id and two numbers
_METHODS: Final = b"NULL".ljust(90, b"\0")
_SIGN: Final = 1 << 15


class error(Exception):
    """Raised if a call fails; `args` are Spread's negative number and its meaning."""


def _error(code: int) -> error:
    return error(code, SP_strerror(code))


class GroupId(bytes):
    """The id of a group's view, the same at all its members."""

    def __repr__(self) -> str:
        numbers = (int.from_bytes(self[at : at + 4], "little") for at in (0, 4, 8))
        return "<group_id {:08X}:{:08X}:{:08X}>".format(*numbers)


class RegularMsgType(NamedTuple):
    """A message.

    Attributes:
        sender: the private group of its sender.
        groups: all its destinations.
        msg_type: the sender's number, -32,768 to 32,767.
        endian: whether the sender writes numbers in another byte order; 1 or 0.
        message: its data.
    """

    sender: str
    groups: tuple[str, ...]
    msg_type: int
    endian: int
    message: bytes


class MembershipMsgType(NamedTuple):
    """A membership message.

    Attributes:
        reason: one of the CAUSED_BY_ numbers; 0 for a transitional message.
        group: the group.
        group_id: the id of its view; None for the own leave.
        members: its members.
        extra: the member that has joined, left or disconnected; with CAUSED_BY_NETWORK the members
            that came along with this one.
    """

    reason: int
    group: str
    group_id: GroupId | None
    members: tuple[str, ...]
    extra: tuple[str, ...]


def connect(
    daemon: str = f"{_spread.DEFAULT_SPREAD_PORT}@localhost",
    name: str = "",
    priority: int = _spread.LOW_PRIORITY,
    membership: int = 1,
) -> "MailboxType":
    """Open a session.

    Args:
        daemon: ``port@host``, or ``port`` for the unix socket ``/tmp/port``.
        name: the private name, of which ten bytes count; "" for one that the daemon invents.
        priority: of no effect, as with Spread.
        membership: whether membership messages are wanted.

    Raises:
        error: the daemon cannot be reached, or refuses.
    """
    end = _open(daemon)
    try:
        return MailboxType(end, _shake_hands(end, name, priority, membership))
    except OSError:
        end.close()
        raise _error(_spread.COULD_NOT_CONNECT) from None
    except BaseException:
        end.close()
        raise


def _open(daemon: str) -> socket.socket:
    port, at, host = daemon.partition("@")
    if not (port.isascii() and port.isdigit() and int(port[:6]) < 65536) or (at and not host):
        raise _error(_spread.ILLEGAL_SPREAD)
    try:
        if at:
            end = socket.create_connection((host, int(port)))
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return end
        end = socket.socket(socket.AF_UNIX)
        try:
            end.connect(f"/tmp/{port}")
        except OSError:
            end.close()
            raise
    except OSError:
        raise _error(_spread.COULD_NOT_CONNECT) from None
    return end


def _shake_hands(end: socket.socket, name: str, priority: int, membership: int) -> str:
    """Be admitted; return the private group."""
    user = name.encode()[:MAX_PRIVATE_NAME]
    flags = bool(membership) | (priority > 0) << 4
    end.sendall(bytes((*version(), flags, len(user))) + user)
    size = _accepted(end)
    if b"NULL" not in _read(end, size).split():
        raise _error(_spread.REJECT_AUTH)
    end.sendall(_METHODS)
    _accepted(end)
    *_, size = _read(end, len(version()) + 1)
    return _read(end, size).decode()


def _accepted(end: socket.socket) -> int:
    """Return the daemon's next byte; raise the refusal that it may be."""
    code = int.from_bytes(_read(end, 1), signed=True)
    if code < 0:
        raise _error(code)
    return code


def _read(end: socket.socket, size: int) -> bytes:
    """Return the next bytes; raise OSError if the stream ends before."""
    parts = []
    while size:
        part = end.recv(size, socket.MSG_WAITALL)
        if not part:
            raise ConnectionResetError("the daemon has ended the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class MailboxType:
    """One session.

    Attributes:
        private_group: the name of the session, to which others may send.
    """

    def __init__(self, end: socket.socket, private_group: str) -> None:
        self.private_group = private_group
        self._end: socket.socket | None = end
        self._sending, self._receiving = threading.Lock(), threading.Lock()

    def __del__(self) -> None:
        self.disconnect()

    def fileno(self) -> int:
        """Return the descriptor, for select and its kin."""
        return self._open("fileno").fileno()

    def disconnect(self) -> None:
        """End the session; nothing if it has ended."""
        end, self._end = self._end, None
        if end is not None:
            with suppress(OSError), end:
                self._send(end, layout.KILL, (self.private_group,))

    def join(self, group: str) -> None:
        """Ask to become a member; a membership message tells when."""
        self._request("join", layout.JOIN, _checked(group))

    def leave(self, group: str) -> None:
        """Ask to end the membership."""
        self._request("leave", layout.LEAVE, _checked(group))

    def multicast(self, service: int, group: str, message: bytes | str, msg_type: int = 0) -> int:
        """Send a message to a group or a private group; return the number of its bytes.

        Raises:
            error: the session is over, or the message too long.
            ValueError: `service` has other bits than those of services and _spread.SELF_DISCARD.
        """
        return self._multicast("multicast", service, (group,), message, msg_type)

    def multigroup_multicast(
        self, service: int, groups: tuple[str, ...], message: bytes | str, msg_type: int = 0
    ) -> int:
        """Send a message to a tuple of groups; see `multicast`."""
        if not isinstance(groups, tuple) or not all(isinstance(each, str) for each in groups):
            raise TypeError("groups must be a tuple of strings")
        if not groups:
            raise ValueError("there must be at least one group in the tuple")
        return self._multicast("multigroup_multicast", service, groups, message, msg_type)

    def poll(self) -> int:
        """Return the number of bytes that have arrived."""
        found = array.array("i", (0,))
        fcntl.ioctl(self._open("poll"), termios.FIONREAD, found)
        return found[0]

    def receive(self) -> RegularMsgType | MembershipMsgType:
        """Wait for the next message of any kind.

        Raises:
            error: the session is over, or the daemon has rejected a request.
        """
        end = self._open("receive")
        try:
            with self._receiving:
                raw = _read(end, layout.HEAD_BYTES)
                head = layout.decode_head_untrusted(raw)
                rest = _read(end, head.rest)
        except (OSError, BadDatagram):
            self._end = None
            end.close()
            raise _error(_spread.CONNECTION_CLOSED) from None
        at = layout.NAME_BYTES * head.groups
        groups, sender = _names(rest[:at]), head.name.decode(errors="replace")
        if head.type & _spread.REJECT_MESS:
            raise error(f"unexpected service type: {head.type:#x}")
        if head.type & _spread.REGULAR_MESS:
            tag = (head.tag ^ _SIGN) - _SIGN
            other = head.big_endian != (sys.byteorder == "big")
            return RegularMsgType(sender, groups, tag, int(other), rest[at:])
        order = "little" if raw[0] & (_spread.ENDIAN_RESERVED & 0xFF) else "big"
        return _membership(head.type, sender, groups, rest[at:], order)

    def _open(self, method: str) -> socket.socket:
        if self._end is None:
            raise error(f"{method}() called on closed mbox")
        return self._end

    def _multicast(
        self,
        method: str,
        service: int,
        groups: tuple[str, ...],
        message: bytes | str,
        msg_type: int,
    ) -> int:
        self._open(method)
        if service & _SERVICES != service:
            raise ValueError("invalid service type")
        if _spread.level_of(service) is None:
            raise _error(_spread.ILLEGAL_SERVICE)
        data = message.encode() if isinstance(message, str) else bytes(message)
        if len(data) + layout.NAME_BYTES * len(groups) > layout.MAX_BODY_BYTES:
            raise _error(_spread.MESSAGE_TOO_LONG)
        if len(groups) > layout.MAX_GROUPS:
            raise _error(_spread.ILLEGAL_MESSAGE)
        self._request(method, service, groups, data, msg_type)
        return len(data)

    def _request(
        self, method: str, kind: int, groups: tuple[str, ...], data: bytes = b"", tag: int = 0
    ) -> None:
        end = self._open(method)
        try:
            self._send(end, kind, groups, data, tag)
        except OSError:
            self._end = None
            end.close()
            raise _error(_spread.CONNECTION_CLOSED) from None

    def _send(
        self,
        end: socket.socket,
        kind: int,
        groups: tuple[str, ...],
        data: bytes = b"",
        tag: int = 0,
    ) -> None:
        big_endian = sys.byteorder == "big"
        sender = self.private_group.encode()
        head = layout.Head(kind, sender, len(groups), tag, big_endian, len(data))
        names = layout.encode_names([each.encode()[: layout.MAX_NAME] for each in groups])
        with self._sending:
            end.sendall(layout.encode_head(head) + names + data)


def _checked(group: str) -> tuple[str]:
    """Return a name as groups; raise `error` if no group may have it."""
    raw = group.encode()
    if not 0 < len(raw) <= layout.MAX_NAME or not all(36 <= byte <= 126 for byte in raw):
        raise _error(_spread.ILLEGAL_GROUP)
    return (group,)


def _names(raw: bytes) -> tuple[str, ...]:
    return tuple(name.decode(errors="replace") for name in layout.decode_names(raw))


def _membership(
    kind: int, group: str, members: tuple[str, ...], data: bytes, order: str
) -> MembershipMsgType:
    gid = GroupId(data[:12]) if len(data) >= 12 else None
    extra: tuple[str, ...] = ()
    if kind & _spread.REG_MEMB_MESS and len(data) > _SETS_AT:
        little = order == "little"
        at = _SETS_AT + int.from_bytes(data[16:20], "little" if little else "big")
        count = int.from_bytes(data[at : at + 4], "little" if little else "big")
        extra = _names(data[at + 4 : at + 4 + layout.NAME_BYTES * count])
    return MembershipMsgType(kind & _CAUSES, group, gid, members, extra)
