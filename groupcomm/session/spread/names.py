"""Names for Spread's clients, which have 31 bytes for each; ours have up to 255.

A name that fits is the same on both sides. For a longer name a client gets an *alias*: as much of
its beginning as fits, ``~`` and six letters of a hash of the whole. An alias is the same at all
daemons and for all clients. A client's message to the alias of a private name reaches that member,
if this daemon has shown the member to one of its clients before.
"""

import hashlib
from typing import Final

from groupcomm.errors import LocalProtocolError
from groupcomm.names import check_destination
from groupcomm.session.spread.layout import MAX_NAME

MAX_USER_BYTES: Final = 10
"""The most bytes of the name that a client gives itself."""

MAX_DAEMON_BYTES: Final = 19
"""The most bytes of a daemon's name: with a user's and two ``#`` a private name then has 31."""

_HASH_LETTERS: Final = 6
_MOST_ALIASES: Final = 4096
_aliases: dict[bytes, str] = {}


def encode_name(name: str) -> bytes:
    """Return the name of a group or a session as a client of Spread sees it."""
    raw = name.encode()
    if len(raw) <= MAX_NAME:
        return raw
    if not name.startswith("#"):
        return _shorten(raw, MAX_NAME, raw)
    user, _, daemon = raw[1:].partition(b"#")
    alias = b"#%b#%b" % (_shorten(user, MAX_USER_BYTES, raw), _shorten(daemon, MAX_DAEMON_BYTES))
    if len(_aliases) >= _MOST_ALIASES:
        _aliases.clear()
    _aliases[alias] = name
    return alias


def _shorten(text: bytes, most: int, hashed: bytes = b"") -> bytes:
    """Return a text of `most` bytes at most; UTF-8 is not cut within a character."""
    if len(text) <= most and not hashed:
        return text
    digest = hashlib.blake2b(hashed or text, digest_size=3, person=b"spread alias").hexdigest()
    begin = text[: most - _HASH_LETTERS - 1].decode(errors="ignore").encode()
    return b"%b~%b" % (begin, digest.encode())


def decode_destination(raw: bytes) -> str | None:
    """Return the name that a client's name stands for; None for one that nobody here can have."""
    alias = _aliases.get(raw)
    if alias is not None:
        return alias
    try:
        return check_destination(raw.decode())
    except (UnicodeDecodeError, LocalProtocolError):
        return None


def decode_group(raw: bytes) -> str | None:
    """Return the group that a client means; None for a name that no group here can have."""
    name = decode_destination(raw)
    return None if name is None or name.startswith("#") else name


def user_fault(raw: bytes) -> str:
    """Return the fault of the name that a client gives itself; "" if it may have it."""
    if len(raw) > MAX_USER_BYTES:
        return f"a private name of {len(raw)} bytes; {MAX_USER_BYTES} are allowed"
    if any(not 0x23 < byte <= 0x7E for byte in raw):
        return f"private name {raw!r} has other characters than those from '$' to '~'"
    return ""


def daemon_fault(name: str) -> str:
    """Return the reason why Spread's clients cannot use a daemon of this name; "" if they can."""
    if len(name.encode()) <= MAX_DAEMON_BYTES:
        return ""
    return f"its name has more than the {MAX_DAEMON_BYTES} bytes that their private names leave"
