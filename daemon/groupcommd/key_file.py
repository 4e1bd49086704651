"""Key files: the secrets that a cluster's daemons share.

TOML: ``active`` names the key that seals, ``[keys]`` holds 64 hexadecimal digits for each key id.
A file that anybody but its owner can read is refused, and so is a folder in which others could put
another file in its place.
"""

import os
import secrets
import stat
import tomllib
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.security.keys import KEY_BYTES, KeyRing

_FIRST: Final = 1


def write_key_file(path: Path) -> None:
    """Make a file with one new key; readable by its owner only.

    Raises:
        ConfigError: there is such a file already; it is left as it is.
        OSError: it cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        raise ConfigError(
            f"{path} exists; a new key would lock its daemons out: choose another path"
        ) from None
    with os.fdopen(descriptor, "w") as file:
        file.write(
            "# The secret of a groupcomm cluster: give every daemon a copy, and nobody else.\n"
        )
        file.write(f"active = {_FIRST}\n\n[keys]\n{_FIRST} = {secrets.token_hex(KEY_BYTES)!r}\n")
        file.flush()
        os.fsync(file.fileno())


def read_key_file(path: Path) -> KeyRing:
    """Read a file's keys.

    Raises:
        ConfigError: others may read or replace it, or it does not hold keys; the text holds no
            secret.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        _check_private(path, os.fstat(file.fileno()))
        try:
            table = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise _bad(path, "it is not valid TOML") from None
    active, keys = table.get("active"), table.get("keys")
    if type(active) is not int or not isinstance(keys, dict) or table.keys() != {"active", "keys"}:
        raise _bad(path, "it must have active = NUMBER and a table [keys], and nothing else")
    return KeyRing({_number(path, n): _key(path, n, text) for n, text in keys.items()}, active)


def _check_private(path: Path, status: os.stat_result) -> None:
    """Only its owner can read the file, and only who is trusted can replace it."""
    mode, folder = stat.S_IMODE(status.st_mode), path.absolute().parent
    if not stat.S_ISREG(status.st_mode) or mode & 0o077:
        raise ConfigError(
            f"key_file {path}: others may read it (mode {mode:o}); mend that with: chmod 600 {path}"
        )
    trusted = (0, os.geteuid())
    if status.st_uid not in trusted:
        raise ConfigError(
            f"key_file {path}: it belongs to user {status.st_uid}, who may change it;"
            f" mend that with: chown {os.geteuid()} {path}"
        )
    around = folder.stat()
    mode = stat.S_IMODE(around.st_mode)
    if mode & 0o022 and not mode & stat.S_ISVTX:  # in a sticky folder others cannot replace it
        raise ConfigError(
            f"key_file {path}: others may write to its folder (mode {mode:o}) and replace it;"
            f" mend that with: chmod go-w {folder}"
        )
    if around.st_uid not in trusted:
        raise ConfigError(
            f"key_file {path}: its folder belongs to user {around.st_uid}, who may replace it;"
            f" mend that with: chown {os.geteuid()} {folder}"
        )


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
