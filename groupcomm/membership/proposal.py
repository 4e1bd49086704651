"""Proposals: from joins to the members, rings and links of a view.

All members compute the view from the same proposal and the same joins, so no daemon has to tell
the others the result.

Only pairs that hear each other count, as a path may work in one direction only. A ring is a set of
daemons of one site that all hear each other; links lead between rings. A view is a connected
component, so one pair that does not hear each other neither prevents a view nor splits it again and
again.

The counter of a view is above all that its members may have used, and each member's disk must have
reserved it (reservation.py). A daemon whose disk has not reserved it stands aside: the others form
the view without it, as if they did not hear it. All compute the same from the same joins.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import CoreConfig
from groupcomm.config.versions import SEGMENTS, shared
from groupcomm.config.view import DaemonId, Incarnation, View, check_size
from groupcomm.wire.membership import Join, Proposal, Seat

Mutual: TypeAlias = Sequence[frozenset[int]]
"""Per daemon, by index, the other daemons that it hears and that hear it."""


def mutual_pairs(heard: Mapping[int, frozenset[int]]) -> dict[int, frozenset[int]]:
    """Return per daemon the others that it hears and that hear it; daemons by any numbers."""
    return {
        daemon: frozenset(other for other in row if daemon in heard.get(other, ()))
        for daemon, row in heard.items()
    }


def component(mutual: Mapping[int, frozenset[int]], start: int) -> frozenset[int]:
    """Return all daemons that `start` reaches over pairs that hear each other."""
    found = {start}
    edge = [start]
    while edge:
        for other in mutual[edge.pop()]:
            if other not in found:
                found.add(other)
                edge.append(other)
    return frozenset(found)


def split_into_rings(sites: Sequence[int], mutual: Mutual) -> tuple[tuple[int, ...], ...]:
    """Share daemons among rings.

    Args:
        sites: for each daemon, by index, its site.
        mutual: for each daemon the others that it hears both ways.

    Returns:
        Rings, each of one site, rising and sorted by their lowest daemon; in each all hear each
        other. The lowest daemons choose first, so the same input gives the same rings everywhere.
    """
    rings: list[list[int]] = []
    by_site: dict[int, list[list[int]]] = {}
    for daemon, site in enumerate(sites):
        near = by_site.setdefault(site, [])
        for ring in near:
            if mutual[daemon].issuperset(ring):
                ring.append(daemon)
                break
        else:
            near.append([daemon])
            rings.append(near[-1])
    return tuple(map(tuple, rings))


def find_links(rings: Sequence[Sequence[int]], mutual: Mutual) -> tuple[tuple[int, int], ...]:
    """Return, for each two rings, the lowest pair that hears each other, if any; sorted."""
    ring_of = {daemon: place for place, ring in enumerate(rings) for daemon in ring}
    links: list[tuple[int, int]] = []
    for place, ring in enumerate(rings):
        found: dict[int, tuple[int, int]] = {}
        for one in ring:
            for far in mutual[one]:
                other = ring_of[far]
                if other > place:
                    found[other] = min(found.get(other, (one, far)), (one, far))
        links += [(min(pair), max(pair)) for pair in found.values()]
    return tuple(sorted(links))


def joins_all(view: View, links: Sequence[tuple[int, int]]) -> bool:
    """Return whether these links, of the view's own, still join all its rings."""
    detector: dict[int, set[int]] = {ring: set() for ring in range(len(view.rings))}
    for one, other in links:
        detector[view.ring_of[one]].add(view.ring_of[other])
        detector[view.ring_of[other]].add(view.ring_of[one])
    reached = component({ring: frozenset(near) for ring, near in detector.items()}, 0)
    return len(reached) == len(view.rings)


class CounterClaim(NamedTuple):
    """The view counters of a daemon, by its own report.

    Attributes:
        used: the highest counter that it may have used.
        mark: its disk has reserved all counters up to this one.
    """

    used: int
    mark: int


class Ready(NamedTuple):
    """The daemons that can be in one view with a daemon.

    Attributes:
        members: these, with the daemon itself; empty if its disk does not allow any view.
        needed: the mark that the disk of the daemon must reach for a view with all others.
    """

    members: frozenset[int]
    needed: int


def find_ready(
    mutual: Mapping[int, frozenset[int]], claims: Mapping[int, CounterClaim], me: int
) -> Ready:
    """Return the daemons that can be in one view with a daemon.

    The highest counter decides: a daemon that has used it cannot go back, and all others can follow
    once their disks have answered.

    Args:
        mutual: for each daemon the others that it hears both ways.
        claims: the counter claims of the same daemons.
        me: the number of this daemon.
    """
    left = frozenset(n for n, claim in claims.items() if claim.used < claim.mark)
    if me not in left:
        return Ready(frozenset(), claims[me].used + 1)
    needed = 0
    while True:
        among = mutual
        if len(left) < len(mutual):
            among = {number: mutual[number] & left for number in left}
        members = component(among, me)
        counter = max(claims[number].used for number in members) + 1
        needed = max(needed, counter)
        able = frozenset(number for number in members if counter <= claims[number].mark)
        if able == members:
            return Ready(members, needed)
        left = able if me in able else members - able


