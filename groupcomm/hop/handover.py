"""Handing packets over between rings, at a ring's gateway.

Pure. The gateway passes on what its ring originates, and multicasts in its ring what comes from
others, each packet the first time it is seen. What is lost between gateways is asked for from the
ring that originated it: the loss is repaired on its hop, not end to end.

Every ring is one hop from every other here. The link protocol proper, with routes, congestion
control and loss detection, takes this module's place when links exist.
"""

from math import inf

from groupcomm.config.core import Timing
from groupcomm.config.view import RING, View
from groupcomm.stream.gaps import Gaps
from groupcomm.stream.stream import Stream
from groupcomm.wire.resend import ResendRequest

RESEND_BYTES = 256 * 1024
"""Answered per request at most; what does not fit is asked for again."""

Transmission = tuple[int, bytes]


class Handover:
    """One gateway's exchange with the gateways of the other rings.

    Attributes:
        deadline: when `requests` has something to give; inf without gaps.
    """

    __slots__ = ("_gaps", "_gateways", "_key", "_ring", "_streams", "deadline")

    def __init__(self, view: View, ring: int, streams: list[Stream], timing: Timing) -> None:
        self._key = view.key
        self._ring = ring
        self._streams = streams
        self._gateways = [view.gateway(other) for other in range(len(view.rings))]
        there_and_back_s = 2 * view.longest_delay_s
        self._gaps = [
            Gaps(
                stream,
                delay_s=max(timing.repair_delay_s, view.longest_delay_s / 16),
                retry_s=1.25 * there_and_back_s + timing.token_retransmit_s,
            )
            for stream in streams
            if stream.ring != ring
        ]
        self.deadline = inf

    def pass_on(self, origin: int, packet: bytes) -> list[Transmission]:
        """Where a packet goes that was seen here for the first time; `origin` is its ring."""
        if origin != self._ring:
            return [(RING, packet)]
        return [(self._gateways[ring], packet) for ring in self._others()]

    def _others(self) -> list[int]:
        return [ring for ring in range(len(self._gateways)) if ring != self._ring]

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
            if ranges:
                request = ResendRequest(ring=gaps.stream.ring, asker=self._ring, ranges=ranges)
                sent.append((self._gateways[gaps.stream.ring], request.encode(self._key)))
        self._set_deadline()
        return sent

    def answer(self, request: ResendRequest) -> list[Transmission]:
        """Packets that another ring's gateway lacks, as far as they are held here."""
        destination = self._gateways[request.asker]
        packets = self._streams[request.ring].packets
        answers: list[Transmission] = []
        budget = RESEND_BYTES
        for first, last in request.ranges:
            for number in range(first, min(last, self._streams[request.ring].known) + 1):
                packet = packets.get(number)
                if packet is not None and budget > 0:
                    answers.append((destination, packet.raw))
                    budget -= len(packet.raw)
        return answers
