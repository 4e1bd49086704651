"""The window of one daemon: how much it may number from one visit of the token to the next.

It finds its own size. When it was used up and nothing of it had to be repeated, it grows by an
eighth. When more than a few packets of a burst had to be, a buffer was full somewhere: it shrinks
by an eighth, or to a half if that much was lost. Single losses are the network's; they only keep
it from growing.
"""

from collections import deque
from typing import Final

PART: Final = 8
FEW: Final = 64
"""Of so many packets one may be lost on the way."""

LEAST_BYTES: Final = 16 * 1024
SHOWS_AFTER: Final = 3
"""What is lost of a burst is repeated during the next but one visit, or the one after that."""


class Window:
    """One daemon's window.

    Attributes:
        bytes: its size now.
        repeated: bytes of this daemon's packets that were sent again, by whomever, since the token
            was here last.
    """

    __slots__ = ("_bursts", "_calm", "_most", "_used_up", "bytes", "repeated")

    def __init__(self, first_bytes: int, most_bytes: int) -> None:
        self.bytes = min(first_bytes, most_bytes)
        self.repeated = 0
        self._most = most_bytes
        self._bursts: deque[int] = deque(maxlen=SHOWS_AFTER)  # their bytes
        self._calm = 0  # visits until what is repeated is no longer of the time before it shrank
        self._used_up = False

    def leaves(self, burst: int) -> None:
        """The token leaves; so many bytes were numbered since it came."""
        self._bursts.append(burst)
        self._used_up = burst >= self.bytes

    def comes(self) -> None:
        """The token is back: what became of the bursts shows whether the window fits."""
        burst = max(self._bursts, default=0)
        if self._calm:
            self._calm -= 1
        elif self.repeated * FEW > burst:
            less = self.bytes // 2 if self.repeated * PART > burst else self.bytes // PART
            self.bytes = max(min(LEAST_BYTES, self.bytes), self.bytes - less)
            self._calm = SHOWS_AFTER
        elif self._used_up and not self.repeated:
            self.bytes = min(self._most, self.bytes + self.bytes // PART)
        self.repeated = 0
        self._used_up = False
