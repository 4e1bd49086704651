"""Links between sites: the neighbours, the bandwidths, and the draws for a run."""

from math import inf

import pytest

from groupcomm.config.view import MAX_RINGS
from groupcomm.errors import ConfigError
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.network.links import (
    TOPOLOGIES,
    UDP_HEADER_BYTES,
    Bottleneck,
    SimulatedLink,
    SitePair,
    chain,
    equal_links,
    joined,
    longest_way_s,
    mesh,
    ring,
    star,
)
from groupcomm.sim.network.network import Network, Put
from groupcomm.sim.settings import (
    LEAST_BYTES_PER_S,
    LONGEST_WAY_S,
    Options,
    Settings,
    draw_settings,
    plain_settings,
    reachable_core,
)
from groupcomm.sim.virtual_time import SECOND, Loop

MANY = range(1, 401)


def test_who_is_whose_neighbour() -> None:
    assert mesh(3) == {(0, 1), (0, 2), (1, 2)}
    assert chain(4) == {(0, 1), (1, 2), (2, 3)}
    assert star(4) == {(0, 1), (0, 2), (0, 3)}
    assert ring(4) == {(0, 1), (1, 2), (2, 3), (0, 3)}
    assert ring(2) == chain(2) == star(2) == mesh(2) == {(0, 1)}


def link(near: int, far: int, delay_s: float = 0.01, jitter_s: float = 0.0) -> SimulatedLink:
    return SimulatedLink(sites=(near, far), delay_s=delay_s, jitter_s=jitter_s)


def test_the_longest_way_adds_up_links_and_takes_short_cuts() -> None:
    assert longest_way_s(1, []) == 0.0
    assert longest_way_s(3, [link(0, 1, 0.02, 0.01), link(1, 2, 0.04)]) == pytest.approx(0.07)
    around = [link(0, 1, 0.01), link(1, 2, 0.01), link(0, 2, 0.5)]
    assert longest_way_s(3, around) == pytest.approx(0.02)
    assert longest_way_s(3, [link(0, 1)]) == inf


def test_sites_are_joined_over_others_only_if_these_are_there() -> None:
    pairs = sorted(chain(4))
    assert joined({0, 1, 2, 3}, pairs, 1) == {0, 1, 2, 3}
    assert joined({0, 1, 3}, pairs, 0) == {0, 1}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: link(1, 0), "link 1-0 does not join two sites, the lower one first"),
        (lambda: link(0, 1, -0.1), "link 0-1: delay_s is -0.1; it must be at least 0"),
        (
            lambda: SimulatedLink(sites=(0, 1), delay_s=0.1, loss=1.0),
            "link 0-1: loss is 1.0; it must be",
        ),
        (lambda: SimulatedLink(sites=(0, 1), delay_s=0.1, bytes_per_s=0.0), "bytes_per_s is 0.0"),
        (lambda: SimulatedLink(sites=(0, 1), delay_s=0.1, queue_s=0.0), "queue_s is 0.0"),
        (lambda: settings_with(link(0, 3)), "link 0-3: there are only 3 sites, from 0"),
        (
            lambda: settings_with(link(0, 1), link(0, 1)),
            "there are two links between site 0 and site 1",
        ),
        (lambda: settings_with(link(0, 1)), "no links lead from site 0 to site 2"),
        (lambda: plain_settings(daemons=(1, 0)), "each site has at least one"),
        (lambda: Options(sites=MAX_RINGS + 1), f"there are 1 to {MAX_RINGS}"),
    ],
)
def test_what_makes_no_sense_is_named(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=message):
        make()


def settings_with(*links: SimulatedLink) -> Settings:
    return plain_settings(daemons=(1, 1, 1), links=links)


# ---- bandwidth ----


def test_a_narrow_way_passes_one_datagram_after_the_other() -> None:
    narrow = Bottleneck(1_000_000, 0.1)
    size = 1000 - UDP_HEADER_BYTES
    assert [narrow.passed_at(5, size) for _ in range(3)] == [1005, 2005, 3005]
    assert narrow.passed_at(10_000, size) == 11_000, "it was free before"


