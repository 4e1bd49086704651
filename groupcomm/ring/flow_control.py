"""Flow control of one ring: limits the packets that one handling of the token may number.

Pure. ``now`` is in seconds. Four limits apply:

- Each daemon has a window, which adapts its size.
- All windows of a ring together are limited by `ring_bytes`. Daemons that want more share it
  equally: each may use the part that the others leave, and never gets less than its share.
- The packets that some daemon of the ring does not hold yet have `ahead_bytes` at most, of which
  each daemon that numbers some has its part. A daemon whose program is slow reports no progress,
  so this is the queue before a slow program.
- The stream may be ahead of another ring by two bandwidth-delay products of the packets that this
  ring gets whole, and by more headers of packets that stay in their own ring.
"""

from bisect import bisect_right, insort
from collections import deque
from typing import Final

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import View
from groupcomm.stream.packet_size import PacketSize
from groupcomm.stream.stream import Stream
from groupcomm.wire.token import Row, Token

# ---- one daemon's window ----

PART: Final = 8

FEW: Final = 64
"""The reciprocal of the loss that the network may have; the window shrinks only for more."""

LEAST_WINDOW_BYTES: Final = 16 * 1024

LEAST_PACKETS: Final = 4
"""A window has room for so many packets that travel in segments: each visit of the token costs the
ring as much as one of them."""

SHOWS_AFTER: Final = 3
"""The losses of a burst are repaired when the token is next but one at this daemon, or the time
after that."""


