"""Hearing: which control messages of other daemons are taken, and how they come on.

Pure. ``now`` is in seconds. A message comes from its origin itself, or from somebody who has passed it
on. Whoever passes on is believed only about daemons that are not heard here themselves, and nothing
that is said so stands against what a daemon says itself: one that is broken could else speak in the
name of all.
"""

from collections.abc import Callable
from typing import Final

from groupcomm.errors import ProtocolViolation, RemoteProtocolError
from groupcomm.membership.flood import Flood
from groupcomm.membership.neighbours import Neighbours
from groupcomm.membership.peers import Peer
from groupcomm.wire.control import ControlPacket
from groupcomm.wire.membership import ControlKind, ControlMessage, decode_message_untrusted

MOST_AHEAD: Final = 2**32
"""Messages of one daemon between two that come: years of them."""

_DIRECT: Final = frozenset((ControlKind.BEACON, ControlKind.OUTDATED))
"""Nobody passes these on."""

Take = Callable[[Peer, ControlMessage, int, bool, float], None]
"""Takes (whose, the message, its sequence, whether it came from there itself, now)."""


class Hearing:
    """Of one daemon.

    Args:
        flood: puts messages together, and passes them on.
        neighbours: who is there.
        take: a message that counts.
    """

    __slots__ = ("_flood", "_neighbours", "_take")

    def __init__(self, flood: Flood, neighbours: Neighbours, take: Take) -> None:
        self._flood = flood
        self._neighbours = neighbours
        self._take = take

    def on_control(self, packet: ControlPacket, sender: int, now: float) -> None:
        """Take a control packet that came from `sender`.

        Raises:
            BadDatagram, ProtocolViolation: its sender is broken.
            RemoteProtocolError: its origin is, or who has passed it on.
        """
        if packet.origin == sender:
            self._on_own(packet, now)
            return
        try:
            self._on_passed_on(packet, sender, now)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"passed on: {error}") from None

    def _on_own(self, packet: ControlPacket, now: float) -> None:
        peer = self._neighbours.peers.get(packet.origin)
        if peer is None or peer.incarnation != packet.incarnation:
            raise ProtocolViolation("origin", "a message in the name of another start")
        if self._flood.is_new(peer.seen, packet, own=True):
            self._on_news(peer, packet, packet.origin, now)

    def _on_passed_on(self, packet: ControlPacket, sender: int, now: float) -> None:
        if packet.kind in _DIRECT:
            raise ProtocolViolation("origin", "a message that nobody passes on")
        peer = self._neighbours.hear_of(packet.origin, packet.incarnation, now)
        if peer is not None and self._flood.is_new(peer.passed_on, packet, own=False):
            self._on_news(peer, packet, sender, now)

    def _on_news(self, peer: Peer, packet: ControlPacket, sender: int, now: float) -> None:
        own = sender == packet.origin
        window = peer.seen if own else peer.passed_on
        if packet.sequence > window.highest + MOST_AHEAD:
            raise ProtocolViolation("sequence", f"{packet.sequence}, after {window.highest}")
        if packet.kind not in _DIRECT:
            self._flood.pass_on(packet, self._neighbours.lacking(peer, sender, packet.kind, now))
        body = self._flood.assemble(packet, own=own)
        if body is not None:
            window.accept(packet.sequence)
            if not own:
                peer.told_of_at = now
                if packet.sequence > peer.told_left:
                    peer.is_there()
            message = decode_message_untrusted(packet.kind, body)
            if self._neighbours.comparison.admits(peer, message, now):
                self._take(peer, message, packet.sequence, own, now)
