"""Numbers: view counters and connection numbers are on one line, and none of them is used twice.

Physical time, in microseconds, is what the line goes by: a start begins at it, or at what its disk
has reserved if that is more. docs/membership.md says what becomes of it when a disk was lost,
restored or copied.
"""

from collections.abc import Iterable
from typing import Final

MOST_CONNECTIONS: Final = 2**48
"""Of one daemon in a view: one each microsecond for nine years. A higher number is a lie."""


def highest_used(connections: Iterable[int], first: int) -> int:
    """Return the highest number of a connection in a view, of those that can be true.

    Args:
        connections: the highest one of each daemon, as it says.
        first: which one would have that connected as the view began.
    """
    most = first + MOST_CONNECTIONS
    return max((number for number in connections if number <= most), default=0)
