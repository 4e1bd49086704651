"""Acknowledgements of a link: the packets in flight, lost ones, and received numbers.

Pure. ``now`` is in seconds. Each attempt to send a packet has a number of its own, so an
acknowledgement says which attempt arrived. A packet is lost once a packet has arrived that was sent
three numbers later, or some time later. If no acknowledgement comes at all, the oldest packets are
sent again as probes.

A receiver acknowledges after MAX_ACK_DELAY_S. After ACK_EVERY packets, or when a gap shows, it
acknowledges at once, but not more often than every ACK_INTERVAL_S, because one acknowledgement
names everything that was received.

Sources: RFC 9002, section 6; draft-cheng-iccrg-delivery-rate-estimation, section 3.
"""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from groupcomm.link.congestion import MAX_ACK_DELAY_S, RateSample, RoundTrip
from groupcomm.link.in_vain import PacketsInVain
from groupcomm.link.queue import Queued
from groupcomm.stream.ranges import Range
from groupcomm.wire.link import MAX_ACK_RANGES, MOST_DELAY_US, Acknowledgement

REORDERED: Final = 3
"""A packet is lost once this many later ones have overtaken it (RFC 9002, section 6.1.1)."""

PROBES: Final = 2
"""The number of packets that are sent again when no acknowledgement comes."""

MOST_BACKOFF: Final = 2
"""The most doublings of the probe timeout. They are few: two packets now and then are no burden,
and a repaired link should be usable at once."""

ACK_INTERVAL_S: Final = 0.001
ACK_EVERY: Final = 8


class Sent:
    """One attempt to send a packet, and how much was delivered when it was sent."""

    __slots__ = ("at", "delivered", "delivered_at", "first_at", "limited", "queued", "size")

    def __init__(self, queued: Queued, size: int, at: float) -> None:
        self.queued = queued
        self.size = size
        self.at = at
        self.delivered = 0
        self.delivered_at = at
        self.first_at = at
        self.limited = False


class InFlight:
    """The sending half of one link: attempts that are neither acknowledged nor given up as lost.

    Attributes:
        bytes: the bytes in flight.
        delivered: bytes acknowledged in all.
        lost: packets given up as lost.
        in_vain: the packets that were sent in vain so far.
        deadline: the time at which `pop_lost` has something to return.
    """

    __slots__ = (
        "_backoff",
        "_delivered_at",
        "_first_at",
        "_highest",
        "_last_at",
        "_limited_until",
        "_next",
        "_sent",
        "_trip",
        "bytes",
        "deadline",
        "delivered",
        "in_vain",
        "lost",
    )

    def __init__(self, trip: RoundTrip) -> None:
        self._trip = trip
        self._sent: dict[int, Sent] = {}  # packets by number, rising
        self._next = 1
        self._highest = 0  # the highest acknowledged number
        self._backoff = 0
        self._last_at = 0.0
        self._first_at = self._delivered_at = 0.0
        self._limited_until = 0  # too little was sent until this many bytes are delivered
        self.bytes = 0
        self.delivered = 0
        self.lost = 0
        self.in_vain = PacketsInVain()
        self.deadline = inf

    @property
    def last(self) -> int:
        """Return the number of the last attempt; 0 before the first."""
        return self._next - 1

    def add(self, queued: Queued, size: int, now: float) -> int:
        """Record that a packet of `size` bytes is being sent; return the number of the attempt."""
        if not self._sent:
            self._first_at = self._delivered_at = now
        sent = Sent(queued, size, now)
        sent.delivered = self.delivered
        sent.delivered_at = self._delivered_at
        sent.first_at = self._first_at
        sent.limited = self._limited_until > 0
        number = self._next
        self._next += 1
        self._sent[number] = sent
        self.bytes += size
        self._last_at = now
        self._set_deadline()
        return number

    def nothing_to_send(self) -> None:
        """Note that the queue is empty: the packets now in flight do not measure the rate."""
        self._limited_until = max(self.delivered + self.bytes, 1)

    # ---- acknowledgements ----

    def acknowledged(
        self, ranges: list[Range], ack_delay_s: float, now: float
    ) -> tuple[list[Queued], RateSample | None]:
        """Remove the attempts that an acknowledgement names.

        Returns:
            The packets that it shows to have arrived, and a sample of the rate if there are any.
        """
        arrived: list[Queued] = []
        newest: Sent | None = None
        highest = ranges[-1][1]
        self.in_vain.note_acknowledged(ranges)
        for number in self._among(ranges):
            sent = self._sent.pop(number)
            self.in_vain.note_arrived(sent.queued)
            self.bytes -= sent.size
            self.delivered += sent.size
            arrived.append(sent.queued)
            if newest is None or sent.at >= newest.at:
                newest = sent
            if number == highest:
                self._trip.sample(now - sent.at, ack_delay_s, now)
        if newest is None:
            return arrived, None
        self._highest = max(self._highest, min(highest, self._next - 1))
        self._backoff = 0
        self._delivered_at = now
        self._first_at = newest.at
        if self.delivered > self._limited_until:
            self._limited_until = 0
        self._set_deadline()
        return arrived, self._sample(newest, now)

    def _among(self, ranges: list[Range]) -> list[int]:
        if not self._sent:
            return []
        lowest = next(iter(self._sent))
        return [
            number
            for first, last in ranges
            for number in range(max(first, lowest), min(last, self._next - 1) + 1)
            if number in self._sent
        ]

    def _sample(self, newest: Sent, now: float) -> RateSample:
        interval = max(newest.at - newest.first_at, now - newest.delivered_at)
        known = interval >= self._trip.least_s / 2 and interval > 0
        rate = (self.delivered - newest.delivered) / interval if known else 0.0
        return RateSample(rate, limited=newest.limited, delivered=newest.delivered)

    # ---- losses ----

    def pop_lost(self, now: float) -> list[Queued]:
        """Remove and return the lost packets, or otherwise those to send as probes."""
        lost = [number for number, sent in self._doubtful() if self._is_lost(number, sent, now)]
        if not lost and self._sent and now >= self._probe_at:
            self._backoff = min(self._backoff + 1, MOST_BACKOFF)
            self._last_at = now
            lost = self._to_probe()
        return self._remove(lost)

    def pop_requested(self, wanted: set[tuple[int, int]], now: float) -> list[Queued]:
        """Remove and return the packets of `wanted` that were sent a round trip ago.

        The other end has asked for these packets, (origin, number) each, so such an attempt is lost
        too. An attempt sent since then may still arrive.
        """
        before = now - self._trip.loss_delay_s
        return self._remove(
            number
            for number, sent in self._sent.items()
            if sent.at <= before and (sent.queued.origin, sent.queued.number) in wanted
        )

    def give_up(self) -> None:
        """Forget the packets of streams: they take another way."""
        for number in [number for number, sent in self._sent.items() if sent.queued.number]:
            self.bytes -= self._sent.pop(number).size
        self.in_vain.clear()
        self._set_deadline()

    def _remove(self, numbers: Iterable[int]) -> list[Queued]:
        gone: list[Queued] = []
        for number in list(numbers):
            sent = self._sent.pop(number)
            self.bytes -= sent.size
            gone.append(sent.queued)
            self.in_vain.note_given_up(number, sent.queued, sent.at)
        self.lost += len(gone)
        self._set_deadline()
        return gone

    def _to_probe(self) -> list[int]:
        """Return the oldest attempts, with up to PROBES packets of streams, which are resent."""
        numbers: list[int] = []
        probes = 0
        for number, sent in self._sent.items():
            numbers.append(number)
            probes += sent.queued.number > 0
            if probes == PROBES:
                break
        return numbers

    def _doubtful(self) -> Iterator[tuple[int, Sent]]:
        """Yield the attempts that were sent before one that has arrived."""
        for number, sent in self._sent.items():
            if number >= self._highest:
                return
            yield number, sent

    def _is_lost(self, number: int, sent: Sent, now: float) -> bool:
        return number + REORDERED <= self._highest or now >= sent.at + self._trip.loss_delay_s

    @property
    def _probe_at(self) -> float:
        return self._last_at + self._trip.probe_timeout_s * (1 << self._backoff)

    def _set_deadline(self) -> None:
        if not self._sent:
            self.deadline = inf
            return
        number, oldest = next(iter(self._sent.items()))
        self.deadline = self._probe_at
        if number < self._highest:
            due = oldest.at
            if number + REORDERED > self._highest:
                due += self._trip.loss_delay_s
            self.deadline = min(self.deadline, due)


