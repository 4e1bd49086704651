"""Clusters of so many daemons that relays pass on between sites what is said about views."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from msgspec import structs

from groupcomm.config.core import Timing
from groupcomm.membership.pace import HOLD_S, HOLDS
from groupcomm.names import daemon_number
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.network.links import chain, equal_links
from groupcomm_tools.plan.kinds import kind_of
from tests.groupcomm.sim.large_clusters import (
    ALL,
    CHANGE_S,
    DELAY_S,
    EACH,
    FIRST,
    GATEWAY,
    LATER,
    SECOND,
    SILENCE_S,
    Checked,
    both_ways,
    large,
    without,
)

PASSED_S = CHANGE_S + HOLDS * HOLD_S
"""A change of views, in which joins and commits wait at two relays each."""

WAIT_S = Timing().gather_wait_s + HOLDS * HOLD_S + 2.1 * DELAY_S
"""The time for which daemons that do not answer are waited for."""

RELAYS = [at for at in ALL if at % EACH < 2]
OPPOSITE = {
    (a, b) for a in RELAYS for b in RELAYS if a // EACH != b // EACH and a % EACH == b % EACH
}
"""The paths between relays of different sites."""


def relayed(members: Sequence[int] = (), sites: int = 4) -> Checked:
    return Checked(large(sites=sites, many=0), members)


def ways(cluster: Cluster) -> Counter[tuple[str, int, int]]:
    """Count from now on what is said about views, by its kind, its sender and its receiver."""
    found: Counter[tuple[str, int, int]] = Counter()

    def observe(source: int, target: int, datagram: bytes, _goes_on: bool) -> None:
        kind = kind_of(datagram)
        if kind in ("join", "commit", "short_commit", "relayed"):
            found[kind, source, target] += 1

    cluster.network.observers.append(observe)
    return found


def near(source: int, target: int) -> bool:
    return source // EACH == target // EACH


def test_only_relays_speak_with_other_sites() -> None:
    cluster = Cluster(large(many=0), start=False)
    found = ways(cluster)
    cluster.start()
    cluster.run(1.0)
    assert {(a, b) for _, a, b in found if not near(a, b)} == OPPOSITE
    assert {a for kind, a, b in found if kind == "relayed" and near(a, b)} <= set(RELAYS)


def test_a_first_view_costs_each_daemon_little_for_each_other_site() -> None:
    counts = {}
    for sites in (4, 8):
        cluster = Cluster(large(sites=sites, many=0), start=False)
        found = ways(cluster)
        cluster.start()
        counts[sites] = sum(count for (_, a, b), count in found.items() if not near(a, b))
        assert cluster.loop.now < 8 * DELAY_S * 1e6
    assert counts[8] / counts[4] < 1.1 * (8 * 7) / (4 * 3), counts


@pytest.mark.parametrize("victims", [[0], [GATEWAY], [LATER], [3, 4], [0, 4]])
def test_daemons_that_are_killed_are_left_out_at_once_whatever_they_passed_on(
    victims: list[int],
) -> None:
    checked = relayed(members=without(*victims)[::3])
    checked.send()
    for victim in victims:
        checked.cluster.daemons[victim].kill()
    apart_s = WAIT_S if len(victims) > 1 else 0.0  # to find out which relays are left
    assert checked.until_view(without(*victims)) < SILENCE_S + PASSED_S + apart_s
    (counter,) = checked.counters()
    checked.send()
    checked.cluster.run(2.0)
    assert checked.counters() == {counter}, "one view was enough"
    for victim in victims:
        checked.cluster.daemons[victim].boot()
    assert checked.until_view(ALL) < 0.4
    checked.finish()


@pytest.mark.parametrize("relay", [3, 4])
def test_while_one_relay_is_cut_off_from_other_sites_the_other_one_is_enough(relay: int) -> None:
    checked = relayed(members=[0, 5, 8])
    checked.cut(both_ways([relay], without(*SECOND)))
    checked.cluster.daemons[11].kill()
    assert checked.until_view(without(11)) < SILENCE_S + CHANGE_S + 2 * WAIT_S
    checked.send()
    checked.cluster.run(1.0)
    checked.cluster.daemons[11].boot()
    checked.until_view(ALL)
    checked.finish()


def test_sites_that_hear_nothing_of_each_other_are_told_by_a_third() -> None:
    checked = relayed(members=[1, LATER, 6])
    checked.cut(both_ways(FIRST, SECOND))
    for _ in range(2):
        checked.send()
        checked.cluster.run(1.0)
    checked.cluster.daemons[10].kill()
    assert checked.until_view(without(10)) < 2 * SILENCE_S + 2 * PASSED_S
    (counter,) = checked.counters()
    checked.cluster.run(2.0)
    assert checked.counters() == {counter}
    checked.cluster.daemons[10].boot()
    checked.until_view(ALL)
    checked.finish()


def test_sites_in_a_chain_form_a_view_over_each_other() -> None:
    checked = Checked(large(many=0), start=False)
    far = [(a, b) for a in ALL for b in ALL if abs(a // EACH - b // EACH) > 1]
    checked.cut(far)
    checked.cluster.start()
    checked.until_view(ALL)
    checked.cluster.run(1.0)
    checked.finish()


def test_a_daemon_in_a_long_chain_of_sites_is_left_out_at_once() -> None:
    """If each relay on the way waited, far ends would agree on a view without each other."""
    sites, delay_s = 16, 0.01
    settings = attrs.evolve(large(sites, 2, many=0), links=equal_links(sites, delay_s, chain))
    checked = Checked(settings)
    checked.cluster.daemons[17].kill()
    took_s = checked.until_view([at for at in range(2 * sites) if at != 17])
    assert took_s < SILENCE_S + WAIT_S + 3 * sites * delay_s


@pytest.mark.parametrize("heard", [True, False])
def test_who_is_heard_itself_tells_a_late_daemon_itself_that_it_has_committed(
    *, heard: bool
) -> None:
    """There the words of relays in its name do not count. Found by a seed: it waited for ever."""
    checked = relayed(sites=2)
    core = checked.cluster.daemons[LATER].core
    machine = core.membership
    late = machine.peers[daemon_number(checked.cluster.daemons[2].name)]
    assert late.commit is not None
    machine._detector.contacts = {late.number} if heard else set()
    machine._on_commit(late, structs.replace(late.commit, installed=False), core.deadline)
    assert (late.name in [target for target, _ in machine.flood.out]) == heard


def test_one_path_of_daemons_that_are_no_relays_is_enough_for_halves_to_meet() -> None:
    half = [*FIRST, *SECOND]
    checked = relayed()
    checked.cut(both_ways(half, without(*half)))
    checked.until_view(half)
    checked.cluster.run(1.0)
    checked.mend(both_ways([2], [8]))
    assert checked.until_view(ALL) < 4.0
    checked.finish()


def test_sites_whose_first_daemons_have_never_run_find_each_other() -> None:
    """So who looks for them tries one after the other."""
    checked = Checked(large(many=0, daemons=5, sites=2), start=False)
    hosts = [3, 4, 8, 9]
    for at in hosts:
        checked.cluster.daemons[at].boot()
    assert checked.until_view(hosts) < 2.0
    for at in range(10):
        checked.cluster.daemons[at].boot()
    checked.until_view(range(10))
    checked.finish()


def test_reports_of_links_that_come_together_change_the_routes_together() -> None:
    """Each end of the links of a site that is lost reports its own."""
    checked = relayed(sites=8)
    rerouted: Counter[int] = Counter()
    for at, host in enumerate(checked.cluster.daemons):
        state = host.core.view_state
        assert state is not None
        usual = state.reroute

        def reroute(links: object, now: float, *, at: int = at, usual: Any = usual) -> None:
            rerouted[at] += 1
            usual(links, now)

        state.reroute = reroute  # type: ignore[method-assign]
    checked.cut(both_ways([0], range(EACH, 8 * EACH)))
    checked.cluster.run(SILENCE_S + 0.5)
    assert rerouted
    assert max(count for at, count in rerouted.items() if at >= EACH) <= 2, rerouted
