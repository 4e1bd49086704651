"""One link: packets to and from one daemon of another site, paced, and sent again if lost.

Pure. ``now`` is in seconds. A link does not restore the order: a packet is passed on as soon as it
arrives, and a lost one follows later under another number. Horizon notices go ahead of all packets
and outside the window, together with those that wait. Only the newest notice of each ring is of
use, so notices are not sent again.

Sources: RFC 9002 for round trips and losses; for the rate see congestion.py.
"""

from math import inf
from typing import Final

import attrs

from groupcomm.config.view import SAFE_PACKET_BYTES
from groupcomm.errors import ProtocolViolation
from groupcomm.link.acknowledgements import InFlight, ReceivedNumbers
from groupcomm.link.congestion import GRANULARITY_S, Bandwidth, RoundTrip
from groupcomm.link.path_mtu import PathMtu, Reassembly, cut
from groupcomm.link.queue import FairQueue, NoticeQueue, Queued
from groupcomm.metrics import metric
from groupcomm.wire.horizon import HorizonNotice
from groupcomm.wire.link import (
    LINK_BYTES,
    PROBE_BYTES,
    Acknowledgement,
    LinkPacket,
    with_key_untrusted,
    without_key,
)

OVERHEAD_BYTES: Final = 80
"""Bytes of a datagram besides the packet in it: the seal, UDP, IP. They count for the rate only."""

BURST_S: Final = 0.05
"""A daemon that was busy may make up for this much time at once, within the window."""

MOST_AHEAD: Final = 2**32
"""The most packets between two that arrive over a link: years of them."""


@attrs.frozen(kw_only=True)
class LinkStatus:
    """A link of the present view that ends here; bytes are of datagrams before sealing.

    Attributes:
        to: name of the daemon at the other end.
        carries_bytes: the size of the largest datagrams that pass.
        most_bytes: the size of the largest datagrams that there are.
        narrow: whether the largest ones are lost.
        rate: 0 before the first sample.
    """

    to: str
    carries_bytes: int
    most_bytes: int
    narrow: bool
    round_trip_s: float = metric(
        "link_round_trip_seconds",
        "Smoothed round trip of a link that ends at this daemon.",
        "peer",
    )
    rate: float = metric(
        "link_rate_bytes", "Best recent rate of a link, in bytes a second.", "peer"
    )
    sent: int = metric(
        "link_packets_total",
        "Packets sent over a link in this view; each attempt counts.",
        "peer",
    )
    lost: int = metric(
        "link_packets_lost_total",
        "Packets among them that were lost; both counts start again with each view.",
        "peer",
    )
    in_flight_bytes: int = metric(
        "link_in_flight_bytes",
        "Bytes that were sent over a link and are not acknowledged yet.",
        "peer",
    )
    waiting_bytes: int = metric(
        "link_queue_bytes", "Bytes that wait to be sent over a link.", "peer"
    )
    dropped: int = metric(
        "link_packets_dropped_total",
        "UNRELIABLE packets that found no room in a link's queue.",
        "peer",
    )


