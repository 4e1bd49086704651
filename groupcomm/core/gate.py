"""The gate: what this daemon seals, and whose datagrams it lets in.

Only daemons of the view in their present start may speak, and only of this view.
"""

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import RING, Incarnation, View
from groupcomm.errors import BadDatagram
from groupcomm.names import cluster_number
from groupcomm.security.keys import KeyRing
from groupcomm.security.sealing import Opened, Opener, Sealer
from groupcomm.wire.packet import peek_untrusted


class Gate:
    """Sealing and opening for one daemon of one view."""

    __slots__ = ("_fellows", "_key", "_members", "_numbers", "_opener", "_sealer")

    def __init__(self, config: CoreConfig, view: View, me: int, keys: KeyRing | None) -> None:
        own = view.daemons[me]
        cluster = cluster_number(config.cluster)
        self._sealer = Sealer(
            config.suite, keys, cluster, own.number, own.incarnation, config.starts.datagram
        )
        self._opener = Opener(config.suite, keys, cluster, (own.number, own.incarnation))
        self._key = view.key
        self._numbers = [daemon.number for daemon in view.daemons]
        self._members = {(daemon.number, daemon.incarnation) for daemon in view.daemons}
        self._fellows: dict[int, Incarnation] = {}

    def seal(self, destination: int, packet: bytes) -> bytes:
        """A datagram for a daemon of the view, or for RING."""
        receiver = None if destination == RING else self._numbers[destination]
        return self._sealer.seal(packet, receiver)

    def open_untrusted(self, datagram: bytes) -> tuple[int, bytes]:
        """The kind of a packet of this view, and the packet.

        Raises:
            BadDatagram: with the reasons of the Opener, or sender or view.
        """
        opened = self._opener.open_untrusted(datagram)
        if opened.incarnation is not self._fellows.get(opened.sender):
            self._check_fellow(opened)
        kind, key = peek_untrusted(opened.packet)
        if key != self._key:
            raise BadDatagram("view", "a packet of another view")
        return kind, opened.packet

    def _check_fellow(self, opened: Opened) -> None:
        """Remember the incarnation object of a daemon's start, so that identity tells it next."""
        if (opened.sender, opened.incarnation) not in self._members:
            raise BadDatagram("sender", "not a daemon of this view")
        self._fellows[opened.sender] = opened.incarnation
