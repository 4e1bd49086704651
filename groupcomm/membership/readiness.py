"""Readiness: which daemons can be in one view, as far as their disks have come.

The counter of a view is above all that its members may have used, and each member's disk must have
reserved it (reservation.py). A daemon whose disk has not stands aside: the others make the view
without it, as if they did not hear it. All of them find the same from the same joins.
"""

from collections.abc import Mapping
from typing import NamedTuple

from groupcomm.membership.reach import component


class CounterClaim(NamedTuple):
    """What a daemon says of its view counters.

    Attributes:
        used: the highest one that it may have used.
        mark: its disk has reserved all up to this one.
    """

    used: int
    mark: int


class Ready(NamedTuple):
    """Who can be in one view with a daemon.

    Attributes:
        members: these, with the daemon itself; empty if its disk does not allow any view.
        needed: the mark that the disk of the daemon must reach for a view with all others.
    """

    members: frozenset[int]
    needed: int


def find_ready(
    mutual: Mapping[int, frozenset[int]], claims: Mapping[int, CounterClaim], me: int
) -> Ready:
    """Return who can be in one view with a daemon.

    The highest counter decides: who has used it cannot go back, and all others can follow once
    their disks have answered.

    Args:
        mutual: per daemon whom it hears both ways.
        claims: of the same daemons.
        me: the daemon.
    """
    left = frozenset(n for n, claim in claims.items() if claim.used < claim.mark)
    if me not in left:
        return Ready(frozenset(), claims[me].used + 1)
    needed = 0
    while True:
        among = {number: mutual[number] & left for number in left}
        members = component(among, me)
        counter = max(claims[number].used for number in members) + 1
        needed = max(needed, counter)
        able = frozenset(number for number in members if counter <= claims[number].mark)
        if able == members:
            return Ready(members, needed)
        left = able if me in able else members - able
