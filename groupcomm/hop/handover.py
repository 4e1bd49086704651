"""Handing packets over between rings, where links of the view end at this daemon.

Pure. A packet that is seen here for the first time goes on along its origin's tree (routes.py): to
the own ring if it came over a link, and over the links that lead on. Each link repairs its own
losses (link.py). What is missing all the same, as its way has changed, is asked for from the other
end of the link that it should have come by.
"""

from collections.abc import Callable
from math import inf

from groupcomm.config.core import Timing
from groupcomm.config.view import RING, View
from groupcomm.errors import ProtocolViolation
from groupcomm.hop.link import Link
from groupcomm.hop.notices import WaitingNotices
from groupcomm.hop.queue import Queued
from groupcomm.hop.routes import Routes
from groupcomm.stream.gaps import Gaps
from groupcomm.stream.stream import Stream
from groupcomm.wire.ack import Acknowledgement
from groupcomm.wire.data import DataPacket
from groupcomm.wire.link import LinkPacket
from groupcomm.wire.resend import ResendRequest

RESEND_BYTES = 256 * 1024
"""Answered per request at most; what does not fit is asked for again."""

REQUEST_RANGES = 64
"""So many fit a request that passes every path."""

PATIENCE = 3
"""Round trips of the longest way: for so long a gap is left to the link to repair."""

HOLD_PART = 16
"""Another ring's notice waits for others a part of so many of the longest delay, and no longer than
notices of one ring are apart at least."""

Transmission = tuple[int, bytes]


