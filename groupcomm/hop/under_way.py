"""What was sent over a link and is not acknowledged: losses, and how fast packets arrive.

Pure. A packet is lost once one that was sent three later, or some time later, has arrived; if no
acknowledgement comes at all, the oldest are tried again. Each try has a number of its own, so that
an acknowledgement says which of them arrived.

Sources: RFC 9002, section 6; draft-cheng-iccrg-delivery-rate-estimation, section 3.
"""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from groupcomm.hop.bandwidth import Sample
from groupcomm.hop.queue import Queued
from groupcomm.hop.round_trip import RoundTrip
from groupcomm.stream.ranges import Range

REORDERED: Final = 3
"""A packet that so many later ones have overtaken is lost (section 6.1.1)."""

PROBES: Final = 2
"""Packets that are tried again when nothing is heard."""

MOST_BACKOFF: Final = 2
"""Doublings of the probe timeout. Few: two packets now and then burden nobody, and a link that is
mended is to be of use at once."""


class Sent:
    """One try of one packet, and what was delivered when it was sent."""

    __slots__ = ("at", "delivered", "delivered_at", "first_at", "limited", "queued", "size")

    def __init__(self, queued: Queued, size: int, at: float) -> None:
        self.queued = queued
        self.size = size
        self.at = at
        self.delivered = 0
        self.delivered_at = at
        self.first_at = at
        self.limited = False


class UnderWay:
    """The sending half's book.

    Attributes:
        bytes: not acknowledged and not taken for lost.
        delivered: acknowledged in all.
        lost: packets that were taken for lost.
        deadline: when `overdue` has something to give.
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
        "lost",
    )

    def __init__(self, trip: RoundTrip) -> None:
        self._trip = trip
        self._sent: dict[int, Sent] = {}  # by number, rising
        self._next = 1
        self._highest = 0  # acknowledged
        self._backoff = 0
        self._last_at = 0.0
        self._first_at = self._delivered_at = 0.0
        self._limited_until = 0  # so many bytes delivered: until then there was not enough to send
        self.bytes = 0
        self.delivered = 0
        self.lost = 0
        self.deadline = inf

    @property
    def last(self) -> int:
        """The number of the last try; 0 before the first."""
        return self._next - 1

    def add(self, queued: Queued, size: int, now: float) -> int:
        """A packet is being sent; the number of this try."""
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
        """More might be sent, and nothing waits: what is under way now measures no rate."""
        self._limited_until = max(self.delivered + self.bytes, 1)

    # ---- acknowledgements ----

    def acknowledged(
        self, ranges: list[Range], ack_delay_s: float, now: float
    ) -> tuple[list[Queued], Sample | None]:
        """Take what has arrived.

        Returns:
            What is known to be at the other end by it, and a sample if any of it is news.
        """
        arrived: list[Queued] = []
        newest: Sent | None = None
        highest = ranges[-1][1]
        for number in self._among(ranges):
            sent = self._sent.pop(number)
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

    def _sample(self, newest: Sent, now: float) -> Sample:
        interval = max(newest.at - newest.first_at, now - newest.delivered_at)
        known = interval >= self._trip.least_s / 2 and interval > 0
        rate = (self.delivered - newest.delivered) / interval if known else 0.0
        return Sample(rate, limited=newest.limited, delivered=newest.delivered)

    # ---- losses ----

    def overdue(self, now: float) -> list[Queued]:
        """What is lost by now, oldest first; or what to try again as nothing is heard at all."""
        lost = [number for number, sent in self._doubtful() if self._is_lost(number, sent, now)]
        if not lost and self._sent and now >= self._probe_at:
            self._backoff = min(self._backoff + 1, MOST_BACKOFF)
            self._last_at = now
            lost = self._to_probe()
        return self._take_out(lost)

    def _take_out(self, numbers: Iterable[int]) -> list[Queued]:
        gone: list[Queued] = []
        for number in list(numbers):
            sent = self._sent.pop(number)
            self.bytes -= sent.size
            gone.append(sent.queued)
        self.lost += len(gone)
        self._set_deadline()
        return gone

    def asked_for(self, wanted: set[tuple[int, int]], now: float) -> list[Queued]:
        """What of `wanted`, (origin, number) each, was sent a round trip ago: it is lost, too.

        The other end knows that it lacks them. What was sent since then may still come.
        """
        before = now - self._trip.loss_delay_s
        return self._take_out(
            number
            for number, sent in self._sent.items()
            if sent.at <= before and (sent.queued.origin, sent.queued.number) in wanted
        )

    def _to_probe(self) -> list[int]:
        """The oldest up to PROBES that are sent again; what is outside of the streams is not."""
        numbers: list[int] = []
        probes = 0
        for number, sent in self._sent.items():
            numbers.append(number)
            probes += sent.queued.number > 0
            if probes == PROBES:
                break
        return numbers

    def _doubtful(self) -> Iterator[tuple[int, Sent]]:
        """What was sent before something that has arrived."""
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