class ReceivedNumbers:
    """The receiving half of one link: the received numbers, and the time to acknowledge them.

    Attributes:
        due: the time of the next acknowledgement; inf if there is nothing to acknowledge.
        duplicates: the number of packets that arrived more than once.
    """

    __slots__ = ("_acked_at", "_highest_at", "_ranges", "_unacked", "due", "duplicates")

    def __init__(self) -> None:
        self._ranges: list[Range] = []  # rising; all numbers below a full list have arrived
        self._highest_at = 0.0
        self._unacked = 0
        self._acked_at = -inf
        self.due = inf
        self.duplicates = 0

    @property
    def highest(self) -> int:
        """Return the highest number that has arrived; 0 before the first."""
        return self._ranges[-1][1] if self._ranges else 0

    def accept(self, number: int, now: float) -> bool:
        """Record a number; return False if it arrived before, or is too old to know."""
        ranges = self._ranges
        if ranges and number == ranges[-1][1] + 1:  # the usual case
            ranges[-1] = (ranges[-1][0], number)
            self._schedule(now, gap=len(ranges) > 1 and self._unacked == 0)
            self._highest_at = now
            return True
        if not self._insert(number):
            self.duplicates += 1
            self._schedule(now, gap=True)  # its sender does not know that the packet arrived
            return False
        if number == ranges[-1][1]:
            self._highest_at = now
        self._schedule(now, gap=number > 1)
        return True

    def _insert(self, number: int) -> bool:
        ranges = self._ranges
        if len(ranges) == MAX_ACK_RANGES and number < ranges[0][0]:
            return False
        place = len(ranges)
        while place and ranges[place - 1][0] > number:
            place -= 1
        if place and ranges[place - 1][1] >= number:
            return False
        first = last = number
        if place < len(ranges) and ranges[place][0] == number + 1:
            last = ranges.pop(place)[1]
        if place and ranges[place - 1][1] == number - 1:
            place -= 1
            first = ranges.pop(place)[0]
        ranges.insert(place, (first, last))
        del ranges[:-MAX_ACK_RANGES]
        return True

    def _schedule(self, now: float, *, gap: bool) -> None:
        self._unacked += 1
        soon = gap or self._unacked >= ACK_EVERY
        due = max(now, self._acked_at + ACK_INTERVAL_S) if soon else now + MAX_ACK_DELAY_S
        self.due = min(self.due, due)

    def acknowledge(self, me: int, now: float) -> Acknowledgement:
        """Return the acknowledgement of everything that has arrived."""
        self._unacked = 0
        self._acked_at = now
        self.due = inf
        delay_us = min(int((now - self._highest_at) * 1e6), MOST_DELAY_US)
        return Acknowledgement(sender=me, delay_us=delay_us, ranges=list(self._ranges))
