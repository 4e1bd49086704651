"""Idle traffic grows with the daemons of a site and with the sites, and not with their product."""

import pytest

from groupcomm.config.core import Timing
from tests.costs.idle import FAMILIES, Earlier, exponent, idle

MOST_DATAGRAMS, MOST_BYTES = 200, 100_000
"""The most that an idle daemon of a large cluster may receive in a second."""

TOKENS = 16.0
"""The most datagrams a second that are no beacons: tokens, and notices that they rest."""


def beacons(sites: int, each: int) -> float:
    """Return the beacons that a daemon gets on average; see docs/membership.md."""
    rounds = min(-(-each // 16), 4)
    near = each - 1 if rounds == 1 else (each - 1) / rounds + 2 * (1 - 1 / rounds)
    return (near + (sites - 1) / each) / Timing().beacon_interval_s


@pytest.mark.parametrize(
    ("sites", "each"),
    [
        (5, 4),
        (8, 4),
        (1, 20),
        pytest.param(8, 8, marks=pytest.mark.long),
        pytest.param(3, 32, marks=pytest.mark.long),
        pytest.param(10, 10, marks=pytest.mark.long),
        pytest.param(1, 64, marks=pytest.mark.long),
    ],
)
def test_an_idle_daemon_gets_the_beacons_of_its_partners_and_little_else(
    sites: int, each: int
) -> None:
    found = idle(sites, each)
    assert beacons(sites, each) * 0.95 <= found.datagrams <= beacons(sites, each) * 1.05 + TOKENS
    assert found.datagrams <= MOST_DATAGRAMS
    assert found.bytes <= MOST_BYTES


@pytest.mark.parametrize(
    ("family", "most"),
    [
        ("sites of 4", 0.5),
        pytest.param("sites of 8", 0.3, marks=pytest.mark.long),
        pytest.param("three sites", 0.8, marks=pytest.mark.long),
        pytest.param("one site", 0.6, marks=pytest.mark.long),
    ],
)
def test_the_idle_traffic_of_a_daemon_grows_slower_than_the_cluster(
    family: str, most: float
) -> None:
    shapes = FAMILIES[family][:3]
    found = [idle(*shape).datagrams for shape in shapes]
    assert exponent([sites * each for sites, each in shapes], found) < most, found


def test_with_beacons_to_all_it_grows_as_the_cluster() -> None:
    """So the counting would see a daemon that sends each beacon to all."""
    shapes = FAMILIES["sites of 4"][:2]
    found = [idle(*shape, kind=Earlier).datagrams for shape in shapes]
    assert exponent([sites * each for sites, each in shapes], found) > 0.9, found


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_found(power: float) -> None:
    assert exponent([8, 16, 64], [3 * size**power for size in (8, 16, 64)]) == pytest.approx(power)