class Window:
    """The limit of what one daemon may number from one arrival of the token to the next.

    If the window was used up and no packet had to be sent again, it grows by an eighth. If more
    than a few packets of a burst had to be sent again, a buffer was full somewhere, and it shrinks
    by an eighth, or to a half if an eighth of the burst was lost. Single losses are the
    network's; they only keep it from growing.

    Attributes:
        bytes: its present size.
        repeated: bytes of this daemon's packets that any daemon sent again since the token was
            here last.
    """

    __slots__ = ("_bursts", "_calm", "_least", "_most", "_used_up", "bytes", "repeated")

    def __init__(self, first_bytes: int, most_bytes: int) -> None:
        self.bytes = min(first_bytes, most_bytes)
        self.repeated = 0
        self._least, self._most = LEAST_WINDOW_BYTES, most_bytes
        self._bursts: deque[int] = deque(maxlen=SHOWS_AFTER)  # the bytes of recent bursts
        self._calm = 0  # rounds in which repairs still belong to the time before the window shrank
        self._used_up = False

    def token_left(self, burst: int) -> None:
        """Note that the token leaves after `burst` bytes were numbered."""
        self._bursts.append(burst)
        self._used_up = burst >= self.bytes

    def token_returned(self, segments: int = 1, packet_bytes: int = 0) -> None:
        """Adapt the size, as the returned token shows the losses of the last bursts.

        Args:
            segments: the segments of a full packet, of which one that is lost costs all.
            packet_bytes: the bytes of a full packet; counts if it has several segments.
        """
        if segments > 1:
            self._least = max(LEAST_WINDOW_BYTES, LEAST_PACKETS * packet_bytes)
        else:
            self._least = LEAST_WINDOW_BYTES
        burst = segments * max(self._bursts, default=0)
        if self._calm:
            self._calm -= 1
        elif self.repeated * FEW > burst:
            less = self.bytes // 2 if self.repeated * PART > burst else self.bytes // PART
            self.bytes = max(min(self._least, self.bytes), self.bytes - less)
            self._calm = SHOWS_AFTER
        elif self._used_up and not self.repeated:
            self.bytes = min(self._most, self.bytes + self.bytes // PART)
        self.repeated = 0


# ---- limits of the lag of other rings ----

LEAST_AHEAD_BYTES: Final = 1_000_000
"""A stream may always be this far ahead: enough for 10 Mbit/s over any distance on earth."""

FACTOR: Final = 2

REPORT_PART: Final = 4
"""A ring reports its progress after this part of the packets that it may always lag behind."""

SPAN_S: Final = 0.25
"""A rate is measured over at least this time, which is longer than the interval of notices."""

MEMORY_S: Final = 10.0
"""The time for which the best rate counts."""


def least_ahead(packet_limit: int) -> int:
    """Return the number of packets, each full with `packet_limit` bytes, that may always be
    ahead."""
    return -(-LEAST_AHEAD_BYTES // packet_limit)


def report_after(packet_limit: int) -> int:
    """Return the number of packets of another's stream that a ring receives between two reports."""
    return max(1, least_ahead(packet_limit) // REPORT_PART)


class RemoteRingWindow:
    """The limit of how far the stream may be ahead of another ring, as one daemon knows it.

    The delay in the bandwidth-delay product is the configured one, because a measured delay would
    include the queue before a narrow link. The bandwidth is the rate at which the other ring was
    heard to receive the packets of the stream, without those of which it gets only headers. While
    senders fill the limit, that is one limit in each round trip. So the limit doubles until the
    path is full, and then stays at twice what the path carries; more would only wait.

    Attributes:
        held: all daemons of the other ring hold the stream up to this number.
        whole: the number of these packets that the other ring gets whole.
        limit: the number of further packets that may be numbered, of those that it gets whole.
    """

    __slots__ = ("_heard", "_least", "_most", "_rates", "_round_trip_s", "held", "limit", "whole")

    def __init__(self, held: int, packet_limit: int, most: int, round_trip_s: float) -> None:
        """Start.

        Args:
            held: the number up to which the other ring holds the stream.
            packet_limit: the bytes of a full packet.
            most: the most packets; the limit never exceeds this.
            round_trip_s: the time from numbering a packet to hearing that the other ring holds it.
        """
        self.held = self.whole = held
        self._most = most
        self._least = min(most, least_ahead(packet_limit))
        self._round_trip_s = round_trip_s
        self.limit = self._least
        self._heard: deque[tuple[float, int]] = deque()  # (when, whole), of the last span
        self._rates: deque[tuple[float, float]] = deque()  # (when, packets a second), falling

    def on_held(self, held: int, whole: int, now: float) -> None:
        """Note that the other ring holds packets up to `held`, `whole` of them not as headers."""
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


# ---- the ring ----

MOST_HEADERS: Final = 16_384
"""Packets that other rings may lack, headers included; receivers keep four times as many."""

MOST_BEHIND_HEADERS: Final = 32 * 1024 * 1024
"""Bytes of such packets, if all are full: they are kept until their headers are everywhere."""


class FlowControl:
    """The windows of one daemon, and the progress of the other rings in this ring's stream.

    Attributes:
        blocked: a client of this daemon is slow, and all senders must wait for it.
        reported: the numbers that this daemon has reported last; see `to_report`.
        window: the bytes that this daemon may number from one arrival of the token to the next.
    """

    __slots__ = (
        "_ahead",
        "_ahead_bytes",
        "_forgotten",
        "_local_only",
        "_local_only_before",
        "_most_headers",
        "_remote",
        "_size",
        "_stream",
        "_windows",
        "blocked",
        "reported",
        "window",
    )

    def __init__(self, config: CoreConfig, view: View, stream: Stream, size: PacketSize) -> None:
        windows, packet_limit = config.windows, view.packet_limit
        self._windows = windows
        self._size = size
        size.begin_view(view.data_limit)
        headers = min(MOST_HEADERS, -(-MOST_BEHIND_HEADERS // packet_limit))
        most_ahead = min(windows.stream_packets, -(-windows.stream_bytes // packet_limit))
        self._most_headers = max(most_ahead, headers)
        self._local_only: list[int] = []  # numbers of packets that stay in this ring, rising
        self._local_only_before = 0  # number of earlier ones, all held by all other rings
        self._stream, self._forgotten = stream, stream.forgotten
        self._ahead = deque[tuple[int, int]]()  # own packets that some daemon of the ring may lack
        self._ahead_bytes = 0
        self.reported: list[int] = []
        self.blocked = False
        self.window = Window(windows.visit_bytes, windows.ring_bytes)
        # The way to the other ring, the time until its next notice, and the way back.
        round_trip_s = 2 * view.longest_delay_s + 2 * config.timing.horizon_interval_max_s
        self._remote = {
            ring: RemoteRingWindow(stream.held, packet_limit, most_ahead, round_trip_s)
            for ring in range(len(view.rings))
            if ring != stream.ring
        }

    def to_report(self, held: list[int]) -> list[int]:
        """Return the numbers up to which this daemon tells the ring that it holds all streams.

        While a client is slow the daemon reports no progress to the ring, and all daemons stop
        numbering once the allowed number of packets is ahead of it.
        """
        if not self.blocked or not self.reported:
            self.reported = held
        return self.reported

    # ---- other rings ----

    def note_local_only(self, number: int) -> None:
        """Note that other rings get only the header of this packet of the ring."""
        insort(self._local_only, number)

    def on_held_remotely(self, ring: int, number: int, now: float) -> None:
        """Note that all daemons of another ring hold this ring's stream up to `number`."""
        self._remote[ring].on_held(number, self._whole(number), now)
        self._drop_local_only()

    def _drop_local_only(self) -> None:
        done = bisect_right(self._local_only, self.held_remotely)
        if 2 * done > len(self._local_only):  # so each number is moved once at most, on average
            self._local_only_before += done
            del self._local_only[:done]

    def on_forgotten(self, now: float) -> bool:
        """Note that all rings hold what is forgotten; return whether a report did not say so.

        It may have been lost, and none follows once all packets are forgotten.
        """
        forgotten = self._stream.forgotten
        if forgotten == self._forgotten:
            return False
        self._forgotten = forgotten
        lagging = [window for window in self._remote.values() if window.held < forgotten]
        for window in lagging:
            window.on_held(forgotten, self._whole(forgotten), now)
        if lagging:
            self._drop_local_only()
        return bool(lagging)

    def _whole(self, number: int) -> int:
        """Return the number of packets up to this one that other rings get whole."""
        return number - self._local_only_before - bisect_right(self._local_only, number)

    @property
    def held_remotely(self) -> int:
        """Return the number up to which all other rings hold this ring's stream."""
        return min((ring.held for ring in self._remote.values()), default=self._stream.known)

    def may_leave_ring(self, last: int) -> bool:
        """Return whether packets that other rings get whole may be numbered after `last`."""
        if not self._remote:
            return True
        whole = self._whole(last)
        return all(whole - ring.whole < ring.limit for ring in self._remote.values())

    def may_number(self, last: int) -> bool:
        """Return whether other rings allow any packet to be numbered after `last`."""
        return all(last - ring.held < self._most_headers for ring in self._remote.values())

    # ---- the token ----

    def budget(self, token: Token, row: Row) -> int:
        """Return the number of bytes that the holder, whose row this is, may number in this
        round; 0 or less if none."""
        windows, held = self._windows, token.held_by_all(self._stream.ring)
        # A slow receiver makes its daemon keep the bytes of packets, so fewer large ones are
        # allowed.
        packets = min(windows.stream_packets, -(-windows.stream_bytes // self._size.usual))
        if token.last - held >= packets or (self._remote and not self.may_number(token.last)):
            return 0
        most = windows.ring_bytes
        senders = 1
        for other in token.rows:
            senders += other is not row and other.sent > 0
        share = max(most - (token.burst - row.sent), most // senders)
        return min(min(self.window.bytes, share) - row.sent, self._room(held, senders))

    def _room(self, held: int, senders: int) -> int:
        """Return the bytes that may be numbered now, as the ring holds packets up to `held`.

        What is ahead of the slowest receiver waits: at 100 MB/s a megabyte takes 10 ms.
        """
        ahead = self._ahead
        while ahead and ahead[0][0] <= held:
            self._ahead_bytes -= ahead.popleft()[1]
        return max(self._windows.ahead_bytes // senders, self._size.usual) - self._ahead_bytes

    def note_numbered(self, number: int, size: int) -> None:
        """Note that this daemon has numbered a packet of `size` bytes."""
        self._ahead.append((number, size))
        self._ahead_bytes += size

    def token_returned(self, token: Token, row: Row, now: float) -> None:
        """Note that the token is back at the daemon whose row this is: its last burst is over."""
        window, size = self.window, self._size
        if size.adapts:
            size.token_returned(row.sent, window.repeated, now)
        self.settle(token, row)
        window.token_returned(size.segments, size.usual)

    def settle(self, token: Token, row: Row) -> None:
        """Remove the packets that the holder has numbered from the round: all others have them."""
        token.burst -= row.sent
        row.sent = 0
