"""Forwarding of packets between rings, at a daemon where links of the view end.

Pure. ``now`` is in seconds. A packet that is seen here for the first time follows the tree of
its origin (routes.py): into this ring if it came over a link, and over the links that lead on.
Each link repairs its own losses (link.py). A packet that is still missing, because its route has
changed, is requested from the other end of the link that it should have come by.
"""

from collections.abc import Callable, Sequence
from math import inf

from groupcomm.config.core import Timing
from groupcomm.config.view import RING, View
from groupcomm.errors import ProtocolViolation
from groupcomm.link.link import Link
from groupcomm.link.queue import NoticeQueue, Queued
from groupcomm.link.routes import Routes
from groupcomm.stream.stream import Gaps, Stream
from groupcomm.wire.data import DataPacket
from groupcomm.wire.horizon import HorizonNotice
from groupcomm.wire.link import Acknowledgement, LinkPacket, ResendRequest

RESEND_BYTES = 256 * 1024
"""The most bytes that answer one request; packets that do not fit are requested again."""

REQUEST_RANGES = 32
"""The ranges of one request, so few that it passes every path."""

PATIENCE = 3
"""For this many round trips of the longest route a gap is left to the link to repair."""

HOLD_PART = 16
"""A notice of another ring waits for further ones at most the longest delay divided by this, and no
longer than the least interval between two notices of one ring."""

MEETING_PART = 4
"""A notice of the shared tree waits for others this part of the interval between two of a ring, at
each of the few steps on its way."""

IN_VAIN_TIMEOUTS = 3
"""Token timeouts, and once the longest delay, for which a packet is sent in vain before its link
counts as lost: as long as a ring waits (ring/reception.py)."""

Transmission = tuple[int, bytes]
"""(destination, packet)."""


