"""Outside the streams: UNRELIABLE datagrams, without numbers, tokens and repair.

Pure. Each has a count of its daemon, against duplicates; other rings get what they have recipients
for.
"""

from collections.abc import Callable

from groupcomm.config.view import RING, View
from groupcomm.engine import checks
from groupcomm.engine.counters import Counters
from groupcomm.engine.delivery import Delivery
from groupcomm.engine.sessions import LocalSessions
from groupcomm.errors import ProtocolViolation
from groupcomm.stream.packer import Packer
from groupcomm.wire.unreliable import UnreliablePacket, decode_unreliable_untrusted


class Outside:
    """UNRELIABLE at one daemon in one view.

    Args:
        view: the view.
        me: index of this daemon.
        delivery, packer, desk, counters: of this daemon.
        send: a packet to a daemon of the view, or to RING.
        pass_on: a packet (ring, number, whole) on its way from ring to ring.
    """

    __slots__ = (
        "_counters",
        "_delivery",
        "_me",
        "_packer",
        "_pass_on",
        "_send",
        "_sessions",
        "_view",
    )

    def __init__(
        self,
        view: View,
        me: int,
        *,
        delivery: Delivery,
        packer: Packer,
        sessions: LocalSessions,
        counters: Counters,
        send: Callable[[int, bytes], None],
        pass_on: Callable[[int, int, bytes], None],
    ) -> None:
        self._view = view
        self._me = me
        self._delivery = delivery
        self._packer = packer
        self._sessions = sessions
        self._counters = counters
        self._send = send
        self._pass_on = pass_on

    def receive(self, raw: bytes, sender: int) -> None:
        """Take a datagram that a daemon has sent or passed on.

        Raises:
            BadDatagram, ProtocolViolation: it breaks its layout, or the protocol.
        """
        packet = decode_unreliable_untrusted(raw)
        checks.check_unreliable(packet, self._view)
        if packet.daemon == self._me:
            return
        ring_of = self._view.ring_of
        rings = {ring_of[packet.daemon], ring_of[sender], ring_of[self._me]}
        if sender != packet.daemon and len(rings) == 1:
            raise ProtocolViolation("sender", f"daemon {sender} sends for {packet.daemon}")
        if not self._delivery.is_new_unreliable(packet):
            self._counters.unreliable_duplicates += 1
            return
        self._to_other_rings(packet, raw)
        self._delivery.deliver_unreliable(packet)

    def send(self) -> None:
        """Send what local sessions have given, once the groups are known."""
        if not self._delivery.complete:
            return
        for packet in self._packer.unreliable(self._sessions.pop_unreliable()):
            raw = packet.encode(self._view.key)  # before its bundles are given out, and let go
            self._send(RING, raw)
            self._to_other_rings(packet, raw)
            self._delivery.deliver_unreliable(packet)

    def _to_other_rings(self, packet: UnreliablePacket, raw: bytes) -> None:
        ring_of = self._view.ring_of
        ring = ring_of[packet.daemon]
        if ring != ring_of[self._me] or not self._delivery.wanted.all_local_only(packet.bundles):
            self._pass_on(ring, 0, raw)
