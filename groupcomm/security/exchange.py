"""Exchange: daemons give each other the secrets that open their datagrams, view by view.

Pure. ``now`` is in seconds. Each start of a daemon seals with a secret of its own, which only the
daemons have to which it gave it. With every view it draws a new secret and a new pair of X25519
keys (RFC 7748), so that a thief of all its secrets is locked out one view later. It sends its
public key to each member, and wraps its secrets for every member that has sent a key of the same
view:

    TOLD ---- its public key of this view ----> WRAPPED ---- it has the secret ----> SETTLED
      ^                                             | again until then                 |
      +----------------------- a view, or the end of an epoch -------------------------+

It seals with the new secret once all members have it, and not before: no daemon waits, and nothing
is lost. A member that does not answer will soon be out of the view; the next view does not wait for
it.

There is no leader and nothing to agree on, so a view that is replaced by another one leaves nothing
behind. docs/security.md has the guarantees.
"""

import struct
from collections.abc import Iterable
from typing import Final

import attrs
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from groupcomm.errors import BadDatagram
from groupcomm.security.identity import Entropy, StartId
from groupcomm.wire.hello import FOR_BYTES, NO_WRAP, Hello, Introduction
from groupcomm.wire.packet import KEY_BYTES

SECRET_BYTES: Final = 32
REPEAT_S: Final = 0.02
LONGEST_REPEAT_S: Final = 0.32
MAX_TRIES: Final = 8
"""Unanswered introductions to a daemon that is not in the view; such a daemon asks for more."""

MAX_WAITS: Final = 24
"""Unanswered introductions to a member; without an answer for 7 s it is a member through others."""

MAX_SECRETS: Final = 2**20 - 1
"""The most secrets of one start; the last one stays."""

_NEVER: Final = float("inf")
_PURPOSE: Final = b"groupcomm exchange v1"
_WHO = struct.Struct("!QQQQ")
_SECRETS = struct.Struct("!I32sI32s")
_NONCE: Final = bytes(12)


class _KeyPair:
    """A pair of X25519 keys, and the view that it was drawn for."""

    __slots__ = ("number", "private", "public", "view")

    def __init__(self, number: int, private: bytes, view: bytes) -> None:
        self.number = number
        self.private = X25519PrivateKey.from_private_bytes(private)
        self.public = self.private.public_key().public_bytes_raw()
        self.view = view


@attrs.define
class _ExchangePeer:
    """Another start, which has proved its identity.

    Attributes:
        pair, public, view: the latest pair that it has announced; number 0 before the first.
        wrap: this start's secrets, wrapped for that key, once made: each key seals only one text.
        has: the number of the latest own secret that it has.
        opened: the latest wrap of its secrets that was opened.
        secrets: its secrets by number.
        again_at, wait_s, tries: the time of its next introduction, the wait before it, and the
            number of introductions so far.
        over: whether the start is said to be over; the secrets wrapped for it are still kept.
    """

    pair: int = 0
    public: bytes = b""
    view: bytes = b""
    wrap: bytes = NO_WRAP
    has: int = 0
    opened: bytes = NO_WRAP
    secrets: dict[int, bytes] = attrs.field(factory=dict, repr=False)
    again_at: float = _NEVER
    wait_s: float = REPEAT_S
    tries: int = 0
    over: bool = False

    @property
    def latest(self) -> int:
        return max(self.secrets, default=0)

    def begin(self, again_at: float) -> None:
        self.wrap, self.again_at, self.wait_s, self.tries = NO_WRAP, again_at, REPEAT_S, 0


