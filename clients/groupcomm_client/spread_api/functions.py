"""Spread's functions, by their names and in their order of arguments.

Results that C writes through pointers are returned; a negative result of C is raised as
`SpreadError` with that number. docs/spread-api.md has each function with its differences.
"""

import secrets
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from groupcomm.errors import (
    AccessRefused,
    CannotConnect,
    ConfigError,
    ForkedSession,
    LocalProtocolError,
    SessionError,
)
from groupcomm.host.addresses import DEFAULT_PORT
from groupcomm.names import check_group
from groupcomm_client.arguments import check_count, check_seconds, check_sequence
from groupcomm_client.blocking import open_connection
from groupcomm_client.options import ADMISSION_S, ConnectOptions
from groupcomm_client.spread_api.constants import (
    CONNECTION_CLOSED,
    ERRORS,
    ILLEGAL_GROUP,
    ILLEGAL_MESSAGE,
    ILLEGAL_SERVICE,
    ILLEGAL_SESSION,
    ILLEGAL_SPREAD,
    MESSAGE_TOO_LONG,
    REJECT_AUTH,
    REJECT_ILLEGAL_NAME,
    SELF_DISCARD,
    level_of,
)
from groupcomm_client.spread_api.mailbox import (
    Mailbox,
    Received_message,
    group_id,
    membership_info,
)

VERSION: Final = (5, 0, 1)
"""The version of Spread whose interface this is."""

_mailboxes: dict[int, Mailbox] = {}
_lock = threading.Lock()


class SpreadError(Exception):
    """Raised if a call fails.

    Attributes:
        code: Spread's negative number.
    """

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(
            f"{ERRORS.get(code, 'unknown error')} ({code}){': ' if text else ''}{text}"
        )
        self.code = code


def SP_version() -> tuple[int, int, int]:
    """Return the major, minor and patch version of Spread whose interface this is."""
    return VERSION


def SP_strerror(error: int) -> str:
    """Return the meaning of a number."""
    return ERRORS.get(error, "unknown error")


def SP_error(error: int) -> None:
    """Write the meaning of a number to standard error."""
    print(f"SP_error: ({error}) {SP_strerror(error)}", file=sys.stderr)


def SP_set_auth_method(
    auth_name: str, auth_function: object = None, auth_data: object = None
) -> None:
    """Choose how sessions prove who they are; see SP_set_auth_methods."""
    SP_set_auth_methods((auth_name,), (auth_function,), (auth_data,))


def SP_set_auth_methods(
    auth_name: Sequence[str], auth_function: Sequence[object] = (), auth_data: Sequence[object] = ()
) -> None:
    """Choose how sessions prove who they are: "NULL", Spread's name for no method, is the one.

    Raises:
        SpreadError: a method is another one. TLS and tokens prove who a program is.
    """
    if others := [name for name in auth_name if name != "NULL"]:
        text = f"{', '.join(map(repr, others))}: NULL is the one method; TLS and tokens prove more"
        raise SpreadError(REJECT_AUTH, text)


# ---- sessions ----


def SP_connect(
    spread_name: str, private_name: str = "", priority: int = 0, group_membership: bool = True
) -> tuple[int, str]:
    """Open a session; see SP_connect_timeout."""
    return SP_connect_timeout(spread_name, private_name, priority, group_membership, ADMISSION_S)


def SP_connect_timeout(
    spread_name: str,
    private_name: str,
    priority: int,
    group_membership: bool,
    time_out: float,
) -> tuple[int, str]:
    """Open a session.

    Args:
        spread_name: ``port``, ``port@host``, a socket's path, ``tls://host:port`` (with files and
            token as the environment says), or nothing for the user's daemon.
        private_name: the name of the session; "" for a random one.
        priority: ignored, as by Spread.
        group_membership: whether membership messages are wanted.
        time_out: the longest wait in seconds.

    Returns:
        The mailbox, a file number for select and its kin, and the private group.

    Raises:
        SpreadError: the daemon cannot be reached, or refuses.
    """
    address = _address(spread_name)
    user = private_name or f"r{secrets.randbelow(10**9)}"
    try:
        options = ConnectOptions(timeout_s=time_out, own_views_only=not group_membership)
        connection = open_connection(address, user=user, options=options)
    except LocalProtocolError as error:
        raise SpreadError(REJECT_ILLEGAL_NAME, str(error)) from None
    except ConfigError as error:
        raise SpreadError(ILLEGAL_SPREAD, str(error)) from None
    except CannotConnect as error:
        raise SpreadError(error.code, str(error)) from None
    except SessionError as error:
        raise SpreadError(error.code or CONNECTION_CLOSED, str(error)) from None
    mbox = connection.fileno()
    with _lock:
        _mailboxes[mbox] = Mailbox(connection, bool(group_membership))
    return mbox, connection.name


