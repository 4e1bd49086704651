"""Large clusters whose daemons send beacons to partners only: whatever fails is noticed as before.

Four sites of three daemons, each site a ring whose first daemon is the end of all its links.
"""

from collections import Counter

import attrs
import pytest

from groupcomm.config.versions import CROWDS, SPOKEN
from groupcomm.events import Message
from groupcomm.membership.pace import HOLD_S, HOLDS
from groupcomm.sim.cluster import host
from groupcomm_tools.plan.kinds import kind_of
from tests.groupcomm.sim.large_clusters import (
    ALL,
    CHANGE_S,
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

WITH_RELAYS = pytest.mark.parametrize("many", [EACH * 100, 0], ids=["each", "relays"])
"""Each daemon tells each other one itself, and relays pass on what is said."""


def test_a_daemon_sends_beacons_to_its_partners_only() -> None:
    checked = Checked()
    told: Counter[tuple[int, int]] = Counter()

    def observe(source: int, target: int, datagram: bytes, _goes_on: bool) -> None:
        assert kind_of(datagram) != "beacon", "all is said in short"
        told[source, target] += kind_of(datagram) == "short_beacon"

    checked.cluster.network.observers.append(observe)
    checked.cluster.run(1.2)
    ends = [at for at in ALL if at % EACH == 0]
    site = {(a, b) for a in ALL for b in ALL if a != b and a // EACH == b // EACH}
    assert {pair for pair, count in told.items() if count} == site | {
        (a, b) for a in ends for b in ends if a != b
    }
    assert {told[pair] for pair in site} <= {9, 10, 11}


@pytest.mark.parametrize("victim", [0, GATEWAY, LATER])
def test_a_daemon_that_is_killed_is_left_out_as_quickly_as_ever(victim: int) -> None:
    checked = Checked(members=without(victim)[::3])
    checked.send()
    checked.cluster.daemons[victim].kill()
    assert checked.until_view(without(victim)) < SILENCE_S + CHANGE_S
    (counter,) = checked.counters()
    checked.send()
    checked.cluster.run(2.0)
    assert checked.counters() == {counter}, "one view was enough"
    checked.cluster.daemons[victim].boot()
    assert checked.until_view(ALL) < 0.3
    checked.finish()
    texts = [[e for e in m.events if isinstance(e, Message)] for m in checked.members]
    assert {len(text) for text in texts} == {4 * len(checked.members)}


def test_a_gateway_that_stands_still_is_left_out_and_comes_back() -> None:
    checked = Checked(members=[0, LATER])
    process = checked.cluster.daemons[GATEWAY].process
    assert process is not None
    process.pause(checked.cluster.loop.now + 10**9)
    assert checked.until_view(without(GATEWAY)) < SILENCE_S + CHANGE_S
    checked.send()
    checked.cluster.run(1.0)
    process.resume()
    assert checked.until_view(ALL) < 0.5
    checked.finish()


@WITH_RELAYS
def test_a_site_that_is_lost_is_left_out_as_nobody_hears_it_and_comes_back(many: int) -> None:
    """Nobody of it is left to say that its daemons are not there: the ends of links do."""
    checked = Checked(large(many=many), members=[0, 6])
    for at in SECOND:
        checked.cluster.daemons[at].kill()
    assert checked.until_view(without(*SECOND)) < SILENCE_S + 2 * CHANGE_S + HOLDS * HOLD_S
    checked.send()
    checked.cluster.run(1.0)
    for at in SECOND:
        checked.cluster.daemons[at].boot()
    assert checked.until_view(ALL) < 0.5
    checked.finish()


@WITH_RELAYS
def test_halves_that_hear_each_other_again_have_one_view(many: int) -> None:
    near = [*FIRST, *SECOND]
    paths = both_ways(near, without(*near))
    checked = Checked(large(many=many), members=[0, 7])
    checked.cut(paths)
    assert checked.until_view(near) < SILENCE_S + 2 * CHANGE_S + HOLDS * HOLD_S
    checked.until_view(without(*near))
    checked.send()
    checked.cluster.run(1.0)
    before = max(checked.counters())
    checked.mend(paths)
    assert checked.until_view(ALL) < SILENCE_S + 2 * CHANGE_S + HOLDS * HOLD_S
    assert checked.counters() == {before + 1}
    checked.finish()


@pytest.mark.parametrize(
    "cut",
    [both_ways(FIRST, SECOND), [(0, GATEWAY)], both_ways([0], [GATEWAY])],
    ids=["sites", "one way between gateways", "between gateways"],
)
def test_sites_that_do_not_hear_each_other_keep_their_view_over_others(
    cut: list[tuple[int, int]],
) -> None:
    checked = Checked(members=[1, LATER, 6])
    before = checked.counters()
    checked.cut(cut)
    for _ in range(3):
        checked.send()
        checked.cluster.run(1.0)
    assert checked.counters() == before
    checked.cluster.daemons[10].kill()  # joins between the two are passed on by others
    assert checked.until_view(without(10)) < 2 * SILENCE_S + 2 * CHANGE_S
    (counter,) = checked.counters()
    checked.cluster.run(2.0)
    assert checked.counters() == {counter}
    checked.mend(cut)
    checked.cluster.daemons[10].boot()
    checked.until_view(ALL)
    checked.finish()


def test_one_path_of_any_daemons_is_enough_for_halves_to_meet() -> None:
    """Those that are no gateways send rare beacons to daemons outside their view, too."""
    near = [*FIRST, *SECOND]
    paths = both_ways(near, without(*near))
    checked = Checked()
    checked.cut(paths)
    checked.until_view(near)
    checked.cluster.run(1.0)
    checked.mend(both_ways([2], [8]))
    assert checked.until_view(ALL) < 3.0
    checked.finish()


@WITH_RELAYS
def test_a_far_daemon_that_leaves_is_told_to_all_at_once(many: int) -> None:
    checked = Checked(large(many=many))
    process = checked.cluster.daemons[LATER].process
    assert process is not None
    process.leave()
    assert checked.until_view(without(LATER)) < 0.05 + CHANGE_S + HOLDS * HOLD_S


def test_a_daemon_of_an_earlier_release_gets_beacons_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    earlier = attrs.evolve(SPOKEN, features=SPOKEN.features & ~CROWDS)
    usual = host.SimulatedHost.config_of

    def config_of(self: host.SimulatedHost, name: str, agreed: object) -> object:
        config = usual(self, name, agreed)  # type: ignore[arg-type]
        return attrs.evolve(config, versions=earlier) if self.index == LATER else config

    monkeypatch.setattr(host.SimulatedHost, "config_of", config_of)
    checked = Checked()
    told: set[tuple[int, int]] = set()

    def observe(source: int, target: int, datagram: bytes, _goes_on: bool) -> None:
        if "beacon" in kind_of(datagram):
            told.add((source, target))

    checked.cluster.network.observers.append(observe)
    checked.cluster.run(0.3)
    assert told == {(a, b) for a in ALL for b in ALL if a != b}


def test_in_a_large_ring_all_get_each_second_beacon_and_are_missed_in_twice_the_time() -> None:
    checked = Checked(large(sites=1, daemons=6))
    told: Counter[tuple[int, int]] = Counter()

    def observe(source: int, target: int, datagram: bytes, _goes_on: bool) -> None:
        told[source, target] += kind_of(datagram) == "short_beacon"

    checked.cluster.network.observers.append(observe)
    checked.cluster.run(2.4)
    assert 18 <= told[0, 1] <= 22 >= told[0, 5] >= 18
    assert 9 <= told[0, 3] <= 11
    (before,) = checked.counters()
    checked.cut([(0, 3)])
    checked.cluster.run(SILENCE_S + 0.3)
    assert checked.counters() == {before}
    checked.cluster.run(SILENCE_S)
    assert checked.counters() == {before + 1}, "two rings of one view"
    checked.mend([(0, 3)])
    checked.cluster.daemons[4].kill()
    assert checked.until_view([0, 1, 2, 3, 5]) < SILENCE_S + 0.1
    checked.cluster.daemons[4].boot()
    checked.until_view(range(6))
    checked.finish()
