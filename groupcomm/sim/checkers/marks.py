"""Marks: sets are compared by the exclusive or of their members' marks, 64 bits each.

The built-in hash would do, but for text it differs from run to run.
"""

from random import Random
from typing import Final

_MASK: Final = 2**64 - 1
_DRAW: Final = Random("marks").getrandbits


def new_mark() -> int:
    """A mark for something that has no other."""
    return _DRAW(64)


def mark_of(one: int, two: int, three: int) -> int:
    """The mark of three numbers, the same whenever it is asked for."""
    mixed = (
        one * 0x9E3779B97F4A7C15 + two * 0xC2B2AE3D27D4EB4F + three * 0x165667B19E3779F9
    ) & _MASK
    mixed = ((mixed ^ mixed >> 32) + 1) * 0xD6E8FEB86659FD93 & _MASK
    return mixed ^ mixed >> 32
