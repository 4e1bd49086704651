"""The narrow end of a way: what comes faster than it passes waits in a queue of limited size."""

from typing import Final

from groupcomm.sim.loop import SECOND, microseconds

UDP_HEADER_BYTES: Final = 28
"""What IPv4 and UDP put before each datagram; a link carries that, too."""


class Bottleneck:
    """A sender of so many bytes a second, shared by all who send through it.

    Args:
        bytes_per_s: above 0, headers of IP and UDP included.
        queue_s: a datagram that would wait longer than so many seconds is dropped, as at the tail
            of a router's queue.

    Attributes:
        dropped: datagrams that met a full queue.
    """

    __slots__ = ("_free_at", "_queue_us", "_us_per_byte", "dropped")

    def __init__(self, bytes_per_s: float, queue_s: float) -> None:
        assert bytes_per_s > 0, "a way that passes nothing is cut, not narrow"
        self._us_per_byte = SECOND / bytes_per_s
        self._queue_us = microseconds(queue_s)
        self._free_at = 0.0
        self.dropped = 0

    def passed_at(self, now: int, size: int) -> int | None:
        """When a datagram of so many bytes that comes now has passed; None if it is dropped."""
        begin = max(self._free_at, now)
        if begin - now > self._queue_us:
            self.dropped += 1
            return None
        self._free_at = begin + (size + UDP_HEADER_BYTES) * self._us_per_byte
        return int(self._free_at)
