"""The receiver of control messages: accepts them, or not, and passes them on.

Pure. ``now`` is in seconds. A message comes from its origin itself, or from a daemon that has
passed it on. A daemon that passes a message on is believed only about daemons that are not heard
here themselves, and never overrides a daemon's own messages: otherwise one broken daemon could
speak in the name of all.
"""

from collections.abc import Callable
from math import inf
from typing import Final

from groupcomm.config.view import Incarnation
from groupcomm.errors import ProtocolViolation, RemoteProtocolError
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.membership.flood import Flood
from groupcomm.membership.held_joins import HeldJoins
from groupcomm.membership.peer import PeerDaemon
from groupcomm.membership.relays import Relays
from groupcomm.membership.trust import Trust
from groupcomm.security.layout import WINDOW
from groupcomm.wire.control import ControlPacket, inflate_packets_untrusted
from groupcomm.wire.membership import (
    KNOWN_KINDS,
    ControlKind,
    ControlMessage,
    Relayed,
    decode_message_untrusted,
)

MOST_AHEAD: Final = 2**32
"""The most messages of one daemon between two that arrive: years of them."""

MOST_BEHIND: Final = 2 * WINDOW
"""The most numbers by which a late message can be behind others."""

MOST_AT_ONCE: Final = 2 * MOST_BEHIND
MOST_PER_S: Final = 10**6
"""No daemon sends more, so after a jump new messages can be told from late ones."""

_DIRECT: Final = frozenset(
    (ControlKind.BEACON, ControlKind.SHORT_BEACON, ControlKind.ASK, ControlKind.RELAYED)
)
"""The kinds of messages that are never passed on."""

_JOINS: Final = frozenset((ControlKind.JOIN, ControlKind.SHORT_JOIN))

Accept = Callable[[PeerDaemon, ControlMessage, int, bool, float], None]
"""Accepts a message: (its origin, the message, its sequence, whether it came directly, now)."""

Restore = Callable[[PeerDaemon, ControlMessage, int, bool, float], ControlMessage | None]
"""Returns a message in full, if it can be: (as `Accept`)."""

LookAt = Callable[[PeerDaemon, ControlMessage, float], None]
"""Looks at a message: (its origin, the message, now)."""


