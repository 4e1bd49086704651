"""Names of daemons, users and groups: UTF-8, at most 255 bytes, checked where they enter.

Each character of a name must be visible: otherwise two names could look alike, or a name could turn
the direction of the text around it, and people would trust the wrong one.
"""

import hashlib
import unicodedata
from functools import lru_cache

from groupcomm.errors import LocalProtocolError
from groupcomm.visible import find_hidden

MAX_NAME_BYTES = 255


def check_group(name: str) -> str:
    """Return a group's name, or raise LocalProtocolError that says which rule it breaks."""
    _check_text("group name", name)
    if name.startswith("#"):
        raise LocalProtocolError(
            f"group name {name!r} starts with '#', which private names have: choose another name"
        )
    return name


def is_group(name: str) -> bool:
    """Return whether a text is a group's name."""
    try:
        check_group(name)
    except LocalProtocolError:
        return False
    return True


def check_user(name: str) -> str:
    """Return a user's name (the first part of a private name), or raise LocalProtocolError."""
    return _check_part("user name", name)


def check_daemon(name: str) -> str:
    """Return a daemon's name, or raise LocalProtocolError."""
    return _check_part("daemon name", name)


def _check_part(what: str, name: str) -> str:
    _check_text(what, name)
    if "#" in name:
        raise LocalProtocolError(
            f"{what} {name!r} contains '#', which separates the parts of private names: choose"
            " another"
        )
    return name


def check_destination(name: str) -> str:
    """Return the name of a group or a private name, or raise LocalProtocolError."""
    if not isinstance(name, str) or not name.startswith("#"):
        return check_group(name)
    _check_text("private name", name)
    split_private(name)
    return name


def check_cursor(name: str) -> str:
    """Return a cursor's name, or raise LocalProtocolError."""
    _check_text("cursor name", name)
    return name


def private_name(user: str, daemon: str) -> str:
    """Return the private name of a session, ``#user#daemon``."""
    name = f"#{user}#{daemon}"
    _check_text("private name", name)
    return name


def is_private(user: str, daemon: str) -> bool:
    """Return whether a valid user's name and a valid daemon's name fit a private name."""
    return len(user.encode()) + len(daemon.encode()) + 2 <= MAX_NAME_BYTES


def split_private(name: str) -> tuple[str, str]:
    """Split ``#user#daemon`` into user and daemon; raise LocalProtocolError for anything else."""
    parts = name.split("#")
    if len(parts) != 3 or parts[0] or not parts[1] or not parts[2]:
        raise LocalProtocolError(f"{name!r} is not a private name of the form #user#daemon")
    return parts[1], parts[2]


def daemon_of(member: str) -> str:
    """Return the daemon in ``#user#daemon/connection``, as a member is written."""
    return member.rpartition("/")[0].rpartition("#")[2]


@lru_cache(maxsize=1024)
def daemon_number(name: str) -> int:
    """Return the 64 bits that stand for a daemon's name in the head of a datagram."""
    digest = hashlib.blake2b(name.encode(), digest_size=8, person=b"groupcomm daemon")
    return int.from_bytes(digest.digest(), "big")


def cluster_number(name: str) -> int:
    """Return the 64 bits that stand for a cluster's name in the head of a datagram."""
    digest = hashlib.blake2b(name.encode(), digest_size=8, person=b"groupcomm clust")
    return int.from_bytes(digest.digest(), "big")


def _check_text(what: str, name: str) -> None:
    if not isinstance(name, str):
        raise LocalProtocolError(f"{what} is {name!r}, which is no text: write a str")
    if not name:
        raise LocalProtocolError(f"{what} is empty; it must have 1 to {MAX_NAME_BYTES} bytes")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise LocalProtocolError(f"{what} {name!r} is not valid Unicode text") from None
    if size > MAX_NAME_BYTES:
        raise LocalProtocolError(
            f"{what} of {size} bytes is too long; {MAX_NAME_BYTES} are allowed"
        )
    hidden = find_hidden(name)
    if hidden:
        raise LocalProtocolError(
            f"{what} {name!r} contains {_describe_hidden(hidden)}: choose visible characters"
        )


def _describe_hidden(letter: str) -> str:
    if unicodedata.category(letter) == "Cc":
        return "a control character"
    return (
        f"U+{ord(letter):04X}, {unicodedata.name(letter, 'a format character')}, which is invisible"
    )
