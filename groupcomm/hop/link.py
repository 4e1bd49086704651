"""One link: packets to and from one daemon of another site, paced, and repaired if they are lost.

Pure. ``now`` is in seconds. Nothing waits for order here: what comes is handed on at once, and what
was lost follows later, under another number. Horizon notices go ahead of everything and outside
the window, those that wait together (notices.py); of each ring only the newest is of use, so they
are not repeated.

Sources: RFC 9002 for round trips and losses; for the rate see bandwidth.py.
"""

from math import inf
from typing import Final

from groupcomm.config.view import SAFE_PACKET_BYTES
from groupcomm.errors import ProtocolViolation
from groupcomm.hop.bandwidth import Bandwidth
from groupcomm.hop.notices import WaitingNotices
from groupcomm.hop.path import PathSize
from groupcomm.hop.pieces import Pieces, cut
from groupcomm.hop.queue import FairQueue, Queued
from groupcomm.hop.received import Received
from groupcomm.hop.round_trip import GRANULARITY_S, RoundTrip
from groupcomm.hop.under_way import UnderWay
from groupcomm.wire.ack import Acknowledgement
from groupcomm.wire.link import (
    LINK_BYTES,
    PROBE_BYTES,
    LinkPacket,
    with_key_untrusted,
    without_key,
)

OVERHEAD_BYTES: Final = 80
"""Of a datagram, besides the packet in it: the seal, UDP, IP; for the rate only."""

BURST_S: Final = 0.05
"""What was not sent while the daemon was busy for so long follows at once, as the window allows."""

MOST_AHEAD: Final = 2**32
"""Packets between two that come over a link: years of them."""


