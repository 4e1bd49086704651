"""The credentials of members: a program's proofs, and the members that it trusts.

A *proof* is made over a text that names its purpose, so it is worthless for any other purpose.
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
    """The credentials that ``join(group, secret=...)`` accepts: a `SharedSecret` or `TrustedKeys`.

    Attributes:
        mixed: a secret that is mixed into every wrapped key, so that nobody can unwrap without it.
        names_members: whether a proof distinguishes holders, and so is worth showing to all
            members; the proof of a shared secret shows only that its sender knows the secret.
    """

    @property
    def mixed(self) -> bytes:
        """Return the secret that is mixed into every wrapped key."""

    @property
    def names_members(self) -> bool:
        """Return whether a proof tells holders apart."""

    def prove(self, text: bytes) -> bytes:
        """Return a proof that this program vouches for a text."""

    def doubt(self, member: MemberId, text: bytes, proof: bytes) -> str:
        """Return the reason not to believe a member's proof over a text; "" if it is good."""


class SharedSecret:
    """32 random bytes that all members know, and no daemon.

    A password is not enough: a daemon could try guesses on the messages that it sees.
    """

    names_members: Final = False

    def __init__(self, secret: bytes) -> None:
        """Use a secret.

        Raises:
            ConfigError: the secret does not have 32 bytes.
        """
        if len(secret) != KEY_BYTES:
            raise ConfigError(
                f"the secret of a group has {len(secret)} bytes; it must have "
                f"{KEY_BYTES} random ones: make a file with `groupcomm keygen FILE`, and "
                "read it with SharedSecret.read(FILE)"
            )
        self.mixed = _derive(secret, b"wrap")
        self._proves = _derive(secret, b"proof")

    @classmethod
    def read(cls, path: Path) -> "SharedSecret":
        """Read a file that `groupcomm keygen` has made; not the key file of the daemons.

        Raises:
            ConfigError: the file is missing or invalid, or others may read it.
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
        return (
            f"{member.name} has not shown that it knows the secret: start it with the same secret"
        )


Trust = Callable[[MemberId, bytes], bool]
"""Returns whether a member may hold a public key of 32 bytes."""


class TrustedKeys:
    """An Ed25519 key of each member; members whose public keys are trusted are let in.

    Args:
        identity: the private key of this program, 32 bytes.
        trusted: public keys of 32 bytes each, this program's own may be missing; or a function that
            returns whether a member and its public key are trusted.

    Attributes:
        public: the public key of this program, for the others to trust.
    """

    names_members: Final = True
    mixed: Final = b""

    def __init__(self, identity: bytes, trusted: Iterable[bytes] | Trust) -> None:
        """Use keys.

        Raises:
            ConfigError: a key does not have 32 bytes.
        """
        self._private = Ed25519PrivateKey.from_private_bytes(_checked(identity))
        self.public = self._private.public_key().public_bytes_raw()
        if callable(trusted):
            self._trusts = trusted
        else:
            keys = frozenset((self.public, *(_checked(key) for key in trusted)))
            self._trusts = lambda _, key: key in keys

    def prove(self, text: bytes) -> bytes:
        """Return the public key, then a signature (RFC 8032); see `GroupSecret`."""
        return self.public + self._private.sign(text)

    def doubt(self, member: MemberId, text: bytes, proof: bytes) -> str:
        """See `GroupSecret`."""
        key = proof[:KEY_BYTES]
        if len(proof) != _PROOF_BYTES:
            return f"{member.name} has shown no key: it must join with TrustedKeys, too"
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(proof[KEY_BYTES:], text)
        except InvalidSignature:
            return f"{member.name} has not proved that it holds the key which it shows"
        try:
            if self._trusts(member, key):
                return ""
        except Exception as error:  # the program's own: nobody is trusted by it, and no event lost
            return f"the function that trusts keys has failed for {member.name} with {error!r}"
        return (
            f"the key of {member.name} is not trusted here: {key.hex()}; if it is the right one, "
            "add it to the trusted keys"
        )


def read_public_keys(path: Path) -> frozenset[bytes]:
    """Return the keys of a file: 64 hexadecimal digits a line, then anything; # begins a comment.

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
