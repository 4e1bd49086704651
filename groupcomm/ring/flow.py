"""Flow control of one ring: how much a visit may number.

Each daemon has a window (window.py). All windows of a ring together end at `ring_bytes`; daemons
that want more share it alike: each may fill what the others leave, and never less than its share.

Other rings may lag behind by so much (far.py) of what they get whole, and by more of what they get
headers of only, as it stays in this ring.
"""

from bisect import bisect_right, insort
from typing import Final

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import View
from groupcomm.ring.far import FarRing
from groupcomm.ring.visit import held_by_ring
from groupcomm.ring.window import Window
from groupcomm.stream.stream import Stream
from groupcomm.wire.token import Row, Token

MOST_HEADERS: Final = 16_384
"""Packets that other rings may lack, headers included; receivers keep four times as many."""

MOST_BEHIND_HEADERS: Final = 32 * 1024 * 1024
"""Bytes of such packets, if they are full: they are kept until their headers are everywhere."""


class Flow:
    """The windows, and how far the other rings are with this ring's stream.

    Attributes:
        blocked: a client here is slow: all senders are to wait for it.
        window: what this daemon may number from one visit to the next.
    """

    __slots__ = (
        "_far",
        "_most_ahead",
        "_most_headers",
        "_staying",
        "_staying_before",
        "_stream",
        "_told",
        "_windows",
        "blocked",
        "window",
    )

    def __init__(self, config: CoreConfig, view: View, stream: Stream) -> None:
        windows, packet_limit = config.windows, view.packet_limit
        self._windows = windows
        # Large packets are fewer: what a slow receiver makes its daemon keep is bytes.
        self._most_ahead = min(windows.stream_packets, -(-windows.stream_bytes // packet_limit))
        headers = min(MOST_HEADERS, -(-MOST_BEHIND_HEADERS // packet_limit))
        self._most_headers = max(self._most_ahead, headers)
        self._staying: list[int] = []  # numbers of packets that stay in this ring, rising
        self._staying_before = 0  # how many more there were, all held by all other rings
        self._stream = stream
        self._told: list[int] = []
        self.blocked = False
        self.window = Window(windows.visit_bytes, windows.ring_bytes)
        # There, to the next notice, and back with it.
        round_trip_s = 2 * view.longest_delay_s + 2 * config.timing.horizon_interval_max_s
        self._far = {
            ring: FarRing(stream.held, packet_limit, self._most_ahead, round_trip_s)
            for ring in range(len(view.rings))
            if ring != stream.ring
        }

    def to_tell(self, held: list[int]) -> list[int]:
        """What the ring is told to be held here, of all streams.

        While a client is slow it is told nothing more than before, and nobody numbers any more once
        as many packets as may be are on their way beyond that.
        """
        if not self.blocked or not self._told:
            self._told = held
        return self._told

    def stays(self, number: int) -> None:
        """Of this packet of the ring others get the header only."""
        insort(self._staying, number)

    def hear_held(self, ring: int, number: int, now: float) -> None:
        """All daemons of another ring hold this ring's stream up to `number`."""
        self._far[ring].hear(number, self._whole(number), now)
        done = bisect_right(self._staying, self.held_far)
        if 2 * done > len(self._staying):  # so each is moved once at most, on average
            self._staying_before += done
            del self._staying[:done]

    def _whole(self, number: int) -> int:
        """How many packets up to this one other rings get whole."""
        return number - self._staying_before - bisect_right(self._staying, number)

    @property
    def held_far(self) -> int:
        """All other rings hold this ring's stream up to this number."""
        return min((far.held for far in self._far.values()), default=self._stream.known)

    def may_leave(self, last: int) -> bool:
        """Whether other rings keep up: more that they get whole may be numbered after `last`."""
        if not self._far:
            return True
        whole = self._whole(last)
        return all(whole - far.whole < far.limit for far in self._far.values())

    def may_number(self, last: int) -> bool:
        """Whether anything may be numbered after `last`, as far as other rings matter."""
        return all(last - far.held < self._most_headers for far in self._far.values())

    def _keeps_up(self, token: Token) -> bool:
        """Whether everybody, here and in other rings, holds enough for more to be numbered."""
        ahead = token.last - held_by_ring(token, self._stream.ring)
        return ahead < self._most_ahead and self.may_number(token.last)

    def budget(self, token: Token, row: Row) -> int:
        """Bytes that the holder, whose row this is, may number before the token goes round."""
        if not self._keeps_up(token):
            return 0
        most = self._windows.ring_bytes
        senders = 1 + sum([other.sent > 0 for other in token.rows if other is not row])
        share = max(most - (token.burst - row.sent), most // senders)
        return min(self.window.bytes, share) - row.sent

    def back(self, token: Token, row: Row) -> None:
        """The token is back at the daemon whose row this is: its last burst is over."""
        self.settled(token, row)
        self.window.comes()

    def settled(self, token: Token, row: Row) -> None:
        """What the holder has numbered is with all others."""
        token.burst -= row.sent
        row.sent = 0
