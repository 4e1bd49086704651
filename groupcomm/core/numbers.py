"""Numbers: view counters and connection numbers are on one line, and none of them is used twice.

Physical time, in microseconds, is what the line goes by: a start begins at it, or at what its disk
has reserved if that is more. docs/membership.md says what becomes of it when a disk was lost,
restored or copied.
"""

from collections.abc import Iterable
from typing import Final

from groupcomm.config.start import Start
from groupcomm.membership.proposal import LEAD_US

JUMP_US: Final = 2**32
"""Over an hour. Two starts that begin at the same number would have to jump equally far."""

MOST_CONNECTIONS: Final = 2**48
"""Of one daemon in a view: one each microsecond for nine years. A higher number is a lie."""


def first_number(start: Start, reading: int) -> int:
    """Return the number that a start begins behind: no start that it can know of has used higher.

    Where the disk's number is far ahead of the clock, time does not tell two starts apart that have
    read it: the disk may have been restored, or be a copy. Their random ids do.

    Args:
        start: with the number of its disk.
        reading: physical time.
    """
    if start.counter <= reading + LEAD_US:
        return max(start.counter, reading)
    return start.counter + start.incarnation.random_id % JUMP_US


def highest_used(connections: Iterable[int], first: int) -> int:
    """Return the highest number of a connection in a view, of those that can be true.

    Args:
        connections: the highest one of each daemon, as it says.
        first: which one would have that connected as the view began.
    """
    most = first + MOST_CONNECTIONS
    return max((number for number in connections if number <= most), default=0)
