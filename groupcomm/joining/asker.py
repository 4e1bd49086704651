"""The daemon that asks: to be admitted with a token, or to be known at another address.

Pure. ``now`` is in seconds; random bytes are passed in. States::

    OPENING    OPEN goes to all targets, again and again
      | OPENED of one of them, with a right proof
    ASKING     that one is asked; while it says Wait, again
      | Ready
    FETCHING   the parts of the package come, one after the other
      | the last part
    OVER       with the package, or with a refusal

A target that does not answer for SILENT_S is given up: then OPENING begins anew, with another salt.
Targets that do not know the credential say so, with a proof; only if none of the others answers in
DENIED_S is that believed, as one that was away may not know a new token yet. docs/joining.md has
the whole protocol.
"""

import enum
from collections.abc import Callable, Collection
from math import inf
from typing import Final, Generic, TypeVar

import attrs

from groupcomm.errors import BadDatagram
from groupcomm.joining.handshake import AskerHandshake, SessionKeys, public_of
from groupcomm.joining.messages import (
    PART_BYTES,
    Answer,
    Part,
    PartRequest,
    Ready,
    Refused,
    Request,
    Wait,
    decode_answer_untrusted,
    encode,
)
from groupcomm.security.identity import Entropy
from groupcomm.wire.joining import SALT_BYTES, Denied, Open, Opened, Reply, Role
from groupcomm.wire.joining import decode_joining_untrusted as decode

AGAIN_S: Final = 0.25
"""A datagram without an answer is sent again after this time."""

POLL_S: Final = 0.1
"""A target that says Wait is asked again after this time."""

WAIT_S: Final = 1.0
"""A target that has said Wait for this time is left for another one: it may be in a part of the
cluster without a majority."""

SILENT_S: Final = 2.0
DENIED_S: Final = 2.0

_Target = TypeVar("_Target")


class State(enum.Enum):
    """What the asker waits for."""

    OPENING = enum.auto()
    ASKING = enum.auto()
    FETCHING = enum.auto()
    OVER = enum.auto()


@attrs.frozen(kw_only=True)
class Credential:
    """The right to ask.

    Attributes:
        role: the kind of credential.
        id: 8 bytes that name it.
        cluster: the number that stands for the name of the cluster.
        key_id: the key of the cluster from which `public` follows.
        private: the private key that shows the right.
        public: the public key of the cluster.
    """

    role: Role
    id: bytes
    cluster: int
    key_id: int
    private: bytes = attrs.field(repr=False)
    public: bytes


class Asker(Generic[_Target]):
    """One request of a daemon, until it is granted or refused.

    Args:
        credential: the right to ask.
        private: the private key of the daemon; a token admits its holder only.
        request: returns the request, given the daemon that is asked and the transcript.
        entropy: the source of random bytes.

    Attributes:
        targets: the daemons to ask; the owner may change them at any time.
        state: what it waits for.
        package: the package, once it is OVER and was granted.
        refusal: the reason, once it is OVER and was refused.
        waits_for: the reason of the latest Wait; "" before one.
    """

    def __init__(
        self,
        credential: Credential,
        private: bytes,
        request: Callable[[_Target, bytes], Request],
        entropy: Entropy,
    ) -> None:
        self._credential, self._private = credential, private
        self._request, self._entropy = request, entropy
        self.targets: Collection[_Target] = ()
        self.package: bytes | None = None
        self.refusal: str | None = None
        self.waits_for = ""
        self.due = -inf
        self._left: _Target | None = None  # the target that was left last
        self._denied: set[_Target] = set()
        self._denied_at = inf  # when a target has denied first
        self._begin()

    def _begin(self) -> None:
        """Begin a conversation with whoever answers first."""
        self.state = State.OPENING
        credential = self._credential
        request = Open(
            salt=self._entropy(SALT_BYTES),
            cluster=credential.cluster,
            key_id=credential.key_id,
            role=credential.role,
            credential=credential.id,
            public=public_of(self._private),
        )
        self._handshake = AskerHandshake(
            request, self._private, credential.private, credential.public
        )
        self._target: _Target | None = None
        self._keys: SessionKeys | None = None
        self._counter = 0
        self._asked = b""  # the datagram that waits for its answer; b"" between two polls
        self._heard_at = -inf
        self._asked_at = inf  # when the target was asked first
        self._parts: list[bytes] = []
        self._size = 0

    def step(self, now: float) -> list[tuple[_Target, bytes]]:
        """Return the datagrams to send, with their targets; call it at `due`."""
        if self.state is State.OVER or now < self.due:
            return []
        if self.state is State.OPENING:
            if now >= self._denied_at + DENIED_S or (
                self._denied and self._denied.issuperset(self.targets)
            ):
                self._end(
                    "the cluster does not know this token: it was replaced by a later invitation,"
                    " or is of another cluster"
                    if self._credential.role is Role.TOKEN
                    else "the cluster does not know this daemon"
                )
                return []
            self.due = now + AGAIN_S
            data = self._handshake.open.encode()
            left, self._left = self._left, None  # it is not the first one again
            return [(each, data) for each in self.targets if each != left or len(self.targets) < 2]
        if now >= self._heard_at + SILENT_S:
            self._begin()
            return self.step(now)
        assert self._target is not None
        assert self._keys is not None
        if not self._asked:
            self._counter += 1
            self._asked = self._keys.ask(self._counter, encode(self._next_request())).encode()
        self.due = now + AGAIN_S
        return [(self._target, self._asked)]

    def _next_request(self) -> Request:
        if self.state is State.FETCHING:
            return PartRequest(len(self._parts))
        assert self._target is not None
        assert self._keys is not None
        return self._request(self._target, self._keys.transcript)

    def receive(self, source: _Target, data: bytes, now: float) -> None:
        """Process a datagram; drop it unless its sender is of the cluster."""
        try:
            self._receive(source, data, now)
        except BadDatagram:
            return  # anybody can send such datagrams

    def _receive(self, source: _Target, data: bytes, now: float) -> None:
        packet = decode(data)
        if packet.salt != self._handshake.open.salt:
            return
        match packet:
            case Opened() if self.state is State.OPENING:
                self._keys = self._handshake.accept(packet)
                self._target, self._heard_at, self.state = source, now, State.ASKING
                self._asked_at = now
                self.due = now
            case Denied() if self.state is State.OPENING:
                self._handshake.check(packet)
                self._denied.add(source)
                self._denied_at = min(self._denied_at, now)
                if self._denied.issuperset(self.targets):
                    self.due = now
            case Reply(counter=self._counter) if self._asked and self._keys is not None:
                answer = decode_answer_untrusted(self._keys.open_reply(packet))
                self._heard_at, self._asked, self.due = now, b"", now
                self._denied.clear()
                self._denied_at = inf
                self._on_answer(answer, now)

    def _on_answer(self, answer: Answer, now: float) -> None:
        match answer:
            case Wait(reason):
                self.waits_for = reason
                self.due = now + POLL_S
                if now >= self._asked_at + WAIT_S and len(self.targets) > 1:
                    self._left = self._target
                    self._begin()
            case Refused(reason):
                self._end(reason)
            case Ready(size) if self.state is State.ASKING:
                self.state, self._size = State.FETCHING, size
                self._complete()
            case Part(data) if self.state is State.FETCHING:
                self._parts.append(data)
                self._complete()

    def _complete(self) -> None:
        if len(self._parts) * PART_BYTES >= self._size:
            self.package = b"".join(self._parts)
            self.state, self.due = State.OVER, inf

    def _end(self, refusal: str) -> None:
        self.refusal = refusal
        self.state, self.due = State.OVER, inf
