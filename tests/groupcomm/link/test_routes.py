"""Routes: whatever the links, each ring has each packet exactly once, and knows whom to ask."""

from collections import Counter, deque
from collections.abc import Sequence
from itertools import combinations, pairwise

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.view import RING, DaemonId, Incarnation, View
from groupcomm.link.routes import Routes
from groupcomm.membership.proposal import joins_all

Link = tuple[int, int]


def make_view(sizes: list[int], links: set[Link]) -> View:
    """Rings of these sizes; links are pairs of daemons."""
    rings: list[tuple[int, ...]] = []
    first = 0
    for size in sizes:
        rings.append(tuple(range(first, first + size)))
        first += size
    daemons = tuple(DaemonId(f"d{index:03}", Incarnation(1, index)) for index in range(first))
    return View(
        id=ViewId(1, "d000", 0), daemons=daemons, rings=tuple(rings), links=tuple(sorted(links))
    )


@st.composite
def views(draw: st.DrawFn) -> View:
    """Connected, with at most one link for two rings, which any of their daemons may serve."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=7))
    rings = range(len(sizes))
    pairs = {(min(pair), max(pair)) for pair in pairwise(draw(st.permutations(rings)))}
    pairs |= draw(st.sets(st.sampled_from([*combinations(rings, 2)]))) if len(sizes) > 1 else set()
    starts = [sum(sizes[:ring]) for ring in rings]
    ends = [(start, start + size - 1) for start, size in zip(starts, sizes, strict=True)]
    return make_view(
        sizes,
        {(draw(st.integers(*ends[one])), draw(st.integers(*ends[two]))) for one, two in pairs},
    )


def spread(
    view: View, origin: int, sender: int, links: Sequence[Link] | None = None
) -> tuple[Counter[int], dict[int, int], int]:
    """Send one packet from a daemon of ring `origin`, as the gateways would.

    Returns:
        The copies at each daemon; the first sender to each; the most links on a way.
    """
    routes = [Routes(view, me, links) for me in range(len(view.daemons))]
    came: Counter[int] = Counter()
    source: dict[int, int] = {}
    most = 0
    queue = deque([(sender, RING, 0), *((sender, far, 0) for far in routes[sender].onward[origin])])
    while queue:
        near, target, crossed = queue.popleft()
        ring = view.rings[view.ring_of[near]]
        targets = [one for one in ring if one != near] if target == RING else [target]
        crossed += target != RING
        for daemon in targets:
            came[daemon] += 1
            most = max(most, crossed)
            if came[daemon] == 1 and daemon != sender:
                source[daemon] = near
                queue += [(daemon, onward, crossed) for onward in routes[daemon].onward[origin]]
    return came, source, most


def check_everywhere_once(view: View, links: Sequence[Link] | None = None) -> None:
    far = Routes(view, 0, links).depth
    crossed = set()
    for origin, ring in enumerate(view.rings):
        for sender in ring:
            came, source, most = spread(view, origin, sender, links)
            assert came == Counter(d for d in range(len(view.daemons)) if d != sender)
            crossed.add(most)
            for daemon, near in source.items():
                upstream = Routes(view, daemon, links).upstream[origin]
                same_ring = view.ring_of[near] == view.ring_of[daemon]
                assert upstream == (None if same_ring else near), "it knows whom to ask"
    assert max(crossed) == far
    assert all(Routes(view, me, links).depth == far for me in range(len(view.daemons)))


@given(views())
def test_every_daemon_has_every_packet_exactly_once(view: View) -> None:
    check_everywhere_once(view)


@given(views())
def test_the_packets_of_a_ring_enter_each_other_ring_at_one_daemon(view: View) -> None:
    entered = [Routes(view, me).entered for me in range(len(view.daemons))]
    for ring, members in enumerate(view.rings):
        for origin in range(len(view.rings)):
            gates = [daemon for daemon in members if origin in entered[daemon]]
            assert len(gates) == (origin != ring)


@given(views())
def test_a_notice_to_one_ring_takes_the_only_way_there(view: View) -> None:
    """Each daemon that has it sends it where it leads to the ring, and to nobody else."""
    routes = [Routes(view, me) for me in range(len(view.daemons))]
    for origin, members in enumerate(view.rings):
        for target in range(len(view.rings)):
            heard = set(members)
            for daemon in sorted(heard) * (target != origin):
                _walk(view, routes, origin, 1 << target, daemon, heard)
            assert {*members, *view.rings[target]} <= heard
            ends = {view.ring_of[daemon] for daemon in heard}
            way = target
            while way != origin:
                ends.discard(way)
                ups = [routes[me].upstream[origin] for me in view.rings[way]]
                way = view.ring_of[next(up for up in ups if up is not None)]
            assert ends <= {origin}, "no ring beside the way"


def _walk(
    view: View, routes: list[Routes], origin: int, bits: int, daemon: int, heard: set[int]
) -> None:
    """Send a notice on from a daemon, as gateways would; each daemon hears it once."""
    found = routes[daemon]
    for target, reached in zip(found.onward[origin], found.reached[origin], strict=True):
        if reached & bits:
            ring = view.rings[view.ring_of[daemon]]
            new = [one for one in (ring if target == RING else [target]) if one not in heard]
            assert new or target == RING
            heard.update(new)
            for one in new:
                _walk(view, routes, origin, bits, one, heard)


@given(views())
def test_the_shared_tree_joins_all_rings_and_is_the_same_everywhere(view: View) -> None:
    shared = [Routes(view, me).shared for me in range(len(view.daemons))]
    used: set[Link] = set()
    for me, routes in enumerate(shared):
        for onward in routes.onward:
            used |= {(min(me, far), max(me, far)) for far in onward if far != RING}
        assert routes.depth <= 2 * Routes(view, me).depth
    assert len(used) == len(view.rings) - 1
    check_everywhere_once(view, sorted(used))


@given(views())
def test_packets_take_the_shortest_way(view: View) -> None:
    """Counted against the rings' distances, found by adding links until nothing changes."""
    count = len(view.rings)
    far = [[0 if one == two else count for two in range(count)] for one in range(count)]
    for one, two in view.links:
        a, b = view.ring_of[one], view.ring_of[two]
        far[a][b] = far[b][a] = 1
    for via in range(count):
        for a in range(count):
            far[a] = [min(far[a][b], far[a][via] + far[via][b]) for b in range(count)]
    for origin in range(count):
        way = {origin: 0}
        depths = {origin: 0}
        for me in range(len(view.daemons)):
            if origin in Routes(view, me).entered:
                way[view.ring_of[me]] = me
        for ring in way:
            depth, at = 0, ring
            while at != origin:
                upstream = Routes(view, way[at]).upstream[origin]
                assert upstream is not None
                at = view.ring_of[upstream]
                depth += 1
            depths[ring] = depth
        assert [depths[ring] for ring in range(count)] == far[origin]


