"""Places in the order, the packets and bundles there, and marks of sets."""

from collections import deque
from random import Random
from typing import Final

import attrs

_MASK: Final = 2**64 - 1
_DRAW: Final = Random("marks").getrandbits


def new_mark() -> int:
    """Return a new, unique mark."""
    return _DRAW(64)


def mark_of(one: int, two: int, three: int) -> int:
    """Return the mark of three numbers, the same for each call."""
    mixed = (
        one * 0x9E3779B97F4A7C15 + two * 0xC2B2AE3D27D4EB4F + three * 0x165667B19E3779F9
    ) & _MASK
    mixed = ((mixed ^ mixed >> 32) + 1) * 0xD6E8FEB86659FD93 & _MASK
    return mixed ^ mixed >> 32


NOTHING: Final = -1

KEPT: Final = 50_000
"""The number of horizons that are remembered."""

Order = tuple[int, str, int]
"""The key by which ids of views are sorted."""

Place = tuple[int, int, int]
"""A place: (time, ring, bundle) of a Release."""

PacketBundle = tuple[int, int, int]
"""(ring, number, bundle): a place as packets name it."""

Bundle = tuple[int, int, int, int]
"""A place and the number of the packet, in case that two packets have one stamp."""

Local = tuple[int, int, int, int]
"""Within a view: a place and the message's index in its bundle."""

Position = tuple[Order, int, int, int, int]
"""A view's order, and the place and the index there."""

BEFORE: Final[Local] = (-1, -1, -1, -1)

NOWHERE: Final[Position] = ((-1, "", 0), *BEFORE)

LOWEST: Final[Order] = (-1, "", 0)
"""Below all views."""


@attrs.define(eq=False, repr=False)
class StreamRecord:
    """The packets of one ring in one view.

    Attributes:
        numbers: the numbers of its packets, rising.
        times: their stamps, rising.
        packets: stamp and author by number.
        horizon: the highest announced horizon.
        announced: the latest KEPT announced pairs (value, upto).
    """

    numbers: list[int] = attrs.field(factory=list)
    times: list[int] = attrs.field(factory=list)
    packets: dict[int, tuple[int, str]] = attrs.field(factory=dict)
    horizon: int = NOTHING
    announced: set[tuple[int, int]] = attrs.field(factory=set)
    _order: deque[tuple[int, int]] = attrs.field(factory=deque)

    def number(self, number: int, time: int, author: str) -> None:
        """Note a packet; number and time are above those of the last one."""
        self.numbers.append(number)
        self.times.append(time)
        self.packets[number] = (time, author)

    def announce(self, value: int, upto: int) -> None:
        """Note a promise."""
        self.horizon = max(self.horizon, value)
        self.announced.add((value, upto))
        self._order.append((value, upto))
        if len(self._order) > KEPT:
            self.announced.discard(self._order.popleft())


@attrs.define(eq=False, repr=False)
class PlaceRecord:
    """A bundle: its content, the daemons that have released it (one bit each), and its mark."""

    content: object
    members: int
    mark: int = attrs.field(factory=new_mark)


@attrs.define(eq=False, repr=False)
class SafeRecord:
    """A SAFE bundle.

    Attributes:
        members: the daemons that have released it, as bits.
        regular: whether one has in a regular part.
        ring: the ring whose daemons alone have to, as it was early; None if all have to.
    """

    members: int = 0
    regular: bool = False
    ring: int | None = None