class Forwarding:
    """One daemon's exchange with daemons of other rings.

    Attributes:
        links: the links that end here, by the daemon at the other end.
        deadline: the time at which `step` is due.
    """

    __slots__ = (
        "_gaps",
        "_gaps_due",
        "_hold_s",
        "_in_vain_s",
        "_into_ring",
        "_key",
        "_me",
        "_meeting_s",
        "_onward",
        "_own_ring",
        "_repair_s",
        "_routes",
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
        self._use(routes)
        there_and_back_s = 2 * view.longest_delay_s
        self._in_vain_s = IN_VAIN_TIMEOUTS * timing.token_timeout_s + view.longest_delay_s
        self._repair_s = there_and_back_s + timing.token_retransmit_s
        self.links = {
            sum(pair) - me: Link(view.key, me, view.packet_limit, there_and_back_s)
            for pair in view.links
            if me in pair
        }
        self._into_ring = NoticeQueue(view.key, view.packet_limit)
        self._hold_s = min(timing.horizon_interval_min_s, view.longest_delay_s / HOLD_PART)
        self._meeting_s = timing.rest_interval_s / MEETING_PART
        self._gaps = self._watch(routes, PATIENCE * self._repair_s)
        self._gaps_due = inf
        self.deadline = min((link.deadline for link in self.links.values()), default=inf)

    def _watch(self, routes: Routes, delay_s: float) -> list[Gaps]:
        return [
            Gaps(self._streams[origin], delay_s=delay_s, retry_s=PATIENCE * self._repair_s)
            for origin in sorted(routes.entered)
        ]

    def _use(self, routes: Routes) -> None:
        self._routes, self._onward, self._upstream = routes, routes.onward, routes.upstream

    def reroute(self, routes: Routes, now: float) -> None:
        """Use other routes from now on; packets in flight on the old ones may be lost."""
        used = _links_of(self._onward) & _links_of(routes.onward)
        for end, link in self.links.items():
            if end not in used:  # it was down meanwhile, so its attempts say nothing
                link.in_flight.in_vain.clear()
        self._use(routes)
        self._gaps = self._watch(routes, self._repair_s)
        for origin in routes.entered:
            self.update_gaps(origin, now)

    # ---- packets to send ----

    def forward(self, origin: int, number: int, packet: bytes) -> bool:
        """Send on a packet that was seen here for the first time.

        Args:
            origin: the packet's ring.
            number: its number in the stream of that ring, 0 outside the streams.
            packet: the whole packet.

        Returns:
            Whether the packet is for this ring, too.
        """
        into_ring = False
        for destination in self._onward[origin]:
            if destination == RING:
                into_ring = True
            else:
                self.links[destination].send(origin, number, packet)
                self.deadline = -inf
        return into_ring

    def announce(self, notice: HorizonNotice, now: float) -> list[bytes]:
        """Send a notice of this ring, issued here; return the packets for the ring."""
        self.forward_notice(notice, now)
        self._into_ring.add(notice, notice.encode(), now)
        return self._into_ring.pop_due(now)

    def forward_notice(self, notice: HorizonNotice, now: float) -> None:
        """Send on the notice of a ring, to where its targets are.

        Over links the notice of another ring waits a moment, to leave together with others. It goes
        into this ring at once, or a token that collects frontiers would overtake it. One of the
        shared tree waits longer at each step, as nobody waits for it.
        """
        ring, targets, encoded = notice.ring, notice.targets, notice.encode()
        if notice.shared:
            self._meet(notice, encoded, now)
            return
        due = now if ring == self._own_ring else now + self._hold_s
        reached_by = self._routes.reached[ring]
        for destination, reached in zip(self._onward[ring], reached_by, strict=True):
            if targets and not targets & reached:
                continue
            if destination == RING:
                self._into_ring.add(notice, encoded, now)
                self.deadline = -inf
            else:
                self.links[destination].send_notice(notice, encoded, due)
                self.deadline = min(self.deadline, due)

    def _meet(self, notice: HorizonNotice, encoded: bytes, now: float) -> None:
        """Send on a notice along the shared tree, together with those that come meanwhile."""
        due = now if notice.ring == self._own_ring else now + self._meeting_s
        for destination in self._routes.shared.onward[notice.ring]:
            if destination == RING:
                self._into_ring.add(notice, encoded, due)
            else:
                self.links[destination].send_notice(notice, encoded, due)
            self.deadline = min(self.deadline, due)

    # ---- packets that never arrive ----

    def unreached(self, now: float, share: float = 1.0) -> set[int]:
        """Return the daemons to which packets are sent in vain, for this share of the time."""
        before = now - share * self._in_vain_s
        return {end for end, link in self.links.items() if link.in_vain_since <= before}

    def give_up(self, daemon: int) -> None:
        """Forget the packets on their way over the link to a daemon, which is used no more."""
        self.links[daemon].give_up()

    # ---- packets that arrive ----

    def on_packet(self, carried: LinkPacket, sender: int, now: float) -> bytes | None:
        """Return the packet that arrived over a link; None if there is none, or a duplicate.

        Raises:
            BadDatagram: it came in fragments that do not form a packet.
            ProtocolViolation: it names another sender, or its number is impossible.
        """
        link = self._link_to(carried.sender, sender)
        if link is None:
            return None
        packet = link.on_packet(carried, now)
        self.deadline = min(self.deadline, link.deadline)
        return packet

    def on_acknowledgement(self, ack: Acknowledgement, sender: int, now: float) -> None:
        """Process an acknowledgement of the other end of a link.

        Raises:
            ProtocolViolation: it names a number that was never sent, or another daemon.
        """
        link = self._link_to(ack.sender, sender)
        if link is not None:
            link.on_acknowledgement(ack, now)
            self.deadline = -inf

    def _link_to(self, named: int, sender: int) -> Link | None:
        if named != sender:
            raise ProtocolViolation(
                "sender", f"daemon {sender} calls itself daemon {named} on a link"
            )
        return self.links.get(named)

    def update_gaps(self, ring: int, now: float) -> None:
        """Look for gaps after packets of the stream of another ring arrived or became known."""
        for gaps in self._gaps:
            if gaps.stream.ring == ring:
                gaps.update(now)
        self._gaps_due = min((gaps.deadline for gaps in self._gaps), default=inf)
        self.deadline = min(self.deadline, self._gaps_due)

    def on_resend_request(
        self, request: ResendRequest, form: Callable[[DataPacket], bytes | None], now: float
    ) -> None:
        """Send again the packets that are here and that the other end of a link lacks.

        Args:
            request: the packets that it lacks.
            form: returns the bytes that it may get of a packet; None if it may not have it yet.
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
        link.send_requested(found, now)
        self.deadline = -inf

    # ---- one step ----

    def step(self, now: float) -> list[Transmission]:
        """Return the packets to send now."""
        if now < self.deadline:
            return []
        sent = [(RING, raw) for raw in self._into_ring.pop_due(now)]
        sent += [(end, raw) for end, link in self.links.items() for raw in link.step(now)]
        if now >= self._gaps_due:
            sent += self._requests(now)
        links_due = min((link.deadline for link in self.links.values()), default=inf)
        self.deadline = min(links_due, self._gaps_due, self._into_ring.due)
        return sent

    def _requests(self, now: float) -> list[Transmission]:
        sent: list[Transmission] = []
        for gaps in self._gaps:
            ranges = gaps.pop_due(now)
            neighbour = self._upstream[gaps.stream.ring]
            if neighbour is None:
                continue
            for at in range(0, len(ranges), REQUEST_RANGES):
                some = ranges[at : at + REQUEST_RANGES]
                request = ResendRequest(ring=gaps.stream.ring, asker=self._me, ranges=some)
                sent.append((neighbour, request.encode(self._key)))
        self._gaps_due = min((gaps.deadline for gaps in self._gaps), default=inf)
        return sent


def _links_of(onward: Sequence[Sequence[int]]) -> set[int]:
    """Return the daemons at the other ends of the links that are in use, and perhaps `RING`."""
    return {destination for destinations in onward for destination in destinations}
