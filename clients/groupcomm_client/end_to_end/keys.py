"""A key of a group: wrapping it for a member, and sealing messages with it.

Each sender seals with a key of its own, derived from the group's key, its identity and the public
key that it has shown for this epoch: so numbers that only rise are nonces that never repeat, even
if a daemon gives two programs the same identity.
"""

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from groupcomm.events import MemberId
from groupcomm_client.end_to_end.frames import (
    HEAD_BYTES,
    KEY_BYTES,
    Epoch,
    Kind,
    encode_head,
    text,
)

Random: TypeAlias = Callable[[int], bytes]
"""Returns this number of random bytes; `os.urandom` except in tests."""

BEHIND: Final = 16_384
"""The numbers of messages below FIFO that are remembered, as they may come in any order."""


class NotGenuine(Exception):
    """Raised for bytes not made with this key, or not for this purpose; the text says which."""


_nonce: Final = struct.Struct("!IQ").pack
"""Packs the kind and the number of a message into a nonce."""


def _derive(secret: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=info).derive(secret)


# ---- wraps ----


def wrap(
    key: bytes, private: X25519PrivateKey, public: bytes, mixed: bytes, epoch: Epoch, info: bytes
) -> bytes:
    """Encrypt a key for the holder of the private part of a public key.

    Args:
        key: the key to wrap.
        private: the giver's private key, made for this message.
        public: the receiver's public key.
        mixed: a secret that both know, or nothing.
        epoch: the epoch of the wrap.
        info: the further text that the wrap is bound to: the key's id, giver and receiver.

    Raises:
        NotGenuine: the public key is one of the few that reveal the wrapped key.
    """
    return AESGCM(_wrapping_key(private, public, mixed, epoch, info)).encrypt(
        _nonce(0, 0), key, info
    )


def unwrap(
    wrapped: bytes,
    private: X25519PrivateKey,
    public: bytes,
    mixed: bytes,
    epoch: Epoch,
    info: bytes,
) -> bytes:
    """Return the key in a wrap; `private` is the receiver's and `public` the giver's key.

    Raises:
        NotGenuine: the wrap was made for another member, or changed in flight.
    """
    try:
        return AESGCM(_wrapping_key(private, public, mixed, epoch, info)).decrypt(
            _nonce(0, 0), wrapped, info
        )
    except InvalidTag:
        raise NotGenuine("the key in it was wrapped for another member, or was changed") from None


def _wrapping_key(
    private: X25519PrivateKey, public: bytes, mixed: bytes, epoch: Epoch, info: bytes
) -> bytes:
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # RFC 7748, section 6.1: the shared value is all zero
        raise NotGenuine(
            "a public key in it must not be used, as it would give the key away"
        ) from None
    return _derive(shared + mixed, epoch.digest, info)


# ---- messages ----


class _Rising:
    """The numbers of messages that come in the order in which they were sent."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def accept(self, number: int) -> bool:
        if number <= self._last:
            return False
        self._last = number
        return True


class _Each:
    """Numbers that come in any order, each once; of lost ones the newest are remembered."""

    __slots__ = ("_beyond", "_floor")

    def __init__(self) -> None:
        self._floor = 0  # this number and all lower ones have come, or are no longer expected
        self._beyond: set[int] = set()

    def accept(self, number: int) -> bool:
        if number <= self._floor or number in self._beyond:
            return False
        self._beyond.add(number)
        if len(self._beyond) > BEHIND:
            self._floor = min(self._beyond) - 1
        while self._floor + 1 in self._beyond:
            self._floor += 1
            self._beyond.remove(self._floor)
        return True


@attrs.define(eq=False)
class _Sender:
    cipher: AESGCM
    taken: dict[int, _Rising | _Each] = attrs.field(
        factory=lambda: {kind: _Each() if kind == Kind.LOOSE else _Rising() for kind in range(4)}
    )


@attrs.define(eq=False)
class GroupKey:
    """A key of one epoch, and the state of sealing and opening with it.

    Attributes:
        id: the id of the key.
        epoch: the epoch that it is valid for.
        giver: the member that has drawn it.
        salts: for each member that has it, the public key that the member has shown.
        doubts: for each member that has it and is not trusted here, the reason.
        secret: 32 bytes; None if this member does not have it.
    """

    id: bytes
    epoch: Epoch
    giver: MemberId
    salts: dict[MemberId, bytes] = attrs.field(factory=dict)
    doubts: dict[MemberId, str] = attrs.field(factory=dict)
    secret: bytes | None = attrs.field(default=None, repr=False)
    _senders: dict[MemberId, _Sender] = attrs.field(factory=dict, repr=False)
    _counts: list[int] = attrs.field(factory=lambda: [0, 0, 0, 0])

    def can_open(self, sender: MemberId) -> bool:
        """Return whether messages that this sender has sealed with the key can be opened."""
        return self.secret is not None and sender in self.salts

    def let_in(self, member: MemberId, salt: bytes) -> None:
        """Note that a member has the key, too; again only if the key was of no use to it before."""
        if self.salts.get(member) != salt:
            self.salts[member] = salt
            self._senders.pop(member, None)

    def seal(self, me: MemberId, kind: int, data: bytes, beside: bytes) -> bytes:
        """Encrypt a message of this member; `beside` is authenticated with it and not sent."""
        self._counts[kind] += 1
        number = self._counts[kind]
        head = encode_head(kind, self.epoch.place, self.id, number)
        cipher = (self._senders.get(me) or self._sender(me)).cipher
        return head + cipher.encrypt(_nonce(kind, number), data, head + beside)

    def open(self, sender: MemberId, kind: int, number: int, data: bytes, beside: bytes) -> bytes:
        """Return the content of a message whose sender `can_open` has approved.

        Raises:
            NotGenuine: the message was changed after it was sealed, or was opened already.
        """
        known = self._senders.get(sender) or self._sender(sender)
        taken = known.taken.get(kind)
        if taken is None:
            raise NotGenuine("its kind is unknown: it was changed")
        try:
            plain = known.cipher.decrypt(
                _nonce(kind, number), data[HEAD_BYTES:], data[:HEAD_BYTES] + beside
            )
        except InvalidTag:
            raise NotGenuine(
                "it is not as its sender has sealed it: it was changed in flight, or "
                "another program has made it"
            ) from None
        if not taken.accept(number):
            raise NotGenuine(
                "it has come already, or after a later message of its sender: a repetition"
            )
        return plain

    def _sender(self, member: MemberId) -> _Sender:
        known = self._senders.get(member)
        if known is None:
            assert self.secret is not None
            info = text("sender", self.id, member, self.salts[member])
            cipher = AESGCM(_derive(self.secret, self.epoch.digest, info))
            known = self._senders[member] = _Sender(cipher)
        return known