def test_a_full_queue_drops_at_the_tail_and_has_room_again_later() -> None:
    narrow = Bottleneck(1_000_000, 0.01)
    size = 1000 - UDP_HEADER_BYTES
    passed = [narrow.passed_at(0, size) for _ in range(30)]
    assert passed[:11] == [1000 * place for place in range(1, 12)]
    assert set(passed[11:]) == {None}
    assert narrow.dropped == 19
    assert narrow.passed_at(5000, size) == 12_000


class Ear:
    """A host that notes when something arrives."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.put: Put = lambda at, _: self.times.append(at)


def wire(link: SimulatedLink, sizes: tuple[int, ...] = (2, 2)) -> tuple[Network, list[Ear], Loop]:
    """Return some sites in a chain, the first two joined by `link`."""
    loop, hosts = Loop(), sum(sizes)
    ears = [Ear() for _ in range(hosts)]
    spread = plain_settings(daemons=sizes).sites
    links = [link, *equal_links(len(sizes), 0.02, chain)[1:]]
    return Network(loop, 1, [f"{i}" for i in range(hosts)], spread, links, ears), ears, loop


def test_all_pairs_of_daemons_share_a_link_each_direction_by_itself() -> None:
    network, ears, _ = wire(SimulatedLink(sites=(0, 1), delay_s=0.01, bytes_per_s=1_000_000))
    datagram = bytes(1000 - UDP_HEADER_BYTES)
    for source, target in ((0, "2"), (1, "2"), (0, "3"), (2, "0")):
        network.unicast(source, target, datagram)
    assert [ear.times for ear in ears] == [[11_000], [], [11_000, 12_000], [13_000]]


def test_what_finds_no_room_is_lost_and_observers_are_notified() -> None:
    narrow = SimulatedLink(sites=(0, 1), delay_s=0.01, bytes_per_s=1_000_000, queue_s=0.001)
    network, ears, _ = wire(narrow)
    told: list[bool] = []
    network.observers.append(lambda _source, _target, _datagram, goes_on: told.append(goes_on))
    for _ in range(5):
        network.unicast(0, "2", bytes(1000 - UDP_HEADER_BYTES))
    assert told == [True, True, False, False, False]
    assert len(ears[2].times) == 2
    assert network.bottlenecks[0, 1].dropped == 3


def test_a_lossy_link_loses_its_share_until_the_faults_end() -> None:
    network, ears, loop = wire(SimulatedLink(sites=(0, 1), delay_s=0.01, loss=0.1))
    network.paths[0, 2].thin(0.5)
    for _ in range(2000):
        network.unicast(0, "2", b"")
        network.unicast(0, "3", b"")
    assert abs(len(ears[2].times) - 900) < 80
    assert abs(len(ears[3].times) - 1800) < 80
    network.end_faults()
    loop.run(SECOND)
    for _ in range(100):
        network.unicast(0, "2", b"")
    assert sum(time > SECOND for time in ears[2].times) == 100


def test_sites_that_are_no_neighbours_do_not_hear_each_other() -> None:
    network, ears, _ = wire(link(0, 1), (1, 1, 1))
    told: list[bool] = []
    network.observers.append(lambda _source, _target, _datagram, goes_on: told.append(goes_on))
    network.unicast(0, "2", b"far")
    network.unicast(0, "1", b"near")
    assert told == [False, True]
    assert [len(ear.times) for ear in ears] == [0, 1, 0]
    network.cut([(0, 2), (0, 1)])
    network.mend([(0, 2), (0, 1)])
    network.unicast(0, "1", b"near")
    assert len(ears[1].times) == 2


# ---- draws ----


def drawn(options: Options) -> list[Settings]:
    return [draw_settings(seed, options) for seed in MANY]


def test_a_run_has_one_site_in_seven_of_eight_seeds_and_now_and_then_many() -> None:
    runs = drawn(Options())
    counts = [len(settings.sites) for settings in runs]
    assert 330 < counts.count(1) < 370
    assert {2, 3, 4} < set(counts) <= set(range(1, 9))
    assert 1 <= sum(count > 4 for count in counts) <= 10
    for settings in runs:
        sizes = list(map(len, settings.sites))
        assert min(sizes) > 0
        assert max(sizes) <= 9
        assert settings.daemons <= (7, 9, 72)[(len(sizes) > 1) + (len(sizes) > 4)]
        assert settings.duration_s == min(10.0, 180.0 / settings.daemons)


def test_one_site_has_no_links_and_nothing_that_happens_to_links() -> None:
    of_links = ("link_loss", "link_jitter", "link_load", "link_cut_s", "link_flap_s", "gateways")
    for settings in drawn(Options(sites=1)):
        assert settings.links == ()
        assert not any(getattr(settings.faults, name) for name in of_links)


def test_sites_differ_in_size_and_lie_in_every_topology() -> None:
    found: set[str] = set()
    uneven = 0
    for settings in drawn(Options(sites=4)):
        pairs = {link.sites for link in settings.links}
        found |= {name for name, make in TOPOLOGIES.items() if same_shape(pairs, make(4))}
        sizes = list(map(len, settings.sites))
        uneven += max(sizes) > min(sizes) + 1
        assert longest_way_s(4, settings.links) < LONGEST_WAY_S + 1e-9
    assert found == set(TOPOLOGIES)
    assert uneven > len(MANY) / 3


def same_shape(one: set[SitePair], other: set[SitePair]) -> bool:
    """Return whether two sets of links have as many, and sites with as many neighbours."""

    def neighbours(pairs: set[SitePair]) -> list[int]:
        return sorted(sum(site in pair for pair in pairs) for site in range(4))

    return neighbours(one) == neighbours(other)


def test_links_lose_jitter_and_are_narrow_each_in_half_of_the_runs() -> None:
    runs = drawn(Options(sites=3))
    lossy = [run for run in runs if any(link.loss for link in run.links)]
    narrow = [run for run in runs if all(link.bytes_per_s for link in run.links)]
    jumpy = [run for run in runs if any(link.jitter_s > link.delay_s / 10 for link in run.links)]
    for some in (lossy, narrow, jumpy):
        assert 0.4 < len(some) / len(runs) < 0.6
    assert all(link.loss < 0.1 for run in lossy for link in run.links)
    widths = [link.bytes_per_s or 0 for run in narrow for link in run.links]
    assert LEAST_BYTES_PER_S <= min(widths) < 2 * LEAST_BYTES_PER_S
    assert max(widths) <= 10 * LEAST_BYTES_PER_S
    for settings in drawn(Options(sites=3, faults="none")):
        assert settings.faults == Faults()
        assert not any(link.loss or link.bytes_per_s for link in settings.links)


def test_a_core_reaches_itself_without_others() -> None:
    sites, links = ((0, 1), (2,), (3,)), equal_links(3, 0.01, chain)
    assert reachable_core((0, 1, 3), sites, links) == (0, 1)
    assert reachable_core((1, 2, 3), sites, links) == (1, 2, 3)
    assert reachable_core((3,), sites, links) == (3,)
    for settings in drawn(Options(sites=4)):
        among = {site for site, hosts in enumerate(settings.sites) if {*hosts} & {*settings.core}}
        assert joined(among, [link.sites for link in settings.links], min(among)) == among


def test_daemons_share_sites_evenly_or_as_requested() -> None:
    assert plain_settings(daemons=5, sites=2).sites == ((0, 1), (2, 3, 4))
    assert plain_settings(daemons=(1, 3)).sites == ((0,), (1, 2, 3))
    assert len(plain_settings(daemons=(1, 1, 1)).links) == 3