COUNT = 9
SHAPES: dict[str, set[Link]] = {
    "chain": set(pairwise(range(COUNT))),
    "star": {(0, far) for far in range(1, COUNT)},
    "star from the last": {(near, COUNT - 1) for near in range(COUNT - 1)},
    "ring": {*pairwise(range(COUNT)), (0, COUNT - 1)},
    "mesh": set(combinations(range(COUNT), 2)),
    "two meshes and a bridge": {
        *combinations(range(4), 2),
        *combinations(range(4, COUNT), 2),
        (3, 4),
    },
}


@pytest.mark.parametrize(("shape", "far"), [*zip(SHAPES, (8, 2, 2, 4, 1, 3), strict=True)])
def test_shapes(shape: str, far: int) -> None:
    view = make_view([1] * COUNT, SHAPES[shape])
    check_everywhere_once(view)
    assert Routes(view, 0).depth == far


DELAYS = {(0, 1): 100_000, (0, 2): 20_000, (1, 2): 30_000, (2, 3): 1, (1, 3): 1}


def test_packets_take_the_way_with_the_least_delay() -> None:
    view = attrs.evolve(make_view([1] * 4, set(DELAYS)), delays_us=tuple(DELAYS.values()))
    upstream = [Routes(view, me).upstream for me in range(4)]
    assert [upstream[me][0] for me in range(4)] == [None, 3, 0, 2], "0 - 2 - 3 - 1"
    assert [upstream[me][1] for me in range(4)] == [2, None, 3, 1]
    check_everywhere_once(view)


def test_of_equal_ways_the_one_over_fewer_links_is_taken() -> None:
    links = {(0, 1): 50, (0, 2): 20, (1, 2): 30}
    view = attrs.evolve(make_view([1] * 3, set(links)), delays_us=tuple(links.values()))
    assert Routes(view, 1).upstream[0] == 0


@given(views(), st.data())
def test_with_any_delays_and_links_lost_every_daemon_has_every_packet_once(
    view: View, data: st.DataObject
) -> None:
    delays = data.draw(st.lists(st.integers(0, 5), min_size=len(view.links), max_size=99))
    view = attrs.evolve(view, delays_us=tuple(delays[: len(view.links)]))
    lost = data.draw(st.sets(st.sampled_from(view.links))) if view.links else set()
    usable = tuple(pair for pair in view.links if pair not in lost)
    if joins_all(view, usable):
        check_everywhere_once(view, usable)


def test_one_ring_needs_no_routes() -> None:
    routes = Routes(make_view([3], set()), 1)
    assert (routes.onward, routes.upstream, routes.depth) == ([()], [None], 0)
    assert routes.entered == frozenset()


def test_all_daemons_compute_the_same_trees() -> None:
    """Two ways are equally short: the one over the lower ring is taken, by all."""
    view = make_view([1, 1, 1, 1], {(0, 1), (0, 2), (1, 3), (2, 3)})
    assert Routes(view, 3).upstream[0] == 1
    assert Routes(view, 1).onward[0] == (3,)
    assert Routes(view, 2).onward[0] == ()
