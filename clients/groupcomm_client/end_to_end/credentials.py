"""Who may have the keys of a group: what a program shows, and whom it believes.

A *proof* is made over a text that names what it is for, so it is worth nothing for anything else.
"""

import hmac
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from groupcomm.errors import ConfigError
from groupcomm.events import MemberId
from groupcomm.host.key_file import read_key_file

KEY_BYTES: Final = 32
_PROOF_BYTES: Final = KEY_BYTES + 64


class GroupSecret(Protocol):
    """What ``join(group, secret=...)`` takes: a `SharedSecret` or `TrustedKeys`.

    Attributes:
        mixed: goes into every wrapped key, so that whoever lacks it cannot unwrap.
        names_members: whether a proof tells one holder from the other, and so is worth showing to
            all members; that of a shared secret only says that somebody knows it.
    """

    @property
    def mixed(self) -> bytes:
        """See above."""

    @property
    def names_members(self) -> bool:
        """See above."""

    def prove(self, text: bytes) -> bytes:
        """Show that this program stands behind a text."""

    def doubt(self, member: MemberId, text: bytes, proof: bytes) -> str:
        """Return why a member is not believed to stand behind a text; empty if it is."""


class SharedSecret:
    """All members know the same 32 random bytes, and no daemon does.

    A password is not enough: its guesses could be tried on what a daemon sees.
    """

    names_members: Final = False

    def __init__(self, secret: bytes) -> None:
        """Take a secret.

        Raises:
            ConfigError: it has not 32 bytes.
        """
        if len(secret) != KEY_BYTES:
            raise ConfigError(
                f"the secret of a group has {len(secret)} bytes; it must have {KEY_BYTES} random"
                " ones: `groupcomm keygen FILE` makes them, SharedSecret.read(FILE) takes them"
            )
        self.mixed = _derive(secret, b"wrap")
        self._proves = _derive(secret, b"proof")

    @classmethod
    def read(cls, path: Path) -> "SharedSecret":
        """Read a file as `groupcomm keygen` makes it; one of its own, not that of the daemons.

        Raises:
            ConfigError: there is none, it is no such file, or others may read it.
        """
        try:
            ring = read_key_file(path)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}: make it with groupcomm keygen") from None
        return cls(ring.keys[ring.active])

    def prove(self, text: bytes) -> bytes:
        """See `GroupSecret`."""
        return hmac.digest(self._proves, text, sha256)

    def doubt(self, member: MemberId, text: bytes, proof: bytes) -> str:
        """See `GroupSecret`."""
        if hmac.compare_digest(self.prove(text), proof):
            return ""
        return f"{member.name} does not show that it knows the secret: give it the same one"


Trust = Callable[[MemberId, bytes], bool]
"""Whether a member may hold a public key of 32 bytes."""


class TrustedKeys:
    """Each member has an Ed25519 key of its own; whose public key is trusted is let in.

    Args:
        identity: the private key of this program, 32 bytes.
        trusted: public keys of 32 bytes each, this program's own need not be among them; or a
            function that is asked of each member and its public key.

    Attributes:
        public: the public key of this program, for the others to trust.
    """

    names_members: Final = True
    mixed: Final = b""

    def __init__(self, identity: bytes, trusted: Iterable[bytes] | Trust) -> None:
        """Take keys.

        Raises:
            ConfigError: a key has not 32 bytes.
        """
        self._private = Ed25519PrivateKey.from_private_bytes(_checked(identity))
        self.public = self._private.public_key().public_bytes_raw()
        if callable(trusted):
            self._trusts = trusted
        else:
            keys = frozenset((self.public, *(_checked(key) for key in trusted)))
            self._trusts = lambda _, key: key in keys

    def prove(self, text: bytes) -> bytes:
        """See `GroupSecret`: the public key, then a signature (RFC 8032)."""
        return self.public + self._private.sign(text)

    def doubt(self, member: MemberId, text: bytes, proof: bytes) -> str:
        """See `GroupSecret`."""
        key = proof[:KEY_BYTES]
        if len(proof) != _PROOF_BYTES:
            return f"{member.name} shows no key: it must join with TrustedKeys, too"
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(proof[KEY_BYTES:], text)
        except InvalidSignature:
            return f"{member.name} has not the key that it shows"
        if self._trusts(member, key):
            return ""
        return f"the key of {member.name} is not trusted here: {key.hex()}"


def read_public_keys(path: Path) -> frozenset[bytes]:
    """Return the keys of a file: 64 hexadecimal digits a line, then anything; # is a comment.

    Raises:
        ConfigError: there is no such file, or a line is not of that form.
    """
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}: name a file of public keys") from None
    keys = set()
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if words:
            try:
                keys.add(_checked(bytes.fromhex(words[0])))
            except (ValueError, ConfigError):
                raise ConfigError(
                    f"{path}, line {number}: {words[0][:80]!r} is no public key; it must be 64"
                    " hexadecimal digits"
                ) from None
    return frozenset(keys)


def _checked(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise ConfigError(f"a key has {len(key)} bytes; it must have {KEY_BYTES}")
    return key


def _derive(secret: bytes, use: bytes) -> bytes:
    info = b"groupcomm end-to-end v1 " + use
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)
