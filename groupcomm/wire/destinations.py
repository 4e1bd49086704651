"""Names in bundles: users, and the groups section of a body.

The same names come in every bundle, so decoded names are kept in caches of bounded size.
"""

from typing import Final

from groupcomm.errors import BadDatagram, LocalProtocolError
from groupcomm.names import check_destination, check_user

MAX_GROUPS: Final = 255

_CACHED_NAMES: Final = 4096
_CACHED_BYTES: Final = 512  # longer lists of groups are decoded each time
_groups_cache: dict[bytes, tuple[tuple[str, ...], int]] = {}
_encoded_cache: dict[tuple[str, ...], bytes] = {}
_users_cache: dict[bytes, str] = {}


def encode_groups(groups: tuple[str, ...]) -> bytes:
    """The groups section of a body."""
    names = _encoded_cache.get(groups)
    if names is None:
        names = b"".join(_short_text(name) for name in groups)
        if len(names) <= _CACHED_BYTES:
            if len(_encoded_cache) >= _CACHED_NAMES:
                _encoded_cache.clear()
            _encoded_cache[groups] = names
    return names


def _short_text(text: str) -> bytes:
    raw = text.encode()
    return bytes((len(raw),)) + raw


def decode_user_untrusted(raw: bytes) -> str:
    """The user part of a private name; raises only BadDatagram."""
    user = _users_cache.get(raw)
    if user is None:
        user = _decode_name(raw)
        try:
            check_user(user)
        except LocalProtocolError as error:
            raise BadDatagram("name", str(error)) from None
        if len(_users_cache) >= _CACHED_NAMES:
            _users_cache.clear()
        _users_cache[raw] = user
    return user


def decode_groups_untrusted(raw: bytes) -> tuple[tuple[str, ...], int]:
    """Names in a groups section, and how many are private; raises only BadDatagram."""
    known = _groups_cache.get(raw)
    if known is None:
        known = _split_groups(raw)
        if len(raw) <= _CACHED_BYTES:
            if len(_groups_cache) >= _CACHED_NAMES:
                _groups_cache.clear()
            _groups_cache[raw] = known
    return known


def _split_groups(raw: bytes) -> tuple[tuple[str, ...], int]:
    groups: list[str] = []
    offset = 0
    while offset < len(raw):
        end = offset + 1 + raw[offset]
        if end > len(raw):
            raise BadDatagram("short", "a group's name ends after its section")
        groups.append(_decode_name(raw[offset + 1 : end]))
        offset = end
    if len(groups) > MAX_GROUPS:
        raise BadDatagram("bundle", f"{len(groups)} groups; at most {MAX_GROUPS} are allowed")
    try:
        privates = _check_all(groups)
    except LocalProtocolError as error:
        raise BadDatagram("name", str(error)) from None
    return tuple(groups), privates


def _check_all(groups: list[str]) -> int:
    """Return how many names are private; LocalProtocolError if one is none."""
    if (text := "".join(groups)).isascii() and text.isprintable():
        # What a name is made of is right in all of them: where it begins and ends is left.
        suspects = [name for name in groups if not name or name[0] == "#"]
    else:
        suspects = groups
    return sum(check_destination(name)[0] == "#" for name in suspects)


def _decode_name(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None
