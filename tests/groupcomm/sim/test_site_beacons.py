"""Large clusters whose daemons send beacons to partners only: whatever fails is noticed as before.

Four sites of three daemons, each site a ring whose first daemon is the end of all its links.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import pytest

from groupcomm.config.core import Timing
from groupcomm.config.versions import CROWDS, SPOKEN
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster import host
from groupcomm.sim.settings import Settings, plain_settings
from groupcomm_tools.plan.kinds import kind_of
from tests.groupcomm.sim.checked_cluster import CheckedCluster, with_few_notices

DELAY_S: Final = 0.02
SILENCE_S: Final = Timing().token_timeout_s
CHANGE_S: Final = 6 * DELAY_S
"""Joins there and back, twice as most have not heard each other, commits, and a look."""

SITES, EACH = 4, 3
ALL: Final = range(SITES * EACH)
FIRST, SECOND = range(EACH), range(EACH, 2 * EACH)
"""The daemons of two sites; the first of each is the end of its links."""

GATEWAY: Final = SECOND[0]
LATER: Final = SECOND[2]


def large(sites: int = SITES, daemons: int = EACH) -> Settings:
    """Return settings with which a small cluster does what a large one does."""
    settings = plain_settings(daemons=[daemons] * sites, delay_s=DELAY_S if sites > 1 else 0.0)
    return with_few_notices(attrs.evolve(settings, few_daemons=0))


class Checked(CheckedCluster):
    """A cluster at rest, with members at some daemons."""

    def __init__(self, settings: Settings | None = None, members: Sequence[int] = ()) -> None:
        super().__init__(settings or large())
        self.members = [self.cluster.connect(f"user{at}", at) for at in members]
        self.cluster.run(0.2)
        self.join("g", self.members)
        self.cluster.run(1.0)

    def send(self) -> None:
        """Have each member send a message at two levels."""
        for member in self.members:
            if member.connected:
                for level in (ServiceLevel.AGREED, ServiceLevel.SAFE):
                    member.multicast(["g"], b"data", level=level)

    def until_view(self, hosts: Sequence[int], limit_s: float = 5.0) -> float:
        """Run until these hosts alone have a view; return the seconds that it took."""
        began = self.cluster.loop.now
        while not self.cluster.agree(hosts):
            self.cluster.run(0.01)
            assert self.cluster.loop.now < began + limit_s * 1e6, "no view"
        return (self.cluster.loop.now - began) / 1e6

    def counters(self) -> set[int]:
        """Return the counters of the views of all running daemons."""
        cores = [each.core for each in self.cluster.daemons if each.process is not None]
        return {core.view.id.counter for core in cores if core.view is not None}

    def cut(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Lose everything on these paths."""
        self.cluster.network.cut(pairs)

    def mend(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Lose nothing on these paths any more."""
        self.cluster.network.mend(pairs)


def both_ways(one: Iterable[int], other: Iterable[int]) -> list[tuple[int, int]]:
    there = [(a, b) for a in one for b in other]
    return there + [(b, a) for a, b in there]


def without(*hosts: int) -> list[int]:
    return [at for at in ALL if at not in hosts]


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


def test_a_site_that_is_lost_costs_a_token_timeout_more_and_comes_back() -> None:
    """Nobody is left who could say that its daemons are not there."""
    checked = Checked(members=[0, 6])
    for at in SECOND:
        checked.cluster.daemons[at].kill()
    assert checked.until_view(without(*SECOND)) < 2 * SILENCE_S + 2 * CHANGE_S
    checked.send()
    checked.cluster.run(1.0)
    for at in SECOND:
        checked.cluster.daemons[at].boot()
    assert checked.until_view(ALL) < 0.5
    checked.finish()


def test_halves_that_hear_each_other_again_have_one_view() -> None:
    near = [*FIRST, *SECOND]
    paths = both_ways(near, without(*near))
    checked = Checked(members=[0, 7])
    checked.cut(paths)
    assert checked.until_view(near) < 2 * SILENCE_S + 2 * CHANGE_S
    checked.until_view(without(*near))
    checked.send()
    checked.cluster.run(1.0)
    before = max(checked.counters())
    checked.mend(paths)
    assert checked.until_view(ALL) < SILENCE_S + 2 * CHANGE_S
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


def test_a_far_daemon_that_leaves_is_told_to_all_at_once() -> None:
    checked = Checked()
    process = checked.cluster.daemons[LATER].process
    assert process is not None
    process.leave()
    assert checked.until_view(without(LATER)) < 0.05 + CHANGE_S


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