class ControlReceiver:
    """The control messages that one daemon receives.

    Args:
        flood: assembles messages, and passes them on.
        detector: knows the present daemons.
        relays: pass messages on between sites.
        trust: knows the daemons that are left out.
        restore: returns in full what was said in short; None if it has to come again.
        accept: accepts a message that counts.
        look_at: looks at a message of a daemon whose settings differ.

    Attributes:
        gather_began_at: the time at which this daemon began to look for a view.
        held: the joins that are passed on later.
    """

    __slots__ = (
        "_accept",
        "_detector",
        "_flood",
        "_look_at",
        "_news",
        "_peers",
        "_relays",
        "_restore",
        "_trust",
        "gather_began_at",
        "held",
    )

    def __init__(
        self,
        flood: Flood,
        detector: FailureDetector,
        relays: Relays,
        trust: Trust,
        restore: Restore,
        accept: Accept,
        look_at: LookAt,
    ) -> None:
        self._flood = flood
        self._detector = detector
        self._peers = detector.peers
        self._trust = trust
        self._relays = relays
        self._restore = restore
        self._accept = accept
        self._look_at = look_at
        self._news = False
        self.gather_began_at = -inf
        self.held = HeldJoins(flood, detector)

    def pop_news(self) -> bool:
        """Return, once, whether a daemon was heard, or a start mentioned, for the first time."""
        news, self._news = self._news, False
        return news

    @property
    def due(self) -> float:
        """Return the time at which `step` is due."""
        return min(self.held.due, self._relays.due)

    def step(self, now: float) -> None:
        """Pass on what has waited long enough."""
        if now >= self.held.due:
            self.held.step(now)
        self._relays.step(now)

    def on_datagram(self, number: int, incarnation: Incarnation, now: float) -> bool:
        """Note a datagram of a daemon itself; return False if its start is over, or left out."""
        peer = self._peers.get(number)
        if peer is None or peer.strange or peer.incarnation is not incarnation:
            if not self._trust.is_heard(number, incarnation, now):
                return False
            peer = self._detector.on_heard(number, incarnation, now)
            if peer is None:
                return False
        if peer.heard_at < self.gather_began_at:
            self._news = True
        if now - peer.heard_at > self._detector.fresh_s:
            peer.heard_from = now
        peer.heard_at = now
        return True

    def on_control(self, packet: ControlPacket, sender: int, now: float) -> None:
        """Process a control packet that came from `sender`.

        Raises:
            BadDatagram, ProtocolViolation: its sender is broken.
            RemoteProtocolError: its origin is broken, or a daemon that has passed it on.
        """
        if packet.origin == sender:
            self._on_own(packet, now)
            return
        try:
            self._on_passed_on(packet, sender, now)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"passed on: {error}") from None

    def _on_own(self, packet: ControlPacket, now: float) -> None:
        peer = self._detector.peers.get(packet.origin)
        if peer is None or peer.incarnation != packet.incarnation:
            raise ProtocolViolation(
                "origin", "a message in the name of another start, or of an unknown daemon"
            )
        if self._relays.is_used:
            self._relays.note_heard(packet.origin)
        highest = peer.seen.highest
        if packet.sequence < highest - MOST_BEHIND:
            raise ProtocolViolation("sequence", f"{packet.sequence} is too far behind {highest}")
        if self._flood.is_new(peer.seen, packet, own=True):
            self._on_news(peer, packet, packet.origin, now)

    def _on_passed_on(self, packet: ControlPacket, sender: int, now: float) -> None:
        if packet.kind in _DIRECT:
            raise ProtocolViolation("origin", "a message of a kind that is never passed on")
        if self._relays.is_used:
            self._relays.note_passed_on(packet, sender)
        known = self._peers.get(packet.origin)
        start = None if known is None else known.incarnation
        peer = self._detector.on_mentioned(packet.origin, packet.incarnation, now)
        if peer is not None and peer.incarnation != start:
            self._news = True  # lists that name it can be told now
        if peer is None and packet.kind == ControlKind.REPAIR:
            peer = self._detector.unreached(packet.origin, packet.incarnation)
        if peer is not None and self._flood.is_new(peer.passed_on, packet, own=False):
            self._on_news(peer, packet, sender, now)

    def _on_news(self, peer: PeerDaemon, packet: ControlPacket, sender: int, now: float) -> None:
        own = sender == packet.origin
        window, since = (peer.seen, peer.said_at) if own else (peer.passed_on, peer.passed_on_at)
        most = min(MOST_AHEAD, MOST_AT_ONCE + MOST_PER_S * (now - since))
        if packet.sequence > window.highest + most:
            text = f"{packet.sequence} is too far ahead of {window.highest}"
            raise ProtocolViolation("sequence", text)
        if packet.kind not in _DIRECT:
            self._pass_on(peer, packet, sender, now)
        if not own:
            peer.mentioned_at = now
        body = self._flood.assemble(packet, window, own=own)
        if body is None:
            return
        if own:
            peer.said_at = now
        else:
            peer.passed_on_at = now
            peer.on_passed_on(packet.sequence, now)
        if packet.kind in KNOWN_KINDS:  # a later release may send others to all that listen
            self._on_body(peer, packet, body, own, now)

    def _pass_on(self, peer: PeerDaemon, packet: ControlPacket, sender: int, now: float) -> None:
        if self._relays.is_used:
            self._relays.pass_on(packet, sender, now)
            if not self._detector.is_near(packet.origin):
                return
        is_join = packet.kind in _JOINS
        if is_join and self.held.hold_for_all(packet, peer, sender, now):
            return
        targets = self._detector.pass_on_targets(peer, sender, packet.kind, now)
        if is_join:
            targets = self.held.hold(packet, peer, sender, targets, now)
        self._flood.pass_on(packet, targets)

    def _on_body(
        self, peer: PeerDaemon, packet: ControlPacket, body: bytes, own: bool, now: float
    ) -> None:
        said = decode_message_untrusted(packet.kind, body)
        if isinstance(said, Relayed):
            self._on_relayed(said, packet.origin, now)
            return
        message = self._restore(peer, said, packet.sequence, own, now)
        if message is None:
            return
        if self._detector.comparison.admits(peer, message, now):
            self._accept(peer, message, packet.sequence, own, now)
        else:
            self._look_at(peer, message, now)

    def _on_relayed(self, relayed: Relayed, sender: int, now: float) -> None:
        """Process packets that a relay passes on together; a broken one bars no others."""
        broken: RemoteProtocolError | None = None
        for packet in inflate_packets_untrusted(relayed.deflated):
            try:
                if packet.origin not in (sender, self._detector.key[0]):
                    self._on_passed_on(packet, sender, now)
            except RemoteProtocolError as error:
                broken = error
        if broken is not None:
            raise RemoteProtocolError(f"passed on: {broken}") from None