class Link:
    """One end of one link.

    Attributes:
        deadline: the time at which `step` is due.
        received: the numbers that have arrived.
        trip, bandwidth: measurements of the link.
        notices: the horizon notices that wait.
        path: the search for the path MTU.
        in_flight, queue: the packets that were sent, and those still to be sent.
    """

    __slots__ = (
        "_fragmented",
        "_key",
        "_left",
        "_me",
        "_pending",
        "_reassembly",
        "_send_at",
        "bandwidth",
        "deadline",
        "in_flight",
        "notices",
        "path",
        "queue",
        "received",
        "trip",
    )

    def __init__(self, key: bytes, me: int, packet_limit: int, first_trip_s: float) -> None:
        """Start; `first_trip_s` is a guess of the round trip."""
        self._key = key
        self._me = me
        self.trip = RoundTrip(first_trip_s)
        self.bandwidth = Bandwidth(self.trip, packet_limit + LINK_BYTES + OVERHEAD_BYTES)
        self.in_flight = InFlight(self.trip)
        self.queue = FairQueue()
        self.received = ReceivedNumbers()
        self._pending: set[tuple[int, int]] = set()  # (origin, number) queued or in flight
        self._fragmented = 0  # the number of packets that were cut into fragments
        self._left: dict[tuple[int, int], int] = {}  # fragments in flight of each of these packets
        self._reassembly = Reassembly()
        self.path = PathMtu(packet_limit + LINK_BYTES)
        self.notices = NoticeQueue(key, min(packet_limit, SAFE_PACKET_BYTES))
        self._send_at = -inf  # when the pace allows the next packet
        self.deadline = self.path.due

    def status(self, to: str) -> LinkStatus:
        """Return the facts for operators; `to` is the name of the daemon at the other end."""
        return LinkStatus(
            to=to,
            carries_bytes=self.path.carries,
            most_bytes=self.path.most,
            narrow=self.path.is_narrow,
            round_trip_s=self.trip.smoothed_s,
            rate=self.bandwidth.rate,
            sent=self.in_flight.last,
            lost=self.in_flight.lost,
            in_flight_bytes=self.in_flight.bytes,
            waiting_bytes=self.queue.bytes,
            dropped=self.queue.dropped,
        )

    # ---- packets to send ----

    def send(self, origin: int, number: int, packet: bytes) -> None:
        """Queue a packet of a stream, or one outside the streams with number 0."""
        if number:
            if (origin, number) in self._pending:
                return
            self._pending.add((origin, number))
        self.queue.add(Queued(origin, number, packet))
        self.deadline = -inf

    def send_requested(self, packets: list[Queued], now: float) -> None:
        """Send packets that the other end asks for, unless they wait or were just sent."""
        wanted = {(queued.origin, queued.number) for queued in packets}
        self._retransmit(self.in_flight.pop_requested(wanted & self._pending, now))
        for queued in packets:
            self.send(queued.origin, queued.number, queued.packet)
        self.deadline = -inf

    def send_notice(self, notice: HorizonNotice, encoded: bytes, due: float) -> None:
        """Send the notice of a ring, ahead of packets, at `due` at the latest."""
        self.notices.add(notice, encoded, due)
        self.deadline = min(self.deadline, due)

    # ---- packets that arrive ----

    def on_packet(self, carried: LinkPacket, now: float) -> bytes | None:
        """Return the whole packet that has arrived; None if there is none, or it is a duplicate.

        Raises:
            BadDatagram: its fragments are complete, but are no packet that goes over links.
            ProtocolViolation: its number cannot be that of a packet on this link.
        """
        if carried.number > self.received.highest + MOST_AHEAD:
            raise ProtocolViolation(
                "link",
                f"link packet {carried.number} follows {self.received.highest}, which is too far",
            )
        is_new = self.received.accept(carried.number, now)
        self.deadline = min(self.deadline, self.received.due)
        if not is_new or carried.fragment is None:
            return carried.packet or None if is_new else None
        whole = self._reassembly.accept(carried.fragment)
        return None if whole is None else with_key_untrusted(whole, self._key)

    @property
    def in_vain_since(self) -> float:
        """Return the time since which a packet is sent in vain; inf if none is."""
        return self.in_flight.in_vain.since

    def give_up(self) -> None:
        """Forget the packets of streams that wait or are in flight: they take another way."""
        self.in_flight.give_up()
        self.queue.clear()
        self._pending.clear()
        self._left.clear()

    def on_acknowledgement(self, ack: Acknowledgement, now: float) -> None:
        """Process an acknowledgement; raise ProtocolViolation if it names a number never sent."""
        if ack.ranges[-1][1] > self.in_flight.last:
            raise ProtocolViolation(
                "ack",
                f"link packet {ack.ranges[-1][1]} is acknowledged, and the last one sent was"
                f" {self.in_flight.last}",
            )
        before = self.in_flight.delivered
        arrived, sample = self.in_flight.acknowledged(ack.ranges, ack.delay_us / 1e6, now)
        for queued in arrived:
            self.path.arrived(queued.size, now)
            self._note_arrived(queued)
        if sample is not None:
            in_flight = self.in_flight
            delivered = in_flight.delivered
            news = delivered - before
            self.bandwidth.acknowledged(sample, news, delivered, in_flight.bytes, now)
        self.deadline = -inf

    def _note_arrived(self, queued: Queued) -> None:
        """Note that a packet need not be sent again, unless the other end asks for it."""
        packet = queued.origin, queued.number
        if queued.fragment is not None and queued.number:
            left = self._left[packet] = self._left[packet] - 1
            if left:
                return
            del self._left[packet]
        self._pending.discard(packet)

    # ---- one step ----

    def step(self, now: float) -> list[bytes]:
        """Return the packets to send now, in order."""
        if now < self.deadline:
            return []
        out = self.notices.pop_due(now)
        if now >= self.received.due:
            out.append(self.received.acknowledge(self._me, now).encode(self._key))
        lost = self.in_flight.pop_lost(now) if now >= self.in_flight.deadline else []
        self._on_lost(lost, out, now)
        probe = self.path.pop_probe(now)
        if probe:
            self._probe(probe, out, now)
        self._send_queued(out, now)
        if any(map(self.in_flight.in_vain.needs_follower, lost)):
            self._put(Queued(-1, 0, b""), out, now)
        self._set_deadline(now)
        return out

    def _on_lost(self, lost: list[Queued], out: list[bytes], now: float) -> None:
        doubtful = [self.path.lost(queued.size, now) for queued in lost]
        if any(doubtful):
            self._put(Queued(-1, 0, b""), out, now)
        self._retransmit(lost)

    def _probe(self, size: int, out: list[bytes], now: float) -> None:
        """Send a probe of `size` bytes, and after it a small packet that shows its loss."""
        self._put(Queued(-1, 0, b"", zeros=size - PROBE_BYTES), out, now)
        self._put(Queued(-1, 0, b""), out, now)

    def _retransmit(self, lost: list[Queued]) -> None:
        for queued in lost:
            if queued.number:
                self.queue.add_first(queued)

    def _send_queued(self, out: list[bytes], now: float) -> None:
        queue, in_flight = self.queue, self.in_flight
        window, pace = self.bandwidth.window, self.bandwidth.pace
        self._send_at = max(self._send_at, now - BURST_S)
        while queue and in_flight.bytes < window and self._send_at <= now:
            queued = queue.pop()
            if queued.size > self.path.carries:
                self._fragment(queued)
            else:
                self._send_at += self._put(queued, out, now) / pace
        if not queue and in_flight.bytes < window:
            in_flight.nothing_to_send()

    def _put(self, queued: Queued, out: list[bytes], now: float) -> int:
        """Send a packet regardless of the pace; return its bytes."""
        size = queued.size + OVERHEAD_BYTES
        number = self.in_flight.add(queued, size, now)
        carried = LinkPacket(
            sender=self._me,
            number=number,
            packet=queued.packet,
            fragment=queued.fragment,
            zeros=queued.zeros,
        )
        out.append(carried.encode(self._key))
        return size

    def _fragment(self, queued: Queued) -> None:
        """Cut a packet into fragments, which are sent next."""
        self._fragmented += 1
        fragments = cut(without_key(queued.packet), self._fragmented, self.path.least)
        if queued.number:
            self._left[queued.origin, queued.number] = len(fragments)
        for fragment in fragments:
            self.queue.add_first(Queued(queued.origin, queued.number, b"", fragment))

    def _set_deadline(self, now: float) -> None:
        deadline = min(self.received.due, self.in_flight.deadline, self.notices.due, self.path.due)
        if self.queue and self.in_flight.bytes < self.bandwidth.window:
            deadline = min(deadline, max(self._send_at, now + GRANULARITY_S / 2))
        self.deadline = deadline
