"""The distance to another ring follows what the way carries."""

from collections import deque

from groupcomm.ring.flow_control import (
    FACTOR,
    LEAST_AHEAD_BYTES,
    MEMORY_S,
    SPAN_S,
    RemoteRingWindow,
)

PACKET = 1000
MOST = 100_000
LEAST = LEAST_AHEAD_BYTES // PACKET
STEP_S = 0.001


class Way:
    """A sender that always has messages, over a path of this many packets a second."""

    def __init__(self, rate: float, delay_s: float) -> None:
        self.far = RemoteRingWindow(0, PACKET, MOST, 2 * delay_s)
        self.rate = rate
        self.delay_s = delay_s
        self.now = 0.0
        self.known = 0
        self._carried = 0.0
        self._arriving: deque[tuple[float, int]] = deque()

    def run(self, seconds: float, share: float = 1.0) -> None:
        """Let time pass; senders have this share of what the way carries, or all they may."""
        end = self.now + seconds
        while self.now < end:
            self.now += STEP_S
            most = self.far.held + self.far.limit
            wanted = self.known + int(self.rate * STEP_S * share) + 1 if share < 1 else most
            self.known = max(self.known, min(most, wanted))
            self._carried = min(self._carried + self.rate * STEP_S, self.known)
            self._arriving.append((self.now + 2 * self.delay_s, int(self._carried)))
            while self._arriving[0][0] <= self.now:
                held = self._arriving.popleft()[1]
                self.far.on_held(held, held, self.now)


def products(way: Way) -> float:
    """The limit in bandwidth-delay products."""
    return way.far.limit / (way.rate * 2 * way.delay_s)


def test_a_wide_and_long_way_is_filled_and_not_more_than_once_over() -> None:
    way = Way(20_000, 0.1)
    assert way.far.limit == LEAST
    way.run(8.0)
    assert 0.9 * FACTOR <= products(way) <= 1.5 * FACTOR


def test_a_narrow_way_has_the_least() -> None:
    way = Way(500, 0.1)
    way.run(8.0)
    assert way.far.limit == LEAST


def test_few_messages_measure_no_width() -> None:
    way = Way(20_000, 0.1)
    way.run(8.0, share=0.01)
    assert way.far.limit == LEAST


def test_a_way_that_becomes_narrow_is_noticed() -> None:
    way = Way(20_000, 0.1)
    way.run(8.0)
    way.rate = 1_000
    way.run(3 * MEMORY_S)
    assert way.far.limit <= 2 * LEAST


def test_nothing_exceeds_the_most() -> None:
    way = Way(2_000_000, 0.1)
    way.run(5.0)
    assert way.far.limit == MOST


def test_what_was_heard_before_changes_nothing() -> None:
    far = RemoteRingWindow(5, PACKET, MOST, 0.1)
    far.on_held(4, 4, 1.0)
    far.on_held(5, 5, 1.0)
    assert (far.held, far.limit) == (5, LEAST)


def test_a_rate_is_measured_over_the_shortest_time_that_is_long_enough() -> None:
    window = RemoteRingWindow(held=0, packet_limit=1000, most=10**9, round_trip_s=1.0)
    window.on_held(1, 1, 0.0)
    window.on_held(1001, 1001, SPAN_S)
    assert window.limit == 8000, "twice 1,000 packets in a quarter of a second"
    window.on_held(5001, 5001, 2 * SPAN_S)
    assert window.limit == 32_000, "twice 4,000 packets in a quarter of a second"
