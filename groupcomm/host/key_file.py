"""Key files: the secrets that the daemons of a cluster share.

TOML: ``active`` names the key that seals, ``[keys]`` holds 64 hexadecimal digits for each key id.
A file that anybody but its owner can read is refused, and so is a folder in which others could put
another file in its place.
"""

import contextlib
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.private_files import (
    make_private_folder,
    open_private,
    rewrite_private,
    write_new,
    write_private,
)
from groupcomm.host.toml_file import load_toml
from groupcomm.security.keys import KEY_BYTES, KeyRing

_FIRST: Final = 1
_COMMENT: Final = "# The secret of a groupcomm cluster: give every daemon a copy, and nobody else."


def write_key_file(path: Path) -> None:
    """Make a file with one new key, readable by its owner only.

    Raises:
        ConfigError: the file exists; it is left as it is.
        OSError: the file cannot be written.
    """
    try:
        write_new(path, _text(KeyRing({_FIRST: secrets.token_bytes(KEY_BYTES)}, _FIRST)))
    except FileExistsError:
        raise ConfigError(
            f"{path} exists; a new key would lock its daemons out: choose another path"
        ) from None


def store_keys(path: Path, keys: KeyRing) -> None:
    """Write a file with these keys, in place of an older one; raise OSError if that fails."""
    write_private(path, _text(keys))


def make_common_key(path: Path) -> None:
    """Make a file with one new key unless it exists; of several at once, one key is used by all.

    Raises:
        OSError: the file cannot be made.
    """
    if path.exists():
        return
    make_private_folder(path.parent)
    mine = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    write_key_file(mine)
    try:
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(mine)  # the key file appears whole or not at all
    finally:
        mine.unlink()


def change_key_file(path: Path, change: Callable[[KeyRing], KeyRing]) -> KeyRing:
    """Rewrite a file, which holds the old keys or the new ones whenever the power fails.

    Daemons and commands that rewrite it at the same time wait for each other.

    Args:
        path: the file.
        change: returns the new keys, given the old ones.

    Returns:
        The new keys.

    Raises:
        ConfigError: the file is wrong, or the new keys are no key ring.
        OSError: the file cannot be read or written; it is as before.
    """
    return rewrite_private(path, lambda: change(read_key_file(path)), _text)


def add_key(keys: KeyRing) -> KeyRing:
    """Return a key ring with one new key, which does not seal yet."""
    number = max(keys.keys) + 1
    return KeyRing({**keys.keys, number: secrets.token_bytes(KEY_BYTES)}, keys.active)


def add_from(other: KeyRing, keys: KeyRing) -> KeyRing:
    """Return a key ring with all keys of another file, and its active one if that is newer.

    Raises:
        ConfigError: both have different keys of one number.
    """
    differ = [n for n, key in other.keys.items() if keys.keys.get(n, key) != key]
    if differ:
        raise ConfigError(
            f"nothing was changed, as both files have a key {differ[0]}, and not the same one: is"
            " it the file of another cluster?"
        )
    return KeyRing({**keys.keys, **other.keys}, max(keys.active, other.active))


def agreed(of_daemons: KeyRing, keys: KeyRing) -> KeyRing:
    """Return the keys that daemons have agreed on, with newer ones that they do not know yet."""
    newer = {n: key for n, key in keys.keys.items() if n > max(of_daemons.keys)}
    return KeyRing({**of_daemons.keys, **newer}, of_daemons.active)


def _text(keys: KeyRing) -> str:
    lines = [f"{number} = {keys.keys[number].hex()!r}" for number in sorted(keys.keys)]
    return "\n".join([_COMMENT, f"active = {keys.active}", "", "[keys]", *lines, ""])


def read_key_file(path: Path) -> KeyRing:
    """Read the keys of a file.

    Raises:
        ConfigError: others may read or replace it, or it does not hold keys; the text holds no
            secret.
        OSError: it cannot be read.
    """
    with open_private(path, "key_file") as file:
        try:
            table = load_toml(file)
        except ConfigError as error:
            raise _bad(path, str(error)) from None
    active, keys = table.get("active"), table.get("keys")
    if type(active) is not int or not isinstance(keys, dict) or table.keys() != {"active", "keys"}:
        raise _bad(path, "it must have active = NUMBER and a table [keys], and nothing else")
    return KeyRing({_number(path, n): _key(path, n, text) for n, text in keys.items()}, active)


def _number(path: Path, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise _bad(path, f"key id {text!r} must be a number of 0 to 65535")
    return int(text)


def _key(path: Path, number: str, text: object) -> bytes:
    try:
        key = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise _bad(path, f"key {number} must have {2 * KEY_BYTES} hexadecimal digits")
    return key


def _bad(path: Path, what: str) -> ConfigError:
    return ConfigError(f"key_file {path}: {what}; make one with: groupcomm keygen")