class Link:
    """One end of one link.

    Attributes:
        deadline: when `step` has something to do.
        received: the receiving half.
        trip, bandwidth: what is known of the link.
        notices: those that wait.
        path: how large packets pass.
        under_way, queue: what was sent, and what is to be.
    """

    __slots__ = (
        "_key",
        "_left",
        "_me",
        "_pending",
        "_pieces",
        "_send_at",
        "_wholes",
        "bandwidth",
        "deadline",
        "notices",
        "path",
        "queue",
        "received",
        "trip",
        "under_way",
    )

    def __init__(self, key: bytes, me: int, packet_limit: int, first_trip_s: float) -> None:
        """Begin; `first_trip_s` is a guess of the round trip."""
        self._key = key
        self._me = me
        self.trip = RoundTrip(first_trip_s)
        self.bandwidth = Bandwidth(self.trip, packet_limit + LINK_BYTES + OVERHEAD_BYTES)
        self.under_way = UnderWay(self.trip)
        self.queue = FairQueue()
        self.received = Received()
        self._pending: set[tuple[int, int]] = set()  # (origin, number) queued or under way
        self._wholes = 0  # packets that were cut
        self._left: dict[tuple[int, int], int] = {}  # their pieces that have not arrived
        self._pieces = Pieces()
        self.path = PathSize(packet_limit + LINK_BYTES)
        self.notices = WaitingNotices(key, min(packet_limit, SAFE_PACKET_BYTES))
        self._send_at = -inf  # the pace allows the next packet then
        self.deadline = self.path.due

    # ---- what is to be sent ----

    def send(self, origin: int, number: int, packet: bytes) -> None:
        """Queue a packet: of a stream, or outside of them with number 0."""
        if number:
            if (origin, number) in self._pending:
                return
            self._pending.add((origin, number))
        self.queue.add(Queued(origin, number, packet))
        self.deadline = -inf

    def again(self, packets: list[Queued], now: float) -> None:
        """Send what the other end asks for, unless it waits or has only just been sent."""
        wanted = {(queued.origin, queued.number) for queued in packets}
        self._repeat(self.under_way.asked_for(wanted & self._pending, now))
        for queued in packets:
            self.send(queued.origin, queued.number, queued.packet)
        self.deadline = -inf

    def notify(self, ring: int, encoded: bytes, due: float) -> None:
        """Send a ring's notice at `due` at the latest, with others that wait, ahead of packets."""
        self.notices.add(ring, encoded, due)
        self.deadline = min(self.deadline, due)

    # ---- what has come ----

    def arrived(self, carried: LinkPacket, now: float) -> bytes | None:
        """The packet that has come, whole; None if there is none, or it had come before.

        Raises:
            BadDatagram: its pieces are together, and are no packet that goes over links.
            ProtocolViolation: its number cannot be that of a packet on this link.
        """
        if carried.number > self.received.highest + MOST_AHEAD:
            raise ProtocolViolation("link", f"{carried.number}, after {self.received.highest}")
        is_new = self.received.take(carried.number, now)
        self.deadline = min(self.deadline, self.received.due)
        if not is_new or carried.piece is None:
            return carried.packet or None if is_new else None
        whole = self._pieces.take(carried.piece)
        return None if whole is None else with_key_untrusted(whole, self._key)

    def acknowledged(self, ack: Acknowledgement, now: float) -> None:
        """The other end says what it has; raises ProtocolViolation if that was never sent."""
        if ack.ranges[-1][1] > self.under_way.last:
            raise ProtocolViolation("ack", f"{ack.ranges[-1][1]}, of {self.under_way.last} sent")
        before = self.under_way.delivered
        arrived, sample = self.under_way.acknowledged(ack.ranges, ack.delay_us / 1e6, now)
        for queued in arrived:
            self.path.arrived(queued.size, now)
            self._note_arrived(queued)
        if sample is not None:
            under_way = self.under_way
            delivered = under_way.delivered
            news = delivered - before
            self.bandwidth.acknowledged(sample, news, delivered, under_way.bytes, now)
        self.deadline = -inf

    def _note_arrived(self, queued: Queued) -> None:
        """It need not be sent again, unless it is asked for."""
        packet = queued.origin, queued.number
        if queued.piece is not None and queued.number:
            left = self._left[packet] = self._left[packet] - 1
            if left:
                return
            del self._left[packet]
        self._pending.discard(packet)

    # ---- one step ----

    def step(self, now: float) -> list[bytes]:
        """The packets to send now, in order."""
        if now < self.deadline:
            return []
        out = self.notices.take(now)
        if now >= self.received.due:
            out.append(self.received.acknowledge(self._me, now).encode(self._key))
        if now >= self.under_way.deadline:
            self._on_lost(self.under_way.overdue(now), out, now)
        probe = self.path.take(now)
        if probe:
            self._probe(probe, out, now)
        self._send_queued(out, now)
        self._set_deadline(now)
        return out

    def _on_lost(self, lost: list[Queued], out: list[bytes], now: float) -> None:
        doubtful = [self.path.lost(queued.size, now) for queued in lost]
        if any(doubtful):
            self._put(Queued(-1, 0, b""), out, now)
        self._repeat(lost)

    def _probe(self, size: int, out: list[bytes], now: float) -> None:
        """Try whether so much passes; a small packet behind it shows its loss."""
        self._put(Queued(-1, 0, b"", zeros=size - PROBE_BYTES), out, now)
        self._put(Queued(-1, 0, b""), out, now)

    def _repeat(self, lost: list[Queued]) -> None:
        for queued in lost:
            if queued.number:
                self.queue.again(queued)

    def _send_queued(self, out: list[bytes], now: float) -> None:
        queue, under_way = self.queue, self.under_way
        window, pace = self.bandwidth.window, self.bandwidth.pace
        self._send_at = max(self._send_at, now - BURST_S)
        while queue and under_way.bytes < window and self._send_at <= now:
            queued = queue.take()
            if queued.size > self.path.carries:
                self._cut(queued)
            else:
                self._send_at += self._put(queued, out, now) / pace
        if not queue and under_way.bytes < window:
            under_way.nothing_to_send()

    def _put(self, queued: Queued, out: list[bytes], now: float) -> int:
        """Send something, outside of the pace; its bytes."""
        size = queued.size + OVERHEAD_BYTES
        number = self.under_way.add(queued, size, now)
        carried = LinkPacket(
            sender=self._me,
            number=number,
            packet=queued.packet,
            piece=queued.piece,
            zeros=queued.zeros,
        )
        out.append(carried.encode(self._key))
        return size

    def _cut(self, queued: Queued) -> None:
        """Its pieces are next."""
        self._wholes += 1
        pieces = cut(without_key(queued.packet), self._wholes, self.path.least)
        if queued.number:
            self._left[queued.origin, queued.number] = len(pieces)
        for piece in pieces:
            self.queue.again(Queued(queued.origin, queued.number, b"", piece))

    def _set_deadline(self, now: float) -> None:
        deadline = min(self.received.due, self.under_way.deadline, self.notices.due, self.path.due)
        if self.queue and self.under_way.bytes < self.bandwidth.window:
            deadline = min(deadline, max(self._send_at, now + GRANULARITY_S / 2))
        self.deadline = deadline