def SP_disconnect(mbox: int) -> None:
    """End a session in order: messages that were sent before are delivered."""
    _remove(mbox).connection.close()


def SP_kill(mbox: int) -> None:
    """Break a session off, also while another thread waits in it."""
    _remove(mbox).connection.close_socket()


def _address(spread_name: str) -> str | None:
    if not spread_name or "/" in str(spread_name):  # a path, or tls://host:port
        return spread_name or None
    port, at, host = spread_name.partition("@") if isinstance(spread_name, str) else ("", "", "")
    is_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) <= 65535
    if not is_port or (at and not host):
        raise SpreadError(ILLEGAL_SPREAD, repr(spread_name))
    if host in ("", "localhost") and int(port) == DEFAULT_PORT:  # as Spread's library does
        return None
    return f"{host or '127.0.0.1'}:{port}"


def _mailbox(mbox: int) -> Mailbox:
    found = _mailboxes.get(mbox) if isinstance(mbox, int) else None
    if found is None:
        raise SpreadError(ILLEGAL_SESSION, f"mailbox {mbox}")
    return found


def keep_back(mbox: int, more: bool) -> None:
    """Set whether a layer above has messages that it has not returned yet; then stay readable."""
    _mailbox(mbox).keep_back(more)


def _remove(mbox: int) -> Mailbox:
    with _lock:
        found = _mailboxes.pop(mbox, None) if isinstance(mbox, int) else None
    if found is None:
        raise SpreadError(ILLEGAL_SESSION, f"mailbox {mbox}")
    return found


@contextmanager
def _errors(mbox: int) -> Iterator[None]:
    """Raise Spread's numbers for errors, and forget a session that has ended."""
    try:
        yield
    except LocalProtocolError as error:
        raise SpreadError(ILLEGAL_SESSION, str(error)) from None
    except AccessRefused as error:
        raise SpreadError(ILLEGAL_GROUP, str(error)) from None
    except SessionError as error:
        with _lock:
            gone = _mailboxes.pop(mbox, None)
        if gone is not None:
            gone.connection.close_socket()
        raise SpreadError(error.code or CONNECTION_CLOSED, str(error)) from None


@contextmanager
def _refused(code: int) -> Iterator[None]:
    """Raise one of Spread's numbers for an argument that is refused."""
    try:
        yield
    except LocalProtocolError as error:
        raise SpreadError(code, str(error)) from None


# ---- groups ----


def SP_join(mbox: int, group: str) -> None:
    """Ask to become a member; a membership message tells when. Joining twice does nothing."""
    _change(mbox, group, join=True)


def SP_leave(mbox: int, group: str) -> None:
    """Ask to end the membership. Leaving a group that was not joined does nothing."""
    _change(mbox, group, join=False)


def _change(mbox: int, group: str, *, join: bool) -> None:
    box = _mailbox(mbox)
    with _refused(ILLEGAL_GROUP):
        check_group(group)
    with _errors(mbox):
        box.connection.request_membership(group, join=join)


# ---- messages ----


def SP_multicast(mbox: int, service_type: int, group: str, mess_type: int, mess: bytes) -> int:
    """Send a message to a group or a private group; return the number of its bytes."""
    return SP_multigroup_multicast(mbox, service_type, (group,), mess_type, mess)


def SP_scat_multicast(
    mbox: int, service_type: int, group: str, mess_type: int, scat_mess: Sequence[bytes]
) -> int:
    """Send pieces as one message."""
    return SP_multigroup_scat_multicast(mbox, service_type, (group,), mess_type, scat_mess)


def SP_multigroup_scat_multicast(
    mbox: int,
    service_type: int,
    groups: Sequence[str],
    mess_type: int,
    scat_mess: Sequence[bytes],
) -> int:
    """Send pieces as one message to several groups."""
    return SP_multigroup_multicast(mbox, service_type, groups, mess_type, joined(scat_mess))


def joined(pieces: Sequence[bytes]) -> bytes:
    """Return pieces as one message; raise SpreadError if they are not bytes."""
    try:
        return b"".join(pieces)
    except TypeError as error:
        raise SpreadError(ILLEGAL_MESSAGE, f"the pieces must be bytes: {error}") from None


