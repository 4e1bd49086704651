"""Flow control of one ring: how much a visit may number."""

from groupcomm.config.core import Windows
from groupcomm.ring.visit import held_by_ring
from groupcomm.stream.stream import Stream
from groupcomm.wire.token import Token


class Flow:
    """The windows, and how far the other rings are with this ring's stream.

    Attributes:
        blocked: a client here is slow: all senders are to wait for it.
    """

    __slots__ = ("_far", "_stream", "_told", "_windows", "blocked")

    def __init__(self, windows: Windows, stream: Stream, rings: int) -> None:
        self._windows = windows
        self._stream = stream
        self._told: list[int] = []
        self.blocked = False
        self._far = {ring: stream.held for ring in range(rings) if ring != stream.ring}

    def to_tell(self, held: list[int]) -> list[int]:
        """What the ring is told to be held here, of all streams.

        While a client is slow it is told nothing more than before, and once `stream_packets` are on
        their way beyond that nobody numbers any.
        """
        if not self.blocked or not self._told:
            self._told = held
        return self._told

    def hear_held(self, ring: int, number: int) -> None:
        """All daemons of another ring hold this ring's stream up to `number`."""
        self._far[ring] = max(self._far[ring], number)

    def _far_least(self) -> int:
        return min(self._far.values(), default=self._stream.known)

    @property
    def held_far(self) -> int:
        """All other rings hold this ring's stream up to this number."""
        return self._far_least()

    def may_number(self) -> bool:
        """Whether the other rings keep up, as far as is known without the token."""
        ahead = self._stream.known - self._far_least()
        return ahead < self._windows.stream_packets

    def budget(self, token: Token) -> int:
        """Bytes that may be numbered now; what the holder sent last time is off the burst."""
        behind = min(held_by_ring(token, self._stream.ring), self._far_least())
        if token.last - behind >= self._windows.stream_packets:
            return 0
        return min(self._windows.visit_bytes, self._windows.ring_bytes - token.burst)
