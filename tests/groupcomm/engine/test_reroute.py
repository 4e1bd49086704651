"""A view that goes on over other links, and what it has not settled yet."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from groupcomm.engine.view import ViewState
from tests.groupcomm.engine.cluster import Cluster
from tests.groupcomm.engine.test_shell import state_of

DIRECT, BY_B = ((0, 1), (1, 2), (0, 2)), ((0, 1), (1, 2))


@pytest.fixture(scope="module")
def triangle() -> Cluster:
    """Return three sites of one daemon each, all of them with links to the others."""
    cluster = Cluster("a", "b", "c", link_delays_us=((0, 1, 1000), (1, 2, 1000), (0, 2, 1500)))
    cluster.start("abc")
    cluster.run(3.0)
    return cluster


def onward(state: ViewState) -> list[int]:
    """Return the daemons to which packets of the first ring are sent."""
    return list(state.routes.onward[0])


def test_packets_go_over_the_links_that_are_left_also_once_delays_change(
    triangle: Cluster,
) -> None:
    state = state_of(triangle, "a")
    links = state.view.links
    assert set(links) == set(DIRECT)
    assert onward(state) == [1, 2]
    state.reroute(BY_B, triangle.now)
    for _ in range(2):
        assert onward(state) == [1]
        assert state._forwarding._onward is state.routes.onward, "that is where packets go"
        assert state.ring.entered == state.routes.entered
        delays = {BY_B[0]: 5000, BY_B[1]: 2000, DIRECT[2]: 1}
        state.use_delays(tuple(delays[link] for link in links), triangle.now)
    state.reroute(links, triangle.now)
    assert onward(state) == [2], "the direct link is there again, and b is behind c"


def test_delays_that_stay_change_nothing_and_others_are_used_at_once(triangle: Cluster) -> None:
    state = state_of(triangle, "b")
    before, state.deadline = state.routes, 10.0**6
    assert not state.use_delays(state.delays_us, triangle.now)
    assert state.routes is before
    assert state.deadline == 10.0**6
    assert state.use_delays(tuple(delay + 1 for delay in state.delays_us), triangle.now)
    assert state.routes is not before
    assert state.deadline == triangle.now


def test_gaps_of_other_rings_are_known_as_soon_as_this_daemon_has_to_ask_for_them() -> None:
    """In a site of two rings: what came over a link before comes from the own ring now."""
    cluster = Cluster("abc")
    cluster.cut = {("a", "c"), ("c", "a")}
    cluster.start("abc")
    cluster.run(1.0)
    state = state_of(cluster, "b")
    assert state.view.rings == ((0, 1), (2,))
    assert [gaps.stream.ring for gaps in state._gaps] == []
    state.streams[1].learn(state.streams[1].known + 2)
    state.reroute((), cluster.now)
    assert state.ring.entered == state.routes.entered == frozenset()
    (gaps,) = state._gaps
    assert gaps.stream.ring == 1
    assert gaps.pop_due(cluster.now + 10.0), "the two missing packets"


# ---- what is left ----


def test_daemons_that_a_link_does_not_reach_are_named_once_and_given_up(triangle: Cluster) -> None:
    state = state_of(triangle, "c")
    given_up: list[int] = []
    real, state._forwarding = (
        state._forwarding,
        cast(Any, SimpleNamespace(unreached=lambda now: [1, 0], give_up=given_up.append)),
    )
    numbers = [daemon.number for daemon in state.view.daemons]
    assert state.pop_unreached() == numbers[:2]
    assert given_up == [0, 1]
    state._forwarding = real


@pytest.mark.parametrize(
    ("waiting", "last", "here", "elsewhere", "unsettled"),
    [
        (0, 5, 5, 5, 0),
        (0, 5, 9, 7, 0),
        (0, 5, 3, 5, 2),
        (0, 5, 5, 4, 1),
        (1, 5, 5, 5, 0),
    ],
)
def test_a_view_is_settled_once_all_own_packets_are_held_in_every_ring(
    waiting: int, last: int, here: int, elsewhere: int, unsettled: int
) -> None:
    state = SimpleNamespace(
        ring=SimpleNamespace(held_by_all=here, flow=SimpleNamespace(held_remotely=elsewhere)),
        _packer=SimpleNamespace(last=last, source=SimpleNamespace(size=waiting)),
        unsettled_packets=unsettled,
        _announcement=None,
    )
    packets = ViewState.unsettled_packets.fget(cast(ViewState, state))  # type: ignore[attr-defined]
    settled = ViewState.is_settled.fget(cast(ViewState, state))  # type: ignore[attr-defined]
    assert packets == unsettled
    assert settled == (not unsettled and not waiting)
    state._announcement = "is made"
    assert not ViewState.is_settled.fget(cast(ViewState, state))  # type: ignore[attr-defined]
