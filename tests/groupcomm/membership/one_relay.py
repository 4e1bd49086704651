"""What one daemon passes on between sites, among daemons of which a test says what they say."""

from typing import Final

from groupcomm.config.core import CoreConfig, Timing
from groupcomm.config.view import Incarnation, Start
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.membership.flood import Flood
from groupcomm.membership.pace import paced
from groupcomm.membership.peer import PeerDaemon
from groupcomm.membership.relays import Relays
from groupcomm.membership.reservation import Reservation
from groupcomm.wire.control import (
    ControlPacket,
    decode_control_untrusted,
    inflate_packets_untrusted,
)
from groupcomm.wire.membership import Leave, Relayed, decode_message_untrusted
from tests.groupcomm.membership.stage import NAMES, NUMBERS, PLENTY, join_of, packet_of

SITES: Final = ("abc", "def", "ghi")
FAR: Final = Timing(longest_delay_s=0.04)
LATER: Final = 100.0
"""A time at which nobody is heard any more that was heard at the beginning."""

Sent = tuple[str | None, list[tuple[str, int]]]
"""(target, None for the site; the origin and the sequence of each packet that goes together)."""


def said(name: str, sequence: int, *, parting: bool = False) -> ControlPacket:
    """Return a join of a daemon, or its message that it leaves."""
    return packet_of(name, Leave() if parting else join_of(name, 1), sequence)


class OneRelay:
    """One daemon of several sites, which has begun to look for a view at time 0.

    Attributes:
        relays: what it passes on.
        detector: the daemons that it hears.
    """

    def __init__(
        self,
        name: str,
        *sites: str,
        links: tuple[tuple[int, int, int], ...] = (),
    ) -> None:
        config = CoreConfig(
            sites=tuple(map(tuple, sites or SITES)),
            link_delays_us=links,
            timing=FAR,
            few_daemons=0,
            many_daemons=0,
        )
        start = Start(name=name, incarnation=Incarnation(1, ord(name)))
        disk = Reservation(0, PLENTY, int, 0.0)
        self._flood = Flood(config, start)
        self.detector = FailureDetector(
            config, start, self._flood, disk, lambda *_: None, lambda: 0
        )
        self.relays = Relays(config, self._flood, self.detector)
        self.timing = paced(config)
        self.relays.begin(0.0)

    def hear(self, names: str, now: float = 0.0) -> None:
        """Hear messages of daemons themselves."""
        for name in names:
            peer = self.detector.on_heard(NUMBERS[name], Incarnation(1, ord(name)), now)
            assert peer is not None
            if now - peer.heard_at > self.detector.fresh_s:
                peer.heard_from = now
            peer.heard_at = now
            self.relays.note_heard(peer.number)

    def peer(self, name: str) -> PeerDaemon:
        """Return what is known of another daemon."""
        return self.detector.peers[NUMBERS[name]]

    def lists(self, name: str, hears: str, now: float = 0.0) -> None:
        """Have a daemon join that hears these."""
        self.peer(name).note_join(join_of(name, 1, hears), now)

    def rank(self, now: float) -> int | None:
        """Return its rank."""
        return self.relays.rank(now)

    def targets(self, now: float) -> str:
        """Return the daemons of other sites to which it speaks."""
        return "".join(sorted(self.relays.targets(now)))

    def seek(self, absent: str, beacons: int, now: float) -> str:
        """Return the daemons outside its view that get its next beacon."""
        numbers = {NUMBERS[name] for name in absent}
        return "".join(sorted(self.relays.seek(now, numbers, beacons)))

    def get(self, packet: ControlPacket, sender: str, now: float) -> None:
        """Get a packet for the first time, from its origin or from another daemon."""
        if NAMES[packet.origin] != sender:
            self.relays.note_passed_on(packet, NUMBERS[sender])
        self.relays.pass_on(packet, NUMBERS[sender], now)

    def step(self, now: float) -> list[Sent]:
        """Let time pass, and return what is passed on now."""
        self.relays.step(now)
        found: list[Sent] = []
        for target, raw in self._flood.out:
            packet = decode_control_untrusted(raw)
            message = decode_message_untrusted(packet.kind, packet.payload)
            assert isinstance(message, Relayed)
            inside = inflate_packets_untrusted(message.deflated)
            found.append((target, [(NAMES[each.origin], each.sequence) for each in inside]))
        self._flood.out.clear()
        return found
