"""Proposals: from joins to who shall be in a view, and from that to the view itself.

All members compute the view from the same proposal and the same joins, so nobody has to tell the
others what came out.
"""

from collections.abc import Mapping

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import CoreConfig
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.membership.reach import find_links, split_into_rings
from groupcomm.names import daemon_number
from groupcomm.wire.membership import Join, Proposal, Seat

LEAD_US = 10_000_000
"""A physical clock, or a stamp, that is further ahead of the median is not followed."""


def propose(
    members: Mapping[int, tuple[Incarnation, int]], mutual: Mapping[int, frozenset[int]]
) -> Proposal:
    """The proposal with these members.

    Args:
        members: by daemon number: incarnation and attempt.
        mutual: per member whom it hears both ways, by number.
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
    """Which of two proposals is to be preferred: more members, then more pairs that hear."""
    pairs = sum(int.from_bytes(seat.mutual, "little").bit_count() for seat in proposal.seats)
    tie = tuple((seat.number, seat.attempt, seat.mutual) for seat in proposal.seats)
    return len(proposal.seats), pairs, tie


def median_reading(joins: Mapping[int, Join]) -> int:
    """The median of the physical clocks, the lower of two, in microseconds."""
    return sorted(join.reading for join in joins.values())[(len(joins) - 1) // 2]


def make_view(config: CoreConfig, proposal: Proposal, joins: Mapping[int, Join]) -> View:
    """The view that a proposal stands for.

    Args:
        config: the cluster's settings, the same at all members.
        proposal: agreed by all.
        joins: of all members by number, each of the attempt that the proposal names.
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
    links = find_links(rings, mutual)
    return View(
        id=ViewId(counter, names[0], incarnations[0].random_id),
        daemons=tuple(map(DaemonId, names, incarnations)),
        rings=rings,
        links=links,
        delays_us=_delays(config, [(sites_of[one], sites_of[other]) for one, other in links]),
        clock=max(reading, config.starts.clock, *stamps, 0),
        packet_limit=config.packet_limit,
        longest_delay_s=config.timing.longest_delay_s if len(set(sites_of)) > 1 else 0.0,
    )


def _delays(config: CoreConfig, links: list[tuple[int, int]]) -> tuple[int, ...]:
    """Of links between these sites; rings of one site are next to each other."""
    if not config.link_delays_us:
        return ()
    known = {frozenset((one, other)): delay for one, other, delay in config.link_delays_us}
    far_us = int(config.timing.longest_delay_s * 1_000_000)
    return tuple(
        0 if one == other else known.get(frozenset((one, other)), far_us) for one, other in links
    )


def _by_place(proposal: Proposal, numbers: list[int]) -> list[frozenset[int]]:
    """Whom each hears both ways, by places in `numbers` instead of those in the proposal."""
    order = [numbers.index(seat.number) for seat in proposal.seats]
    mutual: list[frozenset[int]] = [frozenset()] * len(numbers)
    for place, seat in zip(order, proposal.seats, strict=True):
        bits = int.from_bytes(seat.mutual, "little")
        mutual[place] = frozenset(order[bit] for bit in range(len(order)) if bits >> bit & 1)
    return mutual


def names_are_true(joins: Mapping[int, Join]) -> bool:
    """Whether each name belongs to its number; else the daemon that says so is not to be used."""
    return all(daemon_number(join.name) == number for number, join in joins.items())
