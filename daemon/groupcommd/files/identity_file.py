"""Files of identities: a daemon's own private key, and the public keys of all daemons.

Both are TOML. The private one has ``private``, 64 hexadecimal digits; only its owner may read it.
The public one has a table ``[daemons]``, a public key for each name, and ``[evicted]``, a name for
each evicted public key. Everybody may read it, and only its owner may write it, as the daemon does
when another one is evicted.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.host.private_files import (
    open_private,
    open_unwritable,
    rewrite_private,
    write_new,
    write_private,
)
from groupcomm.host.toml_file import load_toml
from groupcomm.names import check_daemon
from groupcomm.security.identity import IDENTITY_BYTES, Roll, public_of

_PRIVATE_COMMENT: Final = "# The identity of one daemon: it stays on its host."
_ROLL_COMMENT: Final = "# Public keys of the daemons of a groupcomm cluster: each host has a copy."


def write_identity(path: Path) -> bytes:
    """Make a file with a private key; return its public key.

    Raises:
        ConfigError: the file exists; it is left as it is.
        OSError: the file cannot be written.
    """
    private = os.urandom(IDENTITY_BYTES)
    try:
        write_new(path, f"{_PRIVATE_COMMENT}\nprivate = {private.hex()!r}\n")
    except FileExistsError:
        raise ConfigError(
            f"{path} exists and was not changed, as other daemons would not trust a new "
            "identity: choose another path"
        ) from None
    return public_of(private)


def read_identity(path: Path) -> bytes:
    """Return the private key of a file, 32 bytes.

    Raises:
        ConfigError: others may read or replace it, or it holds none; the text holds no secret.
        OSError: it cannot be read.
    """
    with open_private(path, "identity") as file:
        table = _load(file, "identity", path)
    if table.keys() != {"private"}:
        raise ConfigError(f"identity {path}: it must have private = KEY, and nothing else")
    return _key("identity", path, "private", table["private"])


def read_roll(path: Path) -> Roll:
    """Return the identities of a file.

    Raises:
        ConfigError: others may change the file, or it does not hold public keys.
        OSError: it cannot be read.
    """
    with open_unwritable(path, "identities") as file:
        table = _load(file, "identities", path)
    daemons, evicted = table.get("daemons"), table.get("evicted", {})
    if not (isinstance(daemons, dict) and isinstance(evicted, dict)) or (
        table.keys() - {"daemons", "evicted"}
    ):
        raise ConfigError(
            f"identities {path}: it must have a table [daemons], may have a table [evicted], and"
            " nothing else"
        )
    return Roll(
        {_name(path, name): _key("identities", path, name, text) for name, text in daemons.items()},
        {_key("identities", path, f"evicted {n}", text): str(n) for text, n in evicted.items()},
    )


def change_roll(path: Path, change: Callable[[Roll], Roll]) -> Roll:
    """Rewrite a file of public keys, as `rewrite_private` does; make it if it does not exist.

    Raises:
        ConfigError: the file is wrong, or the change is impossible.
        OSError: the file cannot be read or written; it is as before.
    """

    def changed() -> Roll:
        return change(read_roll(path) if path.exists() else Roll({}))

    return rewrite_private(path, changed, _text)


def store_roll(path: Path, roll: Roll) -> None:
    """Write a file with these identities, in place of an older one; raise OSError if that fails."""
    write_private(path, _text(roll))


def add_identity(name: str, public: str, roll: Roll) -> Roll:
    """Return a roll with the public key of a daemon, in place of an older one.

    Raises:
        ConfigError: the text is no public key, or the key is another daemon's, or was evicted.
    """
    key = _key("identity of", Path(name), "public key", public)
    if key in roll.evicted:
        raise ConfigError(
            f"this key of {name} was evicted: make another with: groupcomm identity new"
        )
    return Roll({**roll.daemons, name: key}, roll.evicted)


def with_evicted(of_daemon: Roll, roll: Roll) -> Roll:
    """Return a roll with the evictions that a daemon knows of."""
    return Roll(roll.daemons, {**roll.evicted, **of_daemon.evicted})


def _text(roll: Roll) -> str:
    daemons = [f"{_quoted(name)} = {roll.daemons[name].hex()!r}" for name in sorted(roll.daemons)]
    evicted = [f"{public.hex()!r} = {_quoted(name)}" for public, name in roll.evicted.items()]
    tables = ["[daemons]", *daemons] + (["", "[evicted]", *evicted] if evicted else [])
    return "\n".join([_ROLL_COMMENT, "", *tables, ""])


def _quoted(name: str) -> str:
    """Return a basic string of TOML; names have no control characters."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _load(file: BinaryIO, what: str, path: Path) -> Mapping[str, Any]:
    try:
        return load_toml(file)
    except ConfigError as error:
        raise ConfigError(f"{what} {path}: {error}") from None


def _name(path: Path, name: str) -> str:
    try:
        return check_daemon(name)
    except LocalProtocolError as error:
        raise ConfigError(f"identities {path}: {error}") from None


def _key(what: str, path: Path, key: str, text: object) -> bytes:
    try:
        found = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        found = b""
    if len(found) != IDENTITY_BYTES:
        raise ConfigError(
            f"{what} {path}: {key} must have {2 * IDENTITY_BYTES} hexadecimal digits;"
            " groupcomm identity new makes them"
        )
    return found
