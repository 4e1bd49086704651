"""The simulated network: the arrivals, their times and order, without and with faults."""

from itertools import pairwise
from random import Random

import attrs
import pytest

from groupcomm.errors import ConfigError
from groupcomm.sim.faults.faults import FAULT_NAMES, Faults, draw_faults
from groupcomm.sim.faults.paths import Forged, corrupt
from groupcomm.sim.network.links import equal_links
from groupcomm.sim.network.network import LAN_DELAY_US, LAN_JITTER_US, Network, Put
from groupcomm.sim.virtual_time import SECOND, Loop

PACKETS = 2000
NAMES = ("alfa", "bravo", "charlie")


class Ear:
    """A host that only notes arrivals and their times."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.got: list[tuple[int, bytes]] = []
        self.put: Put = lambda at, datagram: loop.at(at, self.receive, datagram)

    def receive(self, datagram: bytes) -> None:
        self.got.append((self.loop.now, datagram))


class Wire:
    """A network of two sites, {0, 1} and {2}, with ears."""

    def __init__(self, faults: Faults | None = None, seed: int = 1) -> None:
        self.loop = Loop()
        ears = [Ear(self.loop) for _ in NAMES]
        self.got = [ear.got for ear in ears]
        sites = [(0, 1), (2,)]
        self.network = Network(self.loop, seed, NAMES, sites, equal_links(2, 0.05), ears)
        self.network.start_faults(faults or Faults())

    def stream(self, source: int = 0, target: int = 1, every_us: int = 200) -> list[int]:
        """Send PACKETS numbered datagrams; return the numbers that arrived, in that order."""
        for number in range(PACKETS):
            datagram = number.to_bytes(4, "big") + bytes(40)
            self.loop.at(
                number * every_us,
                lambda d: self.network.unicast(source, NAMES[target], d),
                datagram,
            )
        self.loop.run(PACKETS * every_us + SECOND)
        self.network.end_faults()
        self.loop.run(60 * SECOND)
        return [
            int.from_bytes(datagram[:4], "big")
            for _, datagram in self.got[target]
            if type(datagram) is bytes
        ]


def test_without_faults_everything_arrives_in_order_within_the_lan_delay() -> None:
    wire = Wire()
    assert wire.stream() == list(range(PACKETS))
    delays = [time - 200 * number for number, (time, _) in enumerate(wire.got[1])]
    assert min(delays) >= LAN_DELAY_US
    assert max(delays) < LAN_DELAY_US + LAN_JITTER_US


def test_a_datagram_to_another_site_takes_the_configured_time() -> None:
    wire = Wire()
    wire.stream(target=2)
    time, _ = wire.got[2][0]
    assert 50_000 <= time <= 52_500


def test_multicast_reaches_the_site_and_not_its_sender_or_other_sites() -> None:
    wire = Wire()
    wire.network.multicast(0, b"hello")
    wire.loop.run(SECOND)
    assert [[datagram for _, datagram in got] for got in wire.got] == [[], [b"hello"], []]


@pytest.mark.parametrize("seed", range(3))
def test_loss_is_about_what_was_asked_for(seed: int) -> None:
    numbers = Wire(Faults(loss=0.2), seed).stream()
    assert numbers == sorted(numbers)
    assert 0.75 < len(numbers) / PACKETS < 0.85


def test_bursts_lose_many_in_a_row() -> None:
    streams = [Wire(Faults(burst_packets=50), seed=seed).stream() for seed in range(1, 9)]
    assert 0.98 < sum(map(len, streams)) / (8 * PACKETS) < 1.0
    gaps = [after - before - 1 for numbers in streams for before, after in pairwise(numbers)]
    assert max(gaps) >= 5  # one in 400,000 if losses of the same 1.1 % are independent


def test_duplicates_come_later_and_are_all_copies() -> None:
    numbers = Wire(Faults(duplication=0.5)).stream()
    assert set(numbers) == set(range(PACKETS))
    assert 1.4 * PACKETS < len(numbers) < 1.6 * PACKETS


@pytest.mark.parametrize("window", [2, 64])
def test_reordering_stays_in_its_window(window: int) -> None:
    numbers = Wire(Faults(reorder_packets=window)).stream()
    assert sorted(numbers) == list(range(PACKETS))
    assert numbers != sorted(numbers)
    overtaken = [
        sum(later > number for later in numbers[max(0, place - 2 * window) : place])
        for place, number in enumerate(numbers)
    ]
    assert max(overtaken) <= 2 * window
    assert max(overtaken) >= window // 2


def test_corruption_never_leaves_a_datagram_as_it_was() -> None:
    wire = Wire(Faults(corruption=0.3))
    intact = wire.stream()
    forged = [datagram for _, datagram in wire.got[1] if isinstance(datagram, Forged)]
    assert len(intact) + len(forged) == PACKETS
    assert 0.25 * PACKETS < len(forged) < 0.35 * PACKETS


def test_corrupted_bytes_always_differ() -> None:
    rng = Random("corrupt")
    for size in (1, 2, 44, 1400):
        datagram = rng.randbytes(size)
        assert all(bytes(corrupt(rng, datagram)) != datagram for _ in range(300))


def test_a_full_path_drops_and_an_idle_one_does_not() -> None:
    faults = Faults(capacity_packets=5)
    assert Wire(faults).stream(every_us=200) == list(range(PACKETS))
    assert 0.02 < len(Wire(faults).stream(every_us=1)) / PACKETS < 0.2


def test_a_jam_holds_everything_and_then_lets_it_go_in_order() -> None:
    wire = Wire(Faults(jam_s=0.1))
    wire.loop.at(10_000, lambda _: wire.network.jam(1, 100_000))
    assert wire.stream() == list(range(PACKETS))
    assert not [time for time, _ in wire.got[1] if 11_000 < time < 100_000]


def test_exponential_delay_has_the_mean_asked_for() -> None:
    wire = Wire(Faults(delay_mean_s=0.01, reorder_packets=1))
    wire.stream(every_us=1000)
    delays = [time - 1000 * int.from_bytes(datagram[:4], "big") for time, datagram in wire.got[1]]
    assert 9_000 < sum(delays) / len(delays) < 13_000


def test_some_delayed_datagrams_come_very_late_behind_others() -> None:
    wire = Wire(Faults(delay_mean_s=0.001))
    numbers = wire.stream(every_us=1000)
    assert sorted(numbers) == list(range(PACKETS))
    late = sum(max(numbers[:place], default=0) > number for place, number in enumerate(numbers))
    assert 0 < late < PACKETS // 50


def test_what_is_late_when_the_faults_end_is_lost() -> None:
    """Otherwise a cut-off daemon would be heard seconds later, and cause one more view."""
    wire = Wire(Faults(delay_mean_s=0.0001))
    for number in range(PACKETS):
        wire.network.unicast(0, NAMES[1], number.to_bytes(4, "big"))
    wire.loop.run(SECOND // 1000)
    wire.network.end_faults()
    wire.loop.run(10 * SECOND)
    assert PACKETS * 0.99 < len(wire.got[1]) < PACKETS
    assert max(time for time, _ in wire.got[1]) < SECOND // 100


def test_a_cut_path_delivers_nothing_until_every_cut_is_mended() -> None:
    wire = Wire()
    for at, act in ((20_000, wire.network.cut), (50_000, wire.network.cut)):
        wire.loop.at(at, act, [(0, 1)])
    for at in (100_000, 200_000):
        wire.loop.at(at, wire.network.mend, [(0, 1)])
    numbers = wire.stream()
    assert numbers == [*range(100), *range(1000, PACKETS)]


def test_a_cut_is_of_one_direction_and_what_is_under_way_arrives() -> None:
    wire = Wire()
    wire.network.unicast(0, "bravo", b"before")
    wire.network.cut([(0, 1)])
    wire.network.unicast(0, "bravo", b"after")
    wire.network.unicast(1, "alfa", b"back")
    wire.loop.run(SECOND)
    assert [[datagram for _, datagram in got] for got in wire.got] == [[b"back"], [b"before"], []]


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_a_thinned_path_loses_its_share(share: float) -> None:
    wire = Wire()
    wire.network.paths[0, 1].thin(share)
    assert abs(len(wire.stream()) / PACKETS - (1 - share)) < 0.04
    wire.network.unicast(0, "bravo", b"now faults have ended")
    wire.loop.run(wire.loop.now + SECOND)
    assert wire.got[1][-1][1] == b"now faults have ended"


def test_a_datagram_to_the_own_address_comes_back() -> None:
    wire = Wire()
    wire.network.unicast(0, "alfa", b"to whom it concerns")
    wire.loop.run(SECOND)
    assert [datagram for _, datagram in wire.got[0]] == [b"to whom it concerns"]


def test_each_fault_is_on_in_about_half_of_the_seeds() -> None:
    drawn = [
        draw_faults(Random(f"{seed}"), "every", Random(f"far {seed}"), Random(f"hosts {seed}"))
        for seed in range(400)
    ]
    for field in attrs.fields_dict(Faults):
        on = sum(bool(getattr(faults, field)) for faults in drawn)
        assert 150 < on < 250, field


def test_named_faults_are_on_and_no_others() -> None:
    faults = draw_faults(Random("1"), "loss,attacker")
    assert faults == Faults(loss=faults.loss, attacker=True)
    assert faults.loss > 0.0
    assert draw_faults(Random("1"), "none") == Faults()


def test_an_unknown_fault_is_named_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="'lost'; there are: all, every, none, loss, burst"):
        draw_faults(Random("1"), "loss,lost")
    assert len(FAULT_NAMES) == 36
