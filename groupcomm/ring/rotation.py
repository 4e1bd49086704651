"""Rotations: how long the token is away, and how long it is if no packets are numbered.

Pure. A rotation takes some time even if nothing is numbered in it: each daemon has to wake up and
to pass the token on. All else is a queue, in which the packets of the ring wait for each other. So
a rotation may take `TARGET_S`, or twice, four, eight times as long where an empty one takes long:
if most of the time went for passing the token, little would be sent.

Now and then daemons that have much to send number nothing for a rotation. All do so at the same
hops, for two rotations, of which each sees one whole. Their bounds are powers of two of one time,
so that they are equal nearly always: the daemon with the higher bound would take the share of the
others.

Sources: Brakmo, Peterson, "TCP Vegas", IEEE JSAC 13(8), 1995: the round trip without a queue, and
a bound on the time above it. Cardwell et al., "BBR", CACM 60(2), 2017: that round trip is seen only
by sending less for a moment. Unlike both, the round trip is that of the token, which all share.
"""

from collections import deque
from typing import Final

TARGET_S: Final = 0.01
"""A rotation takes no longer for the sake of its packets: so long a message waits on average."""

EMPTY_TIMES: Final = 3
"""A rotation may take at least so many times as long as an empty one."""

REMEMBERED: Final = 8
"""The empty rotations of which the shortest counts: the latest ones."""

EMPTY_EVERY: Final = 32


class Rotation:
    """The rotations of one token, as one daemon sees them.

    Attributes:
        bound_s: the time of a rotation above which windows shrink.
    """

    __slots__ = ("_empty_s", "bound_s")

    def __init__(self) -> None:
        self.bound_s = TARGET_S
        self._empty_s: deque[float] = deque(maxlen=REMEMBERED)

    def note_empty(self, rotation_s: float) -> None:
        """Note that a rotation in which next to nothing was numbered took so long."""
        self._empty_s.append(rotation_s)
        least_s, bound_s = EMPTY_TIMES * min(self._empty_s), TARGET_S
        while bound_s < least_s:
            bound_s *= 2
        self.bound_s = bound_s


def is_empty(hop: int, members: int) -> bool:
    """Return whether daemons that have much to send number nothing at this hop of the token."""
    return members > 1 and hop // members % EMPTY_EVERY < 2