def SP_multigroup_multicast(
    mbox: int, service_type: int, groups: Sequence[str], mess_type: int, mess: bytes
) -> int:
    """Send a message to several groups; a member of several of them gets it once.

    Args:
        mbox: a mailbox of SP_connect.
        service_type: one of the six levels, with SELF_DISCARD if the sender is not to receive it.
        groups: up to 255 groups.
        mess_type: a tag, -32,768 to 65,535; receivers get it as 0 to 65,535.
        mess: the message, up to 64 MiB.

    Raises:
        SpreadError: nothing was sent.
    """
    box = _mailbox(mbox)
    level = level_of(service_type) if isinstance(service_type, int) else None
    if level is None:
        shown = hex(service_type) if isinstance(service_type, int) else repr(service_type)
        raise SpreadError(ILLEGAL_SERVICE, f"service type {shown}")
    if not isinstance(mess_type, int):
        raise SpreadError(ILLEGAL_MESSAGE, f"mess_type is {mess_type!r}; write a number")
    with _errors(mbox):
        try:
            box.connection.multicast(
                groups,
                mess,
                level=level,
                type=mess_type & 0xFFFF if -0x8000 <= mess_type < 0 else mess_type,
                self_discard=bool(service_type & SELF_DISCARD),
            )
        except LocalProtocolError as error:
            raise SpreadError(_why(error), str(error)) from None
    return len(mess)


def _why(error: LocalProtocolError) -> int:
    text = str(error)
    if isinstance(error, ForkedSession):
        return ILLEGAL_SESSION
    if "bytes; at most" in text:
        return MESSAGE_TOO_LONG
    return ILLEGAL_GROUP if "name" in text else ILLEGAL_MESSAGE


def SP_receive(mbox: int, time_out: float | None = None) -> Received_message | None:
    """Wait for the next message of any kind; None if none comes within `time_out` seconds.

    Raises:
        SpreadError: the session is over, or `time_out` is no number.
    """
    box = _mailbox(mbox)
    if time_out is not None:
        with _refused(ILLEGAL_MESSAGE):
            time_out = check_seconds("time_out", time_out)
    with _errors(mbox):
        return box.receive(time_out)


def SP_scat_receive(
    mbox: int, sizes: Sequence[int], time_out: float | None = None
) -> tuple[Received_message, tuple[bytes, ...]] | None:
    """Receive a message as SP_receive does; cut the data into these sizes, and the rest."""
    with _refused(ILLEGAL_MESSAGE):
        for size in check_sequence("sizes", sizes):
            check_count("a size", size, 0)
    found = SP_receive(mbox, time_out)
    return None if found is None else (found, found.pieces(sizes))


def SP_poll(mbox: int) -> int:
    """Return the size of the next message in bytes (1 if it is empty); 0 if none has come."""
    box = _mailbox(mbox)
    with _errors(mbox):
        return box.poll()


# ---- membership messages ----


def SP_equal_group_ids(g1: group_id, g2: group_id) -> bool:
    """Return whether two views are one and the same."""
    return g1 == g2


def SP_get_memb_info(message: Received_message) -> membership_info:
    """Return the content of a membership message.

    Raises:
        SpreadError: it is another message.
    """
    if message.info is None:
        raise SpreadError(ILLEGAL_MESSAGE, "not a membership message")
    return message.info


def SP_get_vs_sets_info(message: Received_message) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Return the sets of members that came together, and the index of the receiver's own.

    Raises:
        SpreadError: it is no membership message.
    """
    info = SP_get_memb_info(message)
    return info.vs_sets, info.my_vs_set_index


def SP_scat_get_memb_info(scattered: tuple[Received_message, tuple[bytes, ...]]) -> membership_info:
    """Do what SP_get_memb_info does, with a result of SP_scat_receive."""
    return SP_get_memb_info(scattered[0])


def SP_scat_get_vs_sets_info(
    scattered: tuple[Received_message, tuple[bytes, ...]],
) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Do what SP_get_vs_sets_info does, with a result of SP_scat_receive."""
    return SP_get_vs_sets_info(scattered[0])


def SP_scat_get_vs_set_members(
    scattered: tuple[Received_message, tuple[bytes, ...]], index: int
) -> tuple[str, ...]:
    """Do what SP_get_vs_set_members does, with a result of SP_scat_receive."""
    return SP_get_vs_set_members(scattered[0], index)


def SP_get_vs_set_members(message: Received_message, index: int) -> tuple[str, ...]:
    """Return the members of one set.

    Raises:
        SpreadError: it is no membership message, or has no set of this index.
    """
    info = SP_get_memb_info(message)
    if not 0 <= index < len(info.vs_sets):
        raise SpreadError(ILLEGAL_MESSAGE, f"set {index} of {len(info.vs_sets)}")
    return info.vs_sets[index]
