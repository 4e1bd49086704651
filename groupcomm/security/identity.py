"""Identities: each daemon proves by a key of its own which daemon it is (Ed25519, RFC 8032).

The holder of a key file can be any daemon of the cluster. With identities the file is needed, and
not sufficient: a daemon signs the packets by which it introduces itself, and each daemon has the
public keys that it trusts. A daemon whose key is trusted no more is *evicted*, with all
other secrets that it has.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from groupcomm.config.view import Incarnation
from groupcomm.errors import BadDatagram, ConfigError
from groupcomm.names import daemon_number

IDENTITY_BYTES: Final = 32
"""The size of a private key, and of a public one."""

Entropy = Callable[[int], bytes]
"""Returns a number of unpredictable random bytes."""

StartId = tuple[int, Incarnation]
"""A daemon's number, and one of its starts."""

_FIELD: Final = 2**255 - 19
_ORDER_EIGHT: Final = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
_SMALL_ORDER: Final = frozenset({0, 1, _FIELD - 1, _ORDER_EIGHT, _FIELD - _ORDER_EIGHT})
"""The y coordinates of the points of edwards25519 whose order divides 8 (RFC 8032, section 5.1)."""

_PURPOSE: Final = b"groupcomm identity v1"
_PLACE = struct.Struct("!QQQQQQ")


def identity_fingerprint(public: bytes) -> bytes:
    """Return a fingerprint of 8 bytes, which tells public keys apart."""
    return hashlib.blake2b(public, digest_size=8, person=b"groupcomm ident").digest()


def public_of(private: bytes) -> bytes:
    """Return the public key of a private one, 32 bytes each."""
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def has_small_order(public: bytes) -> bool:
    """Return whether the point of a public key has small order, so that anybody can sign for it.

    Encodings of y that are not reduced modulo the field's prime count, too.
    """
    y = int.from_bytes(public, "little") & (2**255 - 1)
    return y % _FIELD in _SMALL_ORDER


@attrs.frozen
class Roll:
    """The identities of a cluster, trusted and evicted ones.

    Attributes:
        daemons: the public key of each daemon, 32 bytes, by name.
        evicted: evicted public keys, each with the name of its daemon.
    """

    daemons: Mapping[str, bytes]
    evicted: Mapping[bytes, str] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        named: dict[bytes, str] = {}
        for name, public in self.daemons.items():
            if len(public) != IDENTITY_BYTES:
                raise ConfigError(
                    f"identities: the public key of {name} has {len(public)} bytes; it must have 32"
                )
            if has_small_order(public):
                raise ConfigError(
                    f"identities: the public key of {name} has small order, so anybody could sign"
                    " for it; make another with: groupcomm identity new"
                )
            if public in named:
                raise ConfigError(
                    f"identities: {named[public]} and {name} have the same key; each daemon needs"
                    " its own"
                )
            named[public] = name

    def is_trusted(self, name: str) -> bool:
        """Return whether a daemon is trusted."""
        public = self.daemons.get(name)
        return public is not None and public not in self.evicted

    def without(self, prints: Iterable[bytes]) -> "Roll":
        """Return a roll with some keys evicted, by fingerprint; itself if that changes nothing."""
        wanted = set(prints)
        evicted = {
            public: name
            for name, public in self.daemons.items()
            if public not in self.evicted and identity_fingerprint(public) in wanted
        }
        return Roll(self.daemons, {**self.evicted, **evicted}) if evicted else self


@attrs.frozen
class DaemonCredentials:
    """The identity that a daemon starts with.

    Attributes:
        private: its own private key, 32 bytes.
        roll: the identities of all daemons.
        entropy: the source of its secrets.
    """

    private: bytes = attrs.field(repr=False)
    roll: Roll
    entropy: Entropy = attrs.field(repr=False)

    def check(self, name: str, daemons: Sequence[str]) -> None:
        """Raise ConfigError unless this is the trusted key of the daemon of that name.

        Args:
            name: the name of the daemon.
            daemons: all daemons that must have an identity.
        """
        missing = sorted({name, *daemons} - self.roll.daemons.keys())
        if missing:
            raise ConfigError(
                f"identities: {', '.join(missing)} are not listed; add each with: groupcomm"
                " identity add"
            )
        public = self.roll.daemons[name]
        if public != public_of(self.private):
            raise ConfigError(
                f"identity: its public key is {public_of(self.private).hex()}, but identities say"
                f" that {name} has {public.hex()}: one of the two files is another daemon's, or old"
            )
        if public in self.roll.evicted:
            raise ConfigError(
                f"identity: {name} was evicted with this key; make another with: groupcomm"
                " identity new, and bring its public key to the identities of all hosts"
            )


class Signer:
    """Signs for one start of one daemon, and checks others' signatures for it."""

    __slots__ = ("_cluster", "_own", "_private", "_publics")

    def __init__(self, private: bytes, roll: Roll, cluster: int, own: StartId) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(private)
        self._cluster = cluster
        self._own = own
        self.use(roll)

    def use(self, roll: Roll) -> None:
        """Trust the identities of a roll from now on."""
        self._publics = {
            daemon_number(name): Ed25519PublicKey.from_public_bytes(public)
            for name, public in roll.daemons.items()
            if roll.is_trusted(name)
        }

    def trusts(self, number: int) -> bool:
        """Return whether the signatures of a daemon count."""
        return number in self._publics

    def sign(self, said: bytes, receiver: int, counter: int) -> bytes:
        """Return a signature of 64 bytes, valid for this datagram alone."""
        return self._private.sign(self._placed(self._own, receiver, counter) + said)

    def check(self, said: bytes, signature: bytes, sender: StartId, counter: int) -> None:
        """Raise BadDatagram unless the sender has signed this for this daemon."""
        public = self._publics.get(sender[0])
        if public is None:
            raise BadDatagram(
                "identity", f"daemon {sender[0]:x} has no identity that is trusted here"
            )
        try:
            public.verify(signature, self._placed(sender, self._own[0], counter) + said)
        except InvalidSignature:
            raise BadDatagram(
                "identity", f"the signature is not that of daemon {sender[0]:x}"
            ) from None

    def _placed(self, sender: StartId, receiver: int, counter: int) -> bytes:
        number, start = sender
        place = self._cluster, number, start.restarts, start.random_id, receiver, counter
        return _PURPOSE + _PLACE.pack(*place)
