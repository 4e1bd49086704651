"""Token files: the tokens by which programs authenticate over TLS.

TOML, readable by its owner only: for each name a salt, the SHA-256 of salt and token, and perhaps
the time at which the token expires. A token is shown once, when it is made. It has 256 random bits,
so nobody can try them all, and a slow hash such as scrypt would only be a way to keep the daemon
busy, as an unauthenticated program has it compute one hash for each attempt.
"""

import hashlib
import hmac
import logging
import os
import re
import secrets
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.private_files import open_private, rewrite_private
from groupcomm.host.toml_file import load_toml
from groupcommd.host.process import is_exhausted

SECRET_BYTES: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_log = logging.getLogger("groupcommd")


@attrs.frozen
class Token:
    """The record of a token.

    Attributes:
        salt: 32 bytes.
        digest: SHA-256 of salt and secret.
        expires: the time from which it is invalid; None for never.
    """

    salt: bytes = attrs.field(repr=False)
    digest: bytes = attrs.field(repr=False)
    expires: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Return whether it has not expired."""
        return self.expires is None or now < self.expires


_NOBODY: Final = Token(bytes(32), bytes(32))
"""Compared for unknown names, so that the time of a comparison does not reveal valid names."""

Tokens = dict[str, Token]


def add_token(path: Path, name: str, expires: datetime | None = None) -> str:
    """Make a token, and the file if there is none; return the token, which is stored nowhere.

    Raises:
        ConfigError: the name is invalid or has a token; the file is as before.
        OSError: the file cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"token name {name!r}: use 1 to 64 letters, digits, dots and dashes")
    secret, salt = secrets.token_urlsafe(SECRET_BYTES), secrets.token_bytes(SECRET_BYTES)

    def added() -> Tokens:
        tokens = read_tokens(path) if path.exists() else {}
        if name in tokens:
            raise ConfigError(f"{path} has a token of {name!r}: remove it, or choose another name")
        return {**tokens, name: Token(salt, _digest(salt, secret), expires)}

    rewrite_private(path, added, _text)
    return f"{name}:{secret}"


def remove_token(path: Path, name: str) -> None:
    """Revoke a token.

    Raises:
        ConfigError: the name has no token.
        OSError: the file cannot be read or written.
    """

    def left() -> Tokens:
        tokens = read_tokens(path)
        if tokens.pop(name, None) is None:
            raise ConfigError(f"{path} has no token of {name!r}: see groupcomm tokens list {path}")
        return tokens

    rewrite_private(path, left, _text)


def read_tokens(path: Path) -> Tokens:
    """Read the tokens of a file.

    Raises:
        ConfigError: others may read or replace it, or it does not hold tokens.
        OSError: it cannot be read.
    """
    with open_private(path, "clients.tokens") as file:
        try:
            table = load_toml(file)
            return {name: _structure(each) for name, each in table["tokens"].items()}
        except (ConfigError, ValueError, LookupError, TypeError, AttributeError):
            raise ConfigError(
                f"clients.tokens {path}: the file holds no tokens; make one with: groupcomm tokens"
            ) from None


def _structure(found: dict[str, Any]) -> Token:
    salt, digest, expires = found["salt"], found["sha256"], found.get("expires")
    right = found.keys() <= {"salt", "sha256", "expires"}
    right &= bool(_HEX.fullmatch(salt) and _HEX.fullmatch(digest))
    if not right or not (expires is None or (isinstance(expires, datetime) and expires.tzinfo)):
        raise ValueError
    return Token(bytes.fromhex(salt), bytes.fromhex(digest), expires)


def _text(tokens: Tokens) -> str:
    lines = ["# Tokens of programs, hashed: made and revoked by groupcomm tokens.", "[tokens]"]
    for name, token in tokens.items():
        lines += [f'[tokens."{name}"]', f'salt = "{token.salt.hex()}"']
        lines.append(f'sha256 = "{token.digest.hex()}"')
        if token.expires is not None:
            lines.append(f"expires = {token.expires.astimezone(UTC).isoformat()}")
    return "\n".join([*lines, ""])


def _digest(salt: bytes, secret: str) -> bytes:
    return hashlib.sha256(salt + secret.encode()).digest()


class TokenBook:
    """The tokens of a file, which is read again when it has changed.

    A file that becomes wrong while the daemon runs makes all tokens invalid until it is repaired.
    """

    def __init__(self, path: Path, *, by_itself: bool = True) -> None:
        """Read the file.

        Args:
            path: the file.
            by_itself: whether each question looks first whether the file has changed, which may
                wait for the disk; else `refresh` does, which a thread may call.

        Raises:
            ConfigError, OSError: see `read_tokens`.
        """
        self._path = path
        self._refreshing = threading.Lock()  # an older look must not replace a newer one
        self._by_itself = by_itself
        self._fault = ""  # the last error that was logged; "" once the file is right
        self._seen = self._look()
        self._tokens = read_tokens(path)

    def name_of(self, token: str, now: datetime) -> str | None:
        """Return the name of a token; None if it is wrong, revoked or expired."""
        name, _, secret = token.partition(":")
        known = self._current().get(name)
        digest = _digest((known or _NOBODY).salt, secret)
        right = hmac.compare_digest(digest, (known or _NOBODY).digest)
        return name if right and known is not None and known.is_valid(now) else None

    def knows(self, name: str, now: datetime) -> bool:
        """Return whether there is a valid token of this name."""
        token = self._current().get(name)
        return token is not None and token.is_valid(now)

    def expired(self, now: datetime) -> frozenset[str]:
        """Return the names of the tokens that have expired; none while the file is wrong."""
        return frozenset(n for n, token in self._current().items() if not token.is_valid(now))

    def _current(self) -> Tokens:
        """Return the tokens, after a look at the file unless others look."""
        if self._by_itself:
            self.refresh()
        return self._tokens

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        with self._refreshing:
            self._refresh()

    def _refresh(self) -> None:
        try:
            seen = self._look()
            if seen != self._seen:
                self._seen = seen
                self._tokens = read_tokens(self._path)
            self._fault = ""
        except (ConfigError, OSError) as error:
            self._seen = None
            if is_exhausted(error):
                return  # the file may be right: it is read later
            self._tokens = {}
            if str(error) != self._fault:
                self._fault = str(error)
                _log.error("all tokens are invalid until this file is repaired: %s", error)

    def _look(self) -> tuple[int, ...] | None:
        found = os.stat(self._path)  # noqa: PTH116 - beside the other calls of os
        return found.st_ctime_ns, found.st_ino, found.st_size, found.st_mode, found.st_uid
