"""Datagrams of daemons that are outside of a cluster, or at another address than it knows.

They are separate from all other datagrams, by their first byte. groupcomm/joining has the protocol.
All numbers are in network byte order. Each begins with::

    0x6a u8, kind u8, salt 16 bytes

    1 OPEN     cluster u64, key id u16, role u8, credential 8 bytes, public key 32 bytes,
               proof 16 bytes, zeros
    2 OPENED   public key 32 bytes, proof 16 bytes
    3 DENIED   proof 16 bytes
    4 ASK      counter u32, sealed request with padding
    5 REPLY     counter u32, sealed answer

A daemon outside sends OPEN and ASK, always of REQUEST_BYTES; each is answered by one datagram at
most, which is never longer. So nobody can use a daemon to send more bytes than were sent to it.
"""

import enum
import struct
from typing import Final, TypeAlias

import attrs

from groupcomm.errors import BadDatagram

FIRST_BYTE: Final = 0x6A
REQUEST_BYTES: Final = 1200
"""The size of a request, and the largest one of an answer: it passes the internet."""

SALT_BYTES: Final = 16
PUBLIC_BYTES: Final = 32
TAG_BYTES: Final = 16

_HEAD = struct.Struct("!BB16s")
_OPEN = struct.Struct("!QHB8s32s16s")
_OPENED = struct.Struct("!32s16s")
_COUNTER = struct.Struct("!I")

ROOM_BYTES: Final = REQUEST_BYTES - _HEAD.size - _COUNTER.size - TAG_BYTES
"""The bytes of a padded request, and the most bytes of an answer, before sealing."""


class Role(enum.IntEnum):
    """The credential of a daemon that asks."""

    TOKEN = 1  # it was invited: the id of the invitation
    MEMBER = 2  # it is in the roster: its number


@attrs.frozen(kw_only=True)
class Open:
    """A daemon begins to ask.

    Attributes:
        salt: 16 random bytes, which name the conversation.
        cluster: the number that stands for the cluster's name.
        key_id: the key of the cluster that the receiver has to prove.
        role: the kind of credential.
        credential: 8 bytes that name it.
        public: the sender's public key for this conversation, or for all that concern one token.
        proof: shows that the sender has the secret of its credential.
    """

    salt: bytes
    cluster: int
    key_id: int
    role: Role
    credential: bytes
    public: bytes
    proof: bytes = bytes(TAG_BYTES)

    def encode(self) -> bytes:
        """Return the datagram."""
        body = _OPEN.pack(
            self.cluster, self.key_id, self.role, self.credential, self.public, self.proof
        )
        return (_head(1, self.salt) + body).ljust(REQUEST_BYTES, b"\0")


@attrs.frozen(kw_only=True)
class Opened:
    """A daemon of the cluster is ready to be asked.

    Attributes:
        salt: that of OPEN.
        public: its public key for this conversation.
        proof: shows that it has the cluster's key, and what the cluster knows of the credential.
    """

    salt: bytes
    public: bytes
    proof: bytes

    def encode(self) -> bytes:
        """Return the datagram."""
        return _head(2, self.salt) + _OPENED.pack(self.public, self.proof)


@attrs.frozen(kw_only=True)
class Denied:
    """The cluster does not know the credential.

    Attributes:
        salt: that of OPEN.
        proof: shows that the sender has the cluster's key.
    """

    salt: bytes
    proof: bytes

    def encode(self) -> bytes:
        """Return the datagram."""
        return _head(3, self.salt) + self.proof


@attrs.frozen(kw_only=True)
class Ask:
    """A request.

    Attributes:
        salt: that of OPEN.
        counter: 1 for the first request of a conversation, and one more for each further one.
        sealed: the padded request, ROOM_BYTES before sealing.
    """

    salt: bytes
    counter: int
    sealed: bytes

    def encode(self) -> bytes:
        """Return the datagram."""
        return _head(4, self.salt) + _COUNTER.pack(self.counter) + self.sealed


@attrs.frozen(kw_only=True)
class Reply:
    """The answer to the request of the same counter.

    Attributes:
        salt: that of OPEN.
        counter: that of the request.
        sealed: the answer, at most ROOM_BYTES before sealing.
    """

    salt: bytes
    counter: int
    sealed: bytes

    def encode(self) -> bytes:
        """Return the datagram."""
        return _head(5, self.salt) + _COUNTER.pack(self.counter) + self.sealed


Packet: TypeAlias = Open | Opened | Denied | Ask | Reply


def _head(kind: int, salt: bytes) -> bytes:
    return _HEAD.pack(FIRST_BYTE, kind, salt)


def decode_joining_untrusted(data: bytes) -> Packet:
    """Decode a whole datagram; raise only BadDatagram, whatever the bytes."""
    if not _HEAD.size <= len(data) <= REQUEST_BYTES:
        raise BadDatagram("short", f"a datagram for joining of {len(data)} bytes")
    first, kind, salt = _HEAD.unpack_from(data)
    rest = data[_HEAD.size :]
    if first != FIRST_BYTE:
        raise BadDatagram("version", f"a datagram for joining that begins with {first}")
    if kind in (1, 4) and len(data) != REQUEST_BYTES:
        raise BadDatagram("short", f"a request of {len(data)} bytes")
    match kind:
        case 1:
            return _decode_open(salt, rest)
        case 2 if len(rest) == _OPENED.size:
            public, proof = _OPENED.unpack(rest)
            return Opened(salt=salt, public=public, proof=proof)
        case 3 if len(rest) == TAG_BYTES:
            return Denied(salt=salt, proof=rest)
        case 4 | 5 if len(rest) >= _COUNTER.size + TAG_BYTES:
            (counter,) = _COUNTER.unpack_from(rest)
            sealed = rest[_COUNTER.size :]
            if kind == 4:
                return Ask(salt=salt, counter=counter, sealed=sealed)
            return Reply(salt=salt, counter=counter, sealed=sealed)
    raise BadDatagram("kind", f"a datagram for joining of kind {kind}, {len(data)} bytes")


def _decode_open(salt: bytes, rest: bytes) -> Open:
    cluster, key_id, role, credential, public, proof = _OPEN.unpack_from(rest)
    if role not in (Role.TOKEN, Role.MEMBER) or any(rest[_OPEN.size :]):
        raise BadDatagram("kind", f"a request with role {role}, or without padding")
    return Open(
        salt=salt,
        cluster=cluster,
        key_id=key_id,
        role=Role(role),
        credential=credential,
        public=public,
        proof=proof,
    )