class Exchange:
    """The exchange of secrets at one start.

    Attributes:
        sealing: the number of this start's secret that seals.
        secret: the secret that seals.
        next_at: the time of the next introduction; see `due`.
    """

    __slots__ = (
        "_cluster",
        "_drawn",
        "_entropy",
        "_members",
        "_number",
        "_old",
        "_own",
        "_pair",
        "_peers",
        "next_at",
        "sealing",
        "secret",
    )

    def __init__(self, own: StartId, cluster: int, entropy: Entropy) -> None:
        self._own = own
        self._cluster = cluster
        self._entropy = entropy
        self._peers: dict[StartId, _ExchangePeer] = {}
        self._members: frozenset[StartId] = frozenset()
        self._number = 1  # the number of the newest secret
        self._drawn = self.secret = entropy(SECRET_BYTES)  # the newest secret, and the sealing one
        self.sealing = 1
        self._pair = _KeyPair(1, entropy(SECRET_BYTES), bytes(KEY_BYTES))
        self._old: _KeyPair | None = None  # kept until no secret can come that was wrapped for it
        self.next_at = _NEVER

    # ---- new secrets ----

    def begin(self, view: bytes, members: Iterable[StartId], now: float) -> None:
        """Begin a view of these starts and this one; `view` is its key."""
        self._members = frozenset(members) - {self._own}
        self._draw(view, now)

    def renew(self, now: float) -> None:
        """Draw new secrets in the same view: an epoch is over, or a daemon was evicted."""
        self._draw(self._pair.view, now)

    def _draw(self, view: bytes, now: float) -> None:
        if self._number == MAX_SECRETS:
            return
        self._number += 1
        self._drawn = self._entropy(SECRET_BYTES)
        self._old = self._pair
        self._pair = _KeyPair(self._old.number + 1, self._entropy(SECRET_BYTES), view)
        self._peers = {start: peer for start, peer in self._peers.items() if not peer.over}
        for start, peer in self._peers.items():
            peer.begin(now if start in self._members else _NEVER)
        self.next_at = now

    def settle(self) -> bool:
        """Seal with the newest secret if all members have it; return whether that changes it."""
        if self.sealing == self._number or self.awaited:
            return False
        self.sealing, self.secret = self._number, self._drawn
        self._old = None
        return True

    @property
    def awaited(self) -> list[StartId]:
        """Return the members that can answer and lack the newest secret."""
        return sorted(
            start
            for start, peer in self._peers.items()
            if start in self._members and peer.has < self._number and peer.tries < MAX_WAITS
        )

    # ---- introductions to others ----

    def due(self, now: float) -> list[StartId]:
        """Return the starts to which an introduction is due."""
        found = [start for start, peer in self._peers.items() if peer.again_at <= now]
        self._set_next()
        return found

    def _set_next(self) -> None:
        self.next_at = min((peer.again_at for peer in self._peers.values()), default=_NEVER)

    def introduce(self, start: StartId, hello: Hello, now: float) -> Introduction:
        """Return the introduction for a start, proven or not, with a hello."""
        peer = self._peers.get(start)
        if peer is None:
            peer = _ExchangePeer()
        elif peer.has < self._number:
            self._count(start, peer, now)
        wrap = self._wrap(start, peer)
        return Introduction(
            hello=hello,
            view=self._pair.view,
            pair=self._pair.number,
            public=self._pair.public,
            wrapped_for=peer.public[:FOR_BYTES] if wrap is not NO_WRAP else bytes(FOR_BYTES),
            wrap=wrap,
            has=peer.latest,
            known=peer.has,
        )

    def _count(self, start: StartId, peer: _ExchangePeer, now: float) -> None:
        """Count an introduction; a member gets more until it has the newest secret."""
        peer.tries += 1
        over = peer.tries >= (MAX_WAITS if start in self._members else MAX_TRIES)
        peer.again_at = _NEVER if over else now + peer.wait_s
        peer.wait_s = min(2 * peer.wait_s, LONGEST_REPEAT_S)
        self._set_next()

    def _wrap(self, start: StartId, peer: _ExchangePeer) -> bytes:
        stale = start in self._members and peer.view != self._pair.view
        if not peer.public or stale:  # an intruder may know an old key of a member
            return NO_WRAP
        if peer.wrap is NO_WRAP:
            try:
                key = self._key(self._pair, peer.public, self._own, start)
            except ValueError:  # the public key shares no secret (RFC 7748, section 6.1)
                return NO_WRAP
            told = _SECRETS.pack(self.sealing, self.secret, self._number, self._drawn)
            peer.wrap = AESGCM(key).encrypt(_NONCE, told, None)
        return peer.wrap

    def _key(self, pair: _KeyPair, public: bytes, sender: StartId, receiver: StartId) -> bytes:
        """Derive the key that wraps the secrets of one start for another one."""
        shared = pair.private.exchange(X25519PublicKey.from_public_bytes(public))
        publics = pair.public + public if sender is self._own else public + pair.public
        who = [_WHO.pack(self._cluster, n, s.restarts, s.random_id) for n, s in (sender, receiver)]
        info = b"".join((_PURPOSE, *who, publics))
        return HKDF(algorithm=SHA256(), length=SECRET_BYTES, salt=None, info=info).derive(shared)

    # ---- introductions of others ----

    def receive(self, start: StartId, told: Introduction, now: float) -> bool:
        """Process the introduction of a start that has proved its identity.

        Returns:
            Whether it must be answered.

        Raises:
            BadDatagram: the secrets that it has wrapped for this start do not open.
        """
        peer = self._peers.get(start)
        if peer is None:
            peer = self._peers[start] = _ExchangePeer()
            peer.again_at = now
        peer.over = False
        latest = peer.latest
        fresh = told.pair > peer.pair
        if fresh:
            peer.pair, peer.public, peer.view, peer.wrap = (
                told.pair,
                told.public,
                told.view,
                NO_WRAP,
            )
        if told.wrap not in (NO_WRAP, peer.opened):
            self._unwrap(start, peer, told)
        if peer.has < told.has <= self._number:
            peer.has = told.has
        if peer.has == self._number:
            peer.again_at = _NEVER
            self._set_next()
        return (
            peer.latest > latest or told.known < peer.latest or (fresh and peer.has < self._number)
        )

    def _unwrap(self, start: StartId, peer: _ExchangePeer, told: Introduction) -> None:
        pairs = [self._pair] if self._old is None else [self._pair, self._old]
        pair = next((p for p in pairs if p.public[:FOR_BYTES] == told.wrapped_for), None)
        if pair is None:
            return  # it was wrapped for an erased key; the next introduction has the present key
        try:
            key = self._key(pair, told.public, start, self._own)
            secrets = AESGCM(key).decrypt(_NONCE, told.wrap, None)
        except (InvalidTag, ValueError):  # ValueError: the public key shares no secret
            raise BadDatagram(
                "identity", "its secrets do not open with the key that they are wrapped for"
            ) from None
        peer.opened = told.wrap
        present, old, newest, new = _SECRETS.unpack(secrets)
        for number, secret in ((present, old), (newest, new)):
            peer.secrets.setdefault(number, secret)

    def has(self, start: StartId) -> bool:
        """Return whether a start can open what this one seals now."""
        peer = self._peers.get(start)
        return peer is not None and peer.has >= self.sealing

    def secret_of(self, start: StartId, number: int) -> bytes | None:
        """Return a secret of another start; None if it is missing here."""
        peer = self._peers.get(start)
        return None if peer is None else peer.secrets.get(number)

    def erase_before(self, start: StartId, number: int) -> None:
        """Erase older secrets of a start: no datagram that they seal is in flight any more."""
        peer = self._peers.get(start)
        if peer is not None:
            for old in [each for each in peer.secrets if each < number]:
                del peer.secrets[old]

    def forget(self, start: StartId) -> None:
        """Note that a start is over; keep its wrapped secrets, as it may be heard again."""
        peer = self._peers.get(start)
        if peer is not None:
            peer.over, peer.again_at, peer.opened = True, _NEVER, NO_WRAP
            peer.secrets.clear()
        self._members -= {start}

    def evict(self, number: int, now: float) -> None:
        """Draw new secrets, as a daemon was evicted: the secrets that it has open nothing more."""
        for start in [each for each in (*self._peers, *self._members) if each[0] == number]:
            self.forget(start)
        self.renew(now)
