"""Tokens: the secret with which one daemon may join a cluster, once.

A token is a text: ``gcj1.`` and, in base64 for URLs::

    key id u16, id 8 bytes, secret 16 bytes, public key of the cluster 32 bytes, length u8, name of
    the daemon, name of the cluster, checksum 4 bytes

The checksum is against mistyping only. The cluster keeps a public key that follows from the secret,
so a reader of the cluster's state cannot use the token, and a holder of the token can tell a daemon
of the cluster from any other sender.
"""

import base64
import binascii
import hashlib
import struct
from typing import Final

import attrs
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.names import check_daemon

PREFIX: Final = "gcj1."
SECRET_BYTES: Final = 16
_FIXED = struct.Struct("!H8s16s32sB")
_CHECKSUM_BYTES: Final = 4
_TOKEN: Final = b"groupcomm joining v1 token"
_CLUSTER: Final = b"groupcomm joining v1 cluster"
_MEMBER: Final = b"groupcomm joining v1 member"


@attrs.frozen(kw_only=True)
class Token:
    """The contents of a token.

    Attributes:
        cluster: the name of the cluster.
        name: the name of the daemon.
        key_id: the key of the cluster from which `public` follows.
        id: the id of the invitation, 8 bytes.
        secret: 16 bytes.
        public: the public key of the cluster's daemons, 32 bytes.
    """

    cluster: str
    name: str
    key_id: int
    id: bytes
    secret: bytes = attrs.field(repr=False)
    public: bytes

    def encode(self) -> str:
        """Return the token as text."""
        name = self.name.encode()
        fixed = _FIXED.pack(self.key_id, self.id, self.secret, self.public, len(name))
        raw = fixed + name + self.cluster.encode()
        return PREFIX + base64.urlsafe_b64encode(raw + _checksum(raw)).decode().rstrip("=")

    @property
    def private(self) -> bytes:
        """Return the private key of the token, whose public one the cluster keeps."""
        return derive(self.secret, self.id, _TOKEN)


def decode_token(text: str) -> Token:
    """Return the contents of a token; raise ConfigError if the text is none."""
    try:
        body = text.strip().removeprefix(PREFIX)
        raw = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        raw, checksum = raw[:-_CHECKSUM_BYTES], raw[-_CHECKSUM_BYTES:]
        if not text.strip().startswith(PREFIX) or checksum != _checksum(raw):
            raise ValueError
        key_id, id, secret, public, length = _FIXED.unpack_from(raw)
        names = raw[_FIXED.size :]
        return Token(
            cluster=names[length:].decode(),
            name=check_daemon(names[:length].decode()),
            key_id=key_id,
            id=id,
            secret=secret,
            public=public,
        )
    except (ValueError, binascii.Error, struct.error, LocalProtocolError):
        raise ConfigError(
            "the token is damaged: copy it whole, as groupcomm daemons invite has printed it"
        ) from None


def cluster_private(key: bytes, cluster: str) -> bytes:
    """Return the private key that all daemons with a key of the cluster have."""
    return derive(key, cluster.encode(), _CLUSTER)


def member_private(key: bytes, cluster: str, name: str) -> bytes:
    """Return the private key with which a daemon of the roster shows that it has the key."""
    return derive(key, f"{cluster}\0{name}".encode(), _MEMBER)


def derive(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    """Derive a private key of 32 bytes (HKDF-SHA256, RFC 5869)."""
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=purpose).derive(secret)


def _checksum(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=_CHECKSUM_BYTES, person=b"groupcomm token").digest()
