"""The daemon of the cluster that is asked: it answers each request with one datagram at most.

Pure. ``now`` is in seconds; random bytes are passed in. A conversation passes these states::

    (none)     nothing is known of it
      | OPEN with a known credential and a right proof
    OPENED     only the holder of the credential can go on, as the answer has a new public key
      | ASK
    ASKED      the owner decides about each request

OPEN may be a copy of an old one: it changes nothing but a bounded table. Only ASK makes the cluster
do something, and its sender has read the answer to OPEN. The same request gets the same answer.
"""

from typing import Final, Protocol

import attrs

from groupcomm.errors import BadDatagram
from groupcomm.joining.handshake import HostHandshake, SessionKeys
from groupcomm.joining.messages import (
    PART_BYTES,
    Answer,
    JoinRequest,
    MoveRequest,
    Part,
    PartRequest,
    Ready,
    decode_request_untrusted,
    encode,
)
from groupcomm.security.hello import RateLimit
from groupcomm.security.identity import Entropy
from groupcomm.wire.joining import (
    PUBLIC_BYTES,
    Ask,
    Denied,
    Open,
    Opened,
    Reply,
    Role,
    decode_joining_untrusted,
)

MAX_DIALOGS: Final = 64
"""At most so many are kept: the one that was not used for the longest time gives way."""

IDLE_S: Final = 30.0

STRANGERS_BURST: Final = 8
STRANGERS_PER_S: Final = 16.0
KNOWN_BURST: Final = 32
KNOWN_PER_S: Final = 32.0
"""The requests to begin a conversation that are looked at, by those whose credential the cluster
does not know, and by others: each costs up to 0.3 ms."""


@attrs.frozen(kw_only=True)
class Applicant:
    """The other end of a conversation.

    Attributes:
        role, credential: its credential, which it has proved.
        public: its public key.
        transcript: 32 bytes that stand for the conversation.
    """

    role: Role
    credential: bytes
    public: bytes
    transcript: bytes


class HostContext(Protocol):
    """The daemon, as its part in joining sees it."""

    def cluster_private(self, key_id: int) -> bytes | None:
        """Return the private key that follows from this key of the cluster; None without it."""

    def public_of(self, request: Open) -> bytes | None:
        """Return the public key of a credential; None if the cluster does not know it."""

    def decide(self, applicant: Applicant, request: JoinRequest | MoveRequest) -> Answer | bytes:
        """Return the answer to a request, or the package of one that is granted."""


@attrs.define(kw_only=True)
class _Dialog:
    applicant: Applicant
    keys: SessionKeys
    request: bytes
    opened: bytes
    used_at: float
    counter: int = 0
    answer: bytes = b""
    package: bytes = b""


class JoinHost:
    """Answers the requests of daemons outside.

    Args:
        cluster: the number that stands for the name of the cluster.
        context: the daemon.
        entropy: the source of random bytes.
        now: the present time.

    Attributes:
        answered: the number of datagrams with an answer.
        rejected: the number of datagrams without one.
    """

    def __init__(self, cluster: int, context: HostContext, entropy: Entropy, now: float) -> None:
        self._cluster, self._context, self._entropy = cluster, context, entropy
        self._strangers = RateLimit(STRANGERS_BURST, STRANGERS_PER_S, now)
        self._known = RateLimit(KNOWN_BURST, KNOWN_PER_S, now)
        self._dialogs: dict[bytes, _Dialog] = {}  # by salt; the last was used last
        self.answered = self.rejected = 0

    def describe(self) -> dict[str, int]:
        """Return the counters, by name."""
        return {"answered": self.answered, "rejected": self.rejected}

    def answer(self, data: bytes, now: float) -> bytes | None:
        """Return the answer to a datagram; None if it gets none. It is never longer."""
        try:
            answer = self._answer(data, now)
        except BadDatagram:
            self.rejected += 1  # anybody can send such datagrams
            return None
        self.answered += 1
        return answer

    def _answer(self, data: bytes, now: float) -> bytes:
        packet = decode_joining_untrusted(data)
        match packet:
            case Open():
                return self._on_open(packet, data, now)
            case Ask():
                return self._on_ask(packet, now)
            case Opened() | Denied() | Reply():
                raise BadDatagram("kind", "an answer that nobody has asked for")

    def _on_open(self, request: Open, data: bytes, now: float) -> bytes:
        known = self._dialogs.get(request.salt)
        if known is not None:
            if known.request != data:
                raise BadDatagram("salt", "another request with the same salt")
            return known.opened
        if request.cluster != self._cluster:
            raise BadDatagram("cluster", "a request to another cluster")
        token = self._context.public_of(request)
        limit = self._strangers if token is None else self._known
        private = self._context.cluster_private(request.key_id)
        if private is None or not limit.allows(now):
            raise BadDatagram("busy", "a key that is missing here, or too many requests")
        limit.spend()
        handshake = HostHandshake(request, private)
        if token is None:
            return handshake.deny().encode()
        opened, keys = handshake.accept(token, self._entropy(PUBLIC_BYTES))
        applicant = Applicant(
            role=request.role,
            credential=request.credential,
            public=request.public,
            transcript=keys.transcript,
        )
        self._make_room(now)
        self._dialogs[request.salt] = _Dialog(
            applicant=applicant, keys=keys, request=data, opened=opened.encode(), used_at=now
        )
        return opened.encode()

    def _make_room(self, now: float) -> None:
        for salt, each in list(self._dialogs.items()):
            if now - each.used_at < IDLE_S and len(self._dialogs) < MAX_DIALOGS:
                break
            del self._dialogs[salt]

    def _on_ask(self, ask: Ask, now: float) -> bytes:
        found = self._dialogs.get(ask.salt)
        if found is None or ask.counter < found.counter:
            raise BadDatagram("salt", "a request of no conversation, or an old one")
        request = decode_request_untrusted(found.keys.open_ask(ask))
        found.used_at = now
        self._dialogs[ask.salt] = self._dialogs.pop(ask.salt)
        if ask.counter > found.counter:
            answer = self._decide(found, request)
            found.counter = ask.counter
            found.answer = found.keys.reply(ask.counter, encode(answer)).encode()
        return found.answer

    def _decide(self, found: _Dialog, request: JoinRequest | MoveRequest | PartRequest) -> Answer:
        if isinstance(request, PartRequest):
            data = found.package[request.part * PART_BYTES :][:PART_BYTES]
            if not data:
                raise BadDatagram("part", "a part that there is not")
            return Part(data)
        decided = self._context.decide(found.applicant, request)
        if isinstance(decided, bytes):
            found.package = decided
            return Ready(len(decided))
        return decided
