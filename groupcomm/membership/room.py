"""Room: which daemons come into one view if those that hear each other have more rings than fit.

Pure. Vectors in packets have an entry for each ring, so a view has `CoreConfig.most_rings` rings at
most. A configuration with as many sites is allowed, and one cut inside a site makes one ring more.
Then the smallest rings are left out, and have views of their own, as if the others did not hear
them. All daemons compute the same from the same joins.

Both sides still hear each other, and must not look for a view together again and again
(`Separated`).
"""

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.config.versions import CROWDS, Versions
from groupcomm.config.view import PLAIN_RINGS
from groupcomm.membership.proposal import component, split_into_rings
from groupcomm.wire.membership import Beacon, Join

Among: TypeAlias = Mapping[int, frozenset[int]]
"""For each daemon, by number, the others that it hears both ways."""


class Room:
    """The limit on rings, and the sites from which rings follow."""

    __slots__ = ("_most", "_sites")

    def __init__(self, config: CoreConfig) -> None:
        self._most = config.most_rings
        self._sites = {name: index for index, site in enumerate(config.sites) for name in site}

    def groups(
        self,
        members: Collection[int],
        mutual: Among,
        names: Mapping[int, str],
        versions: Mapping[int, Versions],
    ) -> list[frozenset[int]]:
        """Share daemons among views, none of which has more rings than fit.

        The first group begins with the largest ring, the one with the lowest first name among
        equals, and takes the largest one that hears one of its own, until it is full. The others
        are shared in the same way.

        Args:
            members: daemons that are connected by pairs that hear each other, by number.
            mutual: for each of them the others that it hears both ways.
            names: their names.
            versions: the versions of the protocol that they speak.
        """
        rings = self._rings(sorted(members, key=lambda number: names[number]), mutual, names)
        most = self._most
        if not all(versions[number].features & CROWDS for number in members):
            most = min(most, PLAIN_RINGS)
        if len(rings) <= most:
            return [frozenset(members)]
        rings.sort(key=lambda ring: -len(ring))  # stable: the lowest name first among equals
        first = frozenset(rings[0])
        for _ in range(most - 1):
            heard = frozenset().union(*(mutual[number] for number in first))
            first |= frozenset(next(r for r in rings if heard & set(r) and not first & set(r)))
        found, left = [first], frozenset(members) - first
        among = {number: mutual[number] & left for number in left}
        while left:
            part = component(among, min(left))
            found += self.groups(part, among, names, versions)
            left -= part
        return found

    def _rings(
        self, ordered: list[int], mutual: Among, names: Mapping[int, str]
    ) -> list[list[int]]:
        places = {number: place for place, number in enumerate(ordered)}
        by_place = [frozenset(places[n] for n in mutual[m] if n in places) for m in ordered]
        sites = [self._sites.get(names[number], -1) for number in ordered]
        return [[ordered[p] for p in ring] for ring in split_into_rings(sites, by_place)]


PLENTY: Final = Room(CoreConfig())
"""The limit without sites."""


@attrs.frozen(kw_only=True)
class Separated:
    """A daemon that was heard and came into another view, as there was no room.

    Attributes:
        attempt: the attempt of its join.
        heard: the daemons that it heard, by number.
        is_first: whether its view was filled before that of this daemon.
    """

    attempt: int
    heard: frozenset[int]
    is_first: bool

    def may_fit(self, said: Join | Beacon, members: Collection[int]) -> bool:
        """Return whether a view with it may have changed, so that one should be sought again.

        Its view was filled first, and it looks for the next one, which may have room; or it hears
        a member that it did not hear, and so may fit into a ring.

        Args:
            said: the message that has just come from it.
            members: the members of the present view, by number.
        """
        if self.is_first and isinstance(said, Join) and said.attempt > self.attempt:
            return True
        return any(number in members and number not in self.heard for number, _ in said.heard)


def separate(
    groups: list[frozenset[int]], joins: Mapping[int, Join], me: int
) -> tuple[frozenset[int], dict[int, Separated]]:
    """Return the members of the view of one daemon, and the daemons of the other views.

    Args:
        groups: all views, as `Room.groups` returns them.
        joins: the joins of all members.
        me: the number of this daemon.
    """
    own = next(place for place, group in enumerate(groups) if me in group)
    others = {
        number: Separated(
            attempt=joins[number].attempt,
            heard=frozenset(other for other, _ in joins[number].heard),
            is_first=place < own,
        )
        for place, group in enumerate(groups)
        for number in group
        if place != own
    }
    return groups[own], others
