"""Key files: the secrets that a cluster's daemons share.

TOML: ``active`` names the key that seals, ``[keys]`` holds 64 hexadecimal digits for each key id.
A file that anybody but its owner can read is refused, and so is a folder in which others could put
another file in its place.
"""

import contextlib
import secrets
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.private_files import (
    make_private_folder,
    open_private,
    rewrite_private,
    write_new,
)
from groupcomm.security.keys import KEY_BYTES, KeyRing

_FIRST: Final = 1
_COMMENT: Final = "# The secret of a groupcomm cluster: give every daemon a copy, and nobody else."


def write_key_file(path: Path) -> None:
    """Make a file with one new key; readable by its owner only.

    Raises:
        ConfigError: there is such a file already; it is left as it is.
        OSError: it cannot be written.
    """
    try:
        write_new(path, _text(KeyRing({_FIRST: secrets.token_bytes(KEY_BYTES)}, _FIRST)))
    except FileExistsError:
        raise ConfigError(
            f"{path} exists; a new key would lock its daemons out: choose another path"
        ) from None


def make_common_key(path: Path) -> None:
    """Make a file with one new key unless it is there; whoever else does so at once, one counts.

    Raises:
        OSError: it cannot be made.
    """
    if path.exists():
        return
    make_private_folder(path.parent)
    mine = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    write_key_file(mine)
    try:
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(mine)  # whole, or not at all
    finally:
        mine.unlink()


def change_key_file(path: Path, change: Callable[[KeyRing], KeyRing]) -> KeyRing:
    """Rewrite a file: it holds the old keys or the new ones, whenever the power fails.

    Daemons and commands that do so at the same time wait for each other.

    Args:
        path: of the file.
        change: from what it holds to what it shall hold.

    Returns:
        What it holds now.

    Raises:
        ConfigError: it is not to be read, or what comes of the change is no key ring.
        OSError: it cannot be read or written; it is as it was.
    """
    return rewrite_private(path, lambda: change(read_key_file(path)), _text)


def add_key(keys: KeyRing) -> KeyRing:
    """With one new key, that does not seal yet."""
    number = max(keys.keys) + 1
    return KeyRing({**keys.keys, number: secrets.token_bytes(KEY_BYTES)}, keys.active)


def add_from(other: KeyRing, keys: KeyRing) -> KeyRing:
    """With all keys of another file, and its active one if that is newer.

    Raises:
        ConfigError: they have different keys of one number.
    """
    differ = [n for n, key in other.keys.items() if keys.keys.get(n, key) != key]
    if differ:
        raise ConfigError(
            f"both files have a key {differ[0]}, and not the same one: is it the file of another"
            " cluster? nothing was changed"
        )
    return KeyRing({**keys.keys, **other.keys}, max(keys.active, other.active))


def agreed(of_daemons: KeyRing, keys: KeyRing) -> KeyRing:
    """What daemons have agreed on; keys that they do not know yet, newer ones, stay."""
    newer = {n: key for n, key in keys.keys.items() if n > max(of_daemons.keys)}
    return KeyRing({**of_daemons.keys, **newer}, of_daemons.active)


def _text(keys: KeyRing) -> str:
    lines = [f"{number} = {keys.keys[number].hex()!r}" for number in sorted(keys.keys)]
    return "\n".join([_COMMENT, f"active = {keys.active}", "", "[keys]", *lines, ""])


def read_key_file(path: Path) -> KeyRing:
    """Read a file's keys.

    Raises:
        ConfigError: others may read or replace it, or it does not hold keys; the text holds no
            secret.
        OSError: it cannot be read.
    """
    with open_private(path, "key_file") as file:
        try:
            table = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise _bad(path, "it is not valid TOML") from None
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