LEAD_US = 10_000_000
"""A physical clock, or a stamp, that is further ahead of the median is not followed."""


def propose(
    members: Mapping[int, tuple[Incarnation, int]], mutual: Mapping[int, frozenset[int]]
) -> Proposal:
    """Return the proposal with these members.

    Args:
        members: incarnation and attempt of each member, by daemon number.
        mutual: for each member the others that it hears both ways, by number.
    """
    numbers = sorted(members)
    places = {number: place for place, number in enumerate(numbers)}
    seats = []
    for number in numbers:
        bits = sum(1 << places[other] for other in mutual[number] if other in places)
        incarnation, attempt = members[number]
        seats.append(
            Seat(
                number=number,
                restarts=incarnation.restarts,
                random_id=incarnation.random_id,
                attempt=attempt,
                mutual=bits.to_bytes((len(numbers) + 7) // 8, "little"),
            )
        )
    return Proposal(tuple(seats))


def rank(proposal: Proposal) -> tuple[int, int, tuple[tuple[int, int, bytes], ...]]:
    """Return the rank of a proposal; the highest is preferred: most members, then most pairs."""
    pairs = sum(int.from_bytes(seat.mutual, "little").bit_count() for seat in proposal.seats)
    tie = tuple((seat.number, seat.attempt, seat.mutual) for seat in proposal.seats)
    return len(proposal.seats), pairs, tie


def median_reading(joins: Mapping[int, Join]) -> int:
    """Return the median of the physical clocks, the lower of two, in microseconds."""
    return sorted(join.reading for join in joins.values())[(len(joins) - 1) // 2]


def make_view(config: CoreConfig, proposal: Proposal, joins: Mapping[int, Join]) -> View:
    """Return the view that a proposal stands for.

    Args:
        config: the cluster's settings, equal at all members.
        proposal: the agreed proposal.
        joins: the joins of all members by number, each of the attempt that the proposal names.

    Raises:
        ConfigError: no view results, for instance as its rings are too many.
    """
    seats = sorted(proposal.seats, key=lambda seat: joins[seat.number].name)
    names = [joins[seat.number].name for seat in seats]
    incarnations = [Incarnation(seat.restarts, seat.random_id) for seat in seats]
    reading = median_reading(joins)
    stamps = [join.clock for join in joins.values() if join.clock <= reading + LEAD_US]
    counter = max(join.counter for join in joins.values()) + 1
    mutual = _by_place(proposal, [seat.number for seat in seats])
    sites = {name: index for index, site in enumerate(config.sites) for name in site}
    sites_of = [sites.get(name, -1) for name in names]
    rings = split_into_rings(sites_of, mutual)
    check_size([len(ring) for ring in rings], config.most_rings)
    links = find_links(rings, mutual)
    joined = [(names[one], names[other]) for one, other in links]
    versions = shared(join.versions for join in joins.values())
    in_segments = versions.features & SEGMENTS and len(rings) == 1
    return View(
        id=ViewId(counter, names[0], incarnations[0].random_id),
        daemons=tuple(map(DaemonId, names, incarnations)),
        rings=rings,
        links=links,
        delays_us=link_delays_us(config, joined),
        clock=max(reading, config.starts.clock, *stamps, 0),
        packet_limit=config.packet_limit,
        data_limit=max(config.packet_limit, config.segmented_limit if in_segments else 0),
        longest_delay_s=config.timing.longest_delay_s if len(set(sites_of)) > 1 else 0.0,
        versions=versions,
    )


def link_delays_us(config: CoreConfig, links: Sequence[tuple[str, str]]) -> tuple[int, ...]:
    """Return the delays of links between these daemons, in microseconds; 0 within a site."""
    if not config.link_delays_us:
        return ()
    known = {frozenset((one, other)): delay for one, other, delay in config.link_delays_us}
    far_us = int(config.timing.longest_delay_s * 1_000_000)
    sites = {name: index for index, site in enumerate(config.sites) for name in site}
    pairs = [(sites.get(one, -1), sites.get(other, -1)) for one, other in links]
    return tuple(
        0 if one == other else known.get(frozenset((one, other)), far_us) for one, other in pairs
    )


def _by_place(proposal: Proposal, numbers: list[int]) -> list[frozenset[int]]:
    """Return per member the others that it hears both ways, by places in `numbers`."""
    places = {number: place for place, number in enumerate(numbers)}
    order = [places[seat.number] for seat in proposal.seats]
    mutual: list[frozenset[int]] = [frozenset()] * len(numbers)
    for place, seat in zip(order, proposal.seats, strict=True):
        mutual[place] = frozenset(order[at] for at in ones(int.from_bytes(seat.mutual, "little")))
    return mutual


def ones(bits: int) -> Iterator[int]:
    """Yield the places of the ones of a number, rising: a row of a large view has few."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
