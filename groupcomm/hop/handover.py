"""Handing packets over between rings, where a link of the view ends at this daemon.

Pure. A packet that is seen here for the first time goes on along its origin's tree (routes.py): to
the own ring if it came over a link, and over the links that lead on. What is lost on a link is
asked for from its other end: the loss is repaired on its hop, not end to end.

The link protocol proper, with congestion control and loss detection, takes the place of the
requests here when there are links over slow networks.
"""

from math import inf

from groupcomm.config.core import Timing
from groupcomm.config.view import View
from groupcomm.hop.routes import Routes
from groupcomm.stream.gaps import Gaps
from groupcomm.stream.stream import Stream
from groupcomm.wire.resend import ResendRequest

RESEND_BYTES = 256 * 1024
"""Answered per request at most; what does not fit is asked for again."""

Transmission = tuple[int, bytes]


class Handover:
    """One daemon's exchange with daemons of other rings.

    Attributes:
        deadline: when `requests` has something to give; inf without gaps.
    """

    __slots__ = ("_gaps", "_key", "_me", "_onward", "_streams", "_upstream", "deadline")

    def __init__(
        self, view: View, me: int, routes: Routes, streams: list[Stream], timing: Timing
    ) -> None:
        self._key = view.key
        self._me = me
        self._streams = streams
        self._onward = routes.onward
        self._upstream = routes.upstream
        there_and_back_s = 2 * view.longest_delay_s
        self._gaps = [
            Gaps(
                streams[origin],
                delay_s=max(timing.repair_delay_s, view.longest_delay_s / 16),
                retry_s=1.25 * there_and_back_s + timing.token_retransmit_s,
            )
            for origin in sorted(routes.entered)
        ]
        self.deadline = inf

    def pass_on(self, origin: int, packet: bytes) -> list[Transmission]:
        """Where a packet goes that was seen here for the first time; `origin` is its ring."""
        return [(destination, packet) for destination in self._onward[origin]]

    def update(self, ring: int, now: float) -> None:
        """Look for gaps after packets of another ring's stream came or became known."""
        for gaps in self._gaps:
            if gaps.stream.ring == ring:
                gaps.update(now)
        self._set_deadline()

    def _set_deadline(self) -> None:
        self.deadline = min((gaps.deadline for gaps in self._gaps), default=inf)

    def requests(self, now: float) -> list[Transmission]:
        """Requests for what is due to be asked for now."""
        if now < self.deadline:
            return []
        sent: list[Transmission] = []
        for gaps in self._gaps:
            ranges = gaps.take_due(now)
            neighbour = self._upstream[gaps.stream.ring]
            if ranges and neighbour is not None:
                request = ResendRequest(ring=gaps.stream.ring, asker=self._me, ranges=ranges)
                sent.append((neighbour, request.encode(self._key)))
        self._set_deadline()
        return sent

    def answer(self, request: ResendRequest) -> list[Transmission]:
        """Packets that the daemon at a link's other end lacks, as far as they are held here."""
        packets = self._streams[request.ring].packets
        answers: list[Transmission] = []
        budget = RESEND_BYTES
        for first, last in request.ranges:
            for number in range(first, min(last, self._streams[request.ring].known) + 1):
                packet = packets.get(number)
                if packet is not None and budget > 0:
                    answers.append((request.asker, packet.raw))
                    budget -= len(packet.raw)
        return answers
