"""How far a ring's stream may be ahead of what another ring holds: two bandwidth-delay products.

Pure. ``now`` is in seconds. The delay is the configured one, as what waits before a narrow link
would count with a measured one. The bandwidth is how fast the other ring was heard to get hold of
the stream's packets, but for those of which it gets headers only. While senders fill the limit,
that is a limit in each round trip; so it doubles until the way is full, and then stays at twice
what the way carries. More would only wait on it.
"""

from collections import deque
from typing import Final

LEAST_BYTES: Final = 1_000_000
"""May always be ahead: enough for 10 Mbit/s over any distance on earth."""

FACTOR: Final = 2
TELL_PART: Final = 4
"""A ring tells others that it holds so large a part of what may always be ahead of it."""

SPAN_S: Final = 0.25
"""Over which a rate is measured, at least; longer than notices are apart."""

MEMORY_S: Final = 10.0
"""For so long the best rate counts."""


def least_ahead(packet_limit: int) -> int:
    """How many packets, of so many bytes if they are full, may always be ahead."""
    return -(-LEAST_BYTES // packet_limit)


def tell_after(packet_limit: int) -> int:
    """So many packets more than a ring has told to hold of another's stream are to be told."""
    return max(1, least_ahead(packet_limit) // TELL_PART)


class FarRing:
    """What one daemon knows of how another ring keeps up.

    Attributes:
        held: all its daemons hold the stream up to this number.
        whole: so many packets up to there are for it whole.
        limit: packets that are for it whole and may be numbered beyond that.
    """

    __slots__ = ("_heard", "_least", "_most", "_rates", "_round_trip_s", "held", "limit", "whole")

    def __init__(self, held: int, packet_limit: int, most: int, round_trip_s: float) -> None:
        """Begin.

        Args:
            held: up to where it holds the stream.
            packet_limit: bytes of a full packet.
            most: packets that are the limit in any case.
            round_trip_s: to the other ring, until it is heard that it holds something.
        """
        self.held = self.whole = held
        self._most = most
        self._least = min(most, least_ahead(packet_limit))
        self._round_trip_s = round_trip_s
        self.limit = self._least
        self._heard: deque[tuple[float, int]] = deque()  # (when, whole), of the last span
        self._rates: deque[tuple[float, float]] = deque()  # (when, packets a second), falling

    def hear(self, held: int, whole: int, now: float) -> None:
        """The other ring holds so much; `whole` of that are not headers only."""
        if held <= self.held:
            return
        self.held, self.whole = held, whole
        heard, rates = self._heard, self._rates
        heard.append((now, whole))
        while len(heard) > 2 and heard[1][0] <= now - SPAN_S:
            heard.popleft()
        first_at, first = heard[0]
        if now - first_at < SPAN_S:
            return
        rate = (whole - first) / (now - first_at)
        while rates and rates[-1][1] <= rate:
            rates.pop()
        rates.append((now, rate))
        while rates[0][0] < now - MEMORY_S:
            rates.popleft()
        product = rates[0][1] * self._round_trip_s
        self.limit = max(self._least, min(int(FACTOR * product), self._most))