class Handover:
    """One daemon's exchange with daemons of other rings.

    Attributes:
        links: those that end here, by the daemon at the other end.
        deadline: when `step` has something to do.
    """

    __slots__ = (
        "_gaps",
        "_gaps_due",
        "_hold_s",
        "_into_ring",
        "_key",
        "_me",
        "_onward",
        "_own_ring",
        "_repair_s",
        "_streams",
        "_upstream",
        "deadline",
        "links",
    )

    def __init__(
        self, view: View, me: int, routes: Routes, streams: list[Stream], timing: Timing
    ) -> None:
        self._key = view.key
        self._me = me
        self._own_ring = view.ring_of[me]
        self._streams = streams
        self._onward = routes.onward
        self._upstream = routes.upstream
        there_and_back_s = 2 * view.longest_delay_s
        self._repair_s = there_and_back_s + timing.token_retransmit_s
        self.links = {
            sum(pair) - me: Link(view.key, me, view.packet_limit, there_and_back_s)
            for pair in view.links
            if me in pair
        }
        self._into_ring = WaitingNotices(view.key, view.packet_limit)
        self._hold_s = min(timing.horizon_interval_min_s, view.longest_delay_s / HOLD_PART)
        self._gaps = self._watch(routes, PATIENCE * self._repair_s)
        self._gaps_due = inf
        self.deadline = min((link.deadline for link in self.links.values()), default=inf)

    def _watch(self, routes: Routes, delay_s: float) -> list[Gaps]:
        return [
            Gaps(self._streams[origin], delay_s=delay_s, retry_s=PATIENCE * self._repair_s)
            for origin in sorted(routes.entered)
        ]

    def reroute(self, routes: Routes, now: float) -> None:
        """Packets take other ways from now on; what was under way on the old ones may be lost."""
        self._onward = routes.onward
        self._upstream = routes.upstream
        self._gaps = self._watch(routes, self._repair_s)
        for origin in routes.entered:
            self.update(origin, now)

    # ---- what goes out ----

    def pass_on(self, origin: int, number: int, packet: bytes) -> bool:
        """Send a packet on that was seen here for the first time.

        Args:
            origin: its ring.
            number: in that ring's stream, 0 outside of it.
            packet: whole.

        Returns:
            Whether it is for the own ring, too.
        """
        into_ring = False
        for destination in self._onward[origin]:
            if destination == RING:
                into_ring = True
            else:
                self.links[destination].send(origin, number, packet)
                self.deadline = -inf
        return into_ring

    def announce(self, encoded: bytes, now: float) -> list[bytes]:
        """Send the own ring's notice, issued here; what is to go into the ring before all else."""
        self.notify(self._own_ring, encoded, now)
        self._into_ring.add(self._own_ring, encoded, now)
        return self._into_ring.take(now)

    def notify(self, ring: int, encoded: bytes, now: float) -> None:
        """Send a ring's notice on: over links others' soon, together with those they meet.

        Into the ring at once: a token that goes round for a frontier would be there before it.
        """
        due = now if ring == self._own_ring else now + self._hold_s
        for destination in self._onward[ring]:
            if destination == RING:
                self._into_ring.add(ring, encoded, now)
                self.deadline = -inf
            else:
                self.links[destination].notify(ring, encoded, due)
                self.deadline = min(self.deadline, due)

    # ---- what comes in ----

    def arrived(self, carried: LinkPacket, sender: int, now: float) -> bytes | None:
        """The packet that has come over a link; None if there is none, or it had come before.

        Raises:
            BadDatagram: it came in pieces, and they are none.
            ProtocolViolation: another daemon has sent it than it says, or it can be no link's.
        """
        link = self._link_to(carried.sender, sender)
        if link is None:
            return None
        packet = link.arrived(carried, now)
        self.deadline = min(self.deadline, link.deadline)
        return packet

    def _link_to(self, named: int, sender: int) -> Link | None:
        if named != sender:
            raise ProtocolViolation("sender", f"daemon {sender} names itself {named} on a link")
        return self.links.get(named)

    def acknowledged(self, ack: Acknowledgement, sender: int, now: float) -> None:
        """The other end of a link says what has come.

        Raises:
            ProtocolViolation: it names what was never sent, or another daemon.
        """
        link = self._link_to(ack.sender, sender)
        if link is not None:
            link.acknowledged(ack, now)
            self.deadline = -inf

    def update(self, ring: int, now: float) -> None:
        """Look for gaps after packets of another ring's stream came or became known."""
        for gaps in self._gaps:
            if gaps.stream.ring == ring:
                gaps.update(now)
        self._gaps_due = min((gaps.deadline for gaps in self._gaps), default=inf)
        self.deadline = min(self.deadline, self._gaps_due)

    def answer(
        self, request: ResendRequest, form: Callable[[DataPacket], bytes | None], now: float
    ) -> None:
        """Send again what the daemon at a link's other end lacks, as far as it is held here.

        Args:
            request: what it lacks.
            form: in which it gets a packet; None if it may not have it yet.
            now: seconds.
        """
        link = self.links.get(request.asker)
        if link is None:
            return
        stream = self._streams[request.ring]
        budget = RESEND_BYTES
        found: list[Queued] = []
        for first, last in request.ranges:
            for number in range(max(first, stream.forgotten + 1), min(last, stream.known) + 1):
                packet = stream.packets.get(number)
                raw = form(packet) if packet is not None and budget > 0 else None
                if raw is not None:
                    found.append(Queued(request.ring, number, raw))
                    budget -= len(raw)
        link.again(found, now)
        self.deadline = -inf

    # ---- one step ----

    def step(self, now: float) -> list[Transmission]:
        """What is to be sent now."""
        if now < self.deadline:
            return []
        sent = [(RING, raw) for raw in self._into_ring.take(now)]
        sent += [(peer, raw) for peer, link in self.links.items() for raw in link.step(now)]
        if now >= self._gaps_due:
            sent += self._requests(now)
        links_due = min((link.deadline for link in self.links.values()), default=inf)
        self.deadline = min(links_due, self._gaps_due, self._into_ring.due)
        return sent

    def _requests(self, now: float) -> list[Transmission]:
        sent: list[Transmission] = []
        for gaps in self._gaps:
            ranges = gaps.take_due(now)
            neighbour = self._upstream[gaps.stream.ring]
            if neighbour is None:
                continue
            for at in range(0, len(ranges), REQUEST_RANGES):
                some = ranges[at : at + REQUEST_RANGES]
                request = ResendRequest(ring=gaps.stream.ring, asker=self._me, ranges=some)
                sent.append((neighbour, request.encode(self._key)))
        self._gaps_due = min((gaps.deadline for gaps in self._gaps), default=inf)
        return sent
