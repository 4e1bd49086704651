"""The keys of a conversation between a daemon that asks and one of the cluster.

Four key pairs (X25519): *token*, which follows from the asker's secret, and of which the cluster
knows the public key; *cluster*, which follows from the cluster's key, and whose public key the
asker knows; *asker* and *host*, which both draw. The pattern is KK of the Noise Protocol Framework
(Perrin, revision 34, section 7.5)::

    asker -> host   asker's public key, and a proof with the results of
                    cluster x asker and cluster x token
    host -> asker   host's public key, and a proof with, besides, host x asker and host x token

So both know that the other one has its secret, and whoever learns the secrets later cannot read
what was recorded. Unlike Noise a request has a salt, as a daemon keeps its pair *asker* until it
was admitted; and a host that does not know the token can say so, under cluster x asker alone.
"""

import hashlib
import hmac
import struct
from typing import Final

import attrs
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from groupcomm.errors import BadDatagram
from groupcomm.wire.joining import ROOM_BYTES, TAG_BYTES, Ask, Denied, Open, Opened, Reply

_PURPOSE: Final = b"groupcomm joining v1"
_PLACE = struct.Struct("!QHB8s")
_NONCE = struct.Struct("!4xQ")
_SIZE = struct.Struct("!H")


@attrs.frozen
class SessionKeys:
    """The keys of one conversation.

    Attributes:
        salt: its name.
        transcript: 32 bytes that stand for all that both ends have sent before.
        asks, replies: the keys of both directions.
    """

    salt: bytes
    transcript: bytes
    asks: bytes = attrs.field(repr=False)
    replies: bytes = attrs.field(repr=False)

    def ask(self, counter: int, request: bytes) -> Ask:
        """Return a sealed request; each counter seals one request only."""
        filled = (_SIZE.pack(len(request)) + request).ljust(ROOM_BYTES, b"\0")
        return Ask(salt=self.salt, counter=counter, sealed=self._seal(self.asks, counter, filled))

    def open_ask(self, ask: Ask) -> bytes:
        """Return a request; raise BadDatagram if it is not the asker's."""
        filled = self._open(self.asks, ask.counter, ask.sealed)
        if len(filled) != ROOM_BYTES:
            raise BadDatagram("short", f"a request of {len(filled)} bytes")
        (size,) = _SIZE.unpack_from(filled)
        return filled[_SIZE.size : _SIZE.size + size]

    def reply(self, counter: int, answer: bytes) -> Reply:
        """Return a sealed answer; each counter seals one answer only."""
        return Reply(
            salt=self.salt, counter=counter, sealed=self._seal(self.replies, counter, answer)
        )

    def open_reply(self, reply: Reply) -> bytes:
        """Return an answer; raise BadDatagram if it is not the host's."""
        return self._open(self.replies, reply.counter, reply.sealed)

    def _seal(self, key: bytes, counter: int, data: bytes) -> bytes:
        return seal(key, counter, data, self.salt)

    def _open(self, key: bytes, counter: int, sealed: bytes) -> bytes:
        return unseal(key, counter, sealed, self.salt)


class AskerHandshake:
    """The asker's part.

    Args:
        request: OPEN without its proof; it has the asker's public key.
        private: the asker's private key.
        token: the private key of its credential.
        cluster: the public key of the cluster.
    """

    def __init__(self, request: Open, private: bytes, token: bytes, cluster: bytes) -> None:
        self._private, self._token = private, token
        self._chain = _chain(request)
        self._known = exchange(private, cluster), exchange(token, cluster)
        self.open = attrs.evolve(request, proof=_open_proof(self._chain, *self._known))

    def accept(self, opened: Opened) -> SessionKeys:
        """Return the keys; raise BadDatagram if the sender is not of the cluster."""
        found = exchange(self._private, opened.public), exchange(self._token, opened.public)
        keys, proof = _finish(self._chain, self._known, found, opened)
        _check(opened.proof, proof)
        return keys

    def check(self, denied: Denied) -> None:
        """Raise BadDatagram unless the sender of a refusal is of the cluster."""
        _check(denied.proof, _expand(self._chain, self._known[0], b"denied", TAG_BYTES))


class HostHandshake:
    """The part of a daemon of the cluster.

    Args:
        request: OPEN, as it came.
        cluster: the private key of the cluster.
    """

    def __init__(self, request: Open, cluster: bytes) -> None:
        self._request, self._cluster = request, cluster
        self._chain = _chain(request)
        self._shared = exchange(cluster, request.public)

    def deny(self) -> Denied:
        """Return a refusal: the cluster does not know the credential."""
        proof = _expand(self._chain, self._shared, b"denied", TAG_BYTES)
        return Denied(salt=self._request.salt, proof=proof)

    def accept(self, token: bytes, private: bytes) -> tuple[Opened, SessionKeys]:
        """Return the answer and the keys.

        Args:
            token: the public key of the asker's credential.
            private: a private key that was drawn for this conversation.

        Raises:
            BadDatagram: the asker does not have the secret of the credential.
        """
        request, known = self._request, (self._shared, exchange(self._cluster, token))
        _check(request.proof, _open_proof(self._chain, *known))
        found = exchange(private, request.public), exchange(private, token)
        opened = Opened(salt=request.salt, public=public_of(private), proof=b"")
        keys, proof = _finish(self._chain, known, found, opened)
        return attrs.evolve(opened, proof=proof), keys


def public_of(private: bytes) -> bytes:
    """Return the public key of a private one, 32 bytes each."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def exchange(private: bytes, public: bytes) -> bytes:
    """Return the shared secret of two keys; raise BadDatagram for a public key of small order."""
    try:
        return X25519PrivateKey.from_private_bytes(private).exchange(
            X25519PublicKey.from_public_bytes(public)
        )
    except ValueError:
        raise BadDatagram("key", "a public key of small order") from None


def _chain(request: Open) -> bytes:
    place = _PLACE.pack(request.cluster, request.key_id, request.role, request.credential)
    return hashlib.sha256(_PURPOSE + place + request.salt + request.public).digest()


def _expand(chain: bytes, secret: bytes, purpose: bytes, size: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=size, salt=chain, info=purpose).derive(secret)


def _check(proof: bytes, wanted: bytes) -> None:
    if not hmac.compare_digest(proof, wanted):
        raise BadDatagram("tag", "its sender does not have the secret")


def _open_proof(chain: bytes, *known: bytes) -> bytes:
    return _expand(chain, b"".join(known), b"open", TAG_BYTES)


def _finish(
    chain: bytes, known: tuple[bytes, bytes], found: tuple[bytes, bytes], opened: Opened
) -> tuple[SessionKeys, bytes]:
    """Return the keys, and the proof of the host."""
    transcript = hashlib.sha256(chain + opened.public).digest()
    keys = _expand(transcript, b"".join((*known, *found)), b"keys", 64 + TAG_BYTES)
    return SessionKeys(opened.salt, transcript, keys[:32], keys[32:64]), keys[64:]


def seal(key: bytes, counter: int, data: bytes, context: bytes) -> bytes:
    """Return sealed data (ChaCha20-Poly1305, RFC 8439); a counter seals once under a key."""
    return ChaCha20Poly1305(key).encrypt(_NONCE.pack(counter), data, context)


def unseal(key: bytes, counter: int, sealed: bytes, context: bytes) -> bytes:
    """Return the data; raise BadDatagram if they were not sealed so."""
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE.pack(counter), sealed, context)
    except InvalidTag:
        raise BadDatagram("tag", "it was not sealed by the other end") from None
