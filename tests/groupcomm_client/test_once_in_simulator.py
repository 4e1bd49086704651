"""Senders whose messages come exactly once, in the simulator, while everything else fails."""

import pytest

from tests.groupcomm_client.senders import (
    SITES,
    Senders,
    play,
    play_parted,
    play_with_one_that_stays,
)
from tests.groupcomm_client.upgraded_senders import play_mixed, play_upgrade


def seeds(short: int, upto: int) -> list[object]:
    """Some seeds, of which only the first ones are quick."""
    return [
        pytest.param(seed, marks=[pytest.mark.long] * (seed > short)) for seed in range(1, upto)
    ]


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_each_message_comes_once_to_who_stays(seed: int) -> None:
    play_with_one_that_stays(seed)


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_each_message_comes_once_over_several_sites(seed: int) -> None:
    play_with_one_that_stays(seed, SITES)


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_each_message_is_on_the_line_once_through_partitions(seed: int) -> None:
    play_parted(seed)


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_each_message_comes_once_under_all_faults(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_each_message_comes_once_in_an_upgrade(seed: int) -> None:
    play_upgrade(seed)


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_each_message_comes_once_where_releases_go_to_and_fro(seed: int) -> None:
    play_mixed(seed)


def test_what_nobody_can_know_is_in_doubt() -> None:
    """If all daemons lose their memory nothing is sent again: it may have been delivered."""
    crowd = Senders(7)
    crowd._observe()
    crowd.run(2.0, 0.0, "none", sends=0.7)
    sender = next(s for s in crowd.senders if s.session is not None and s.session.is_ready)
    while not sender.line.kept:
        sender.send()
    for host in crowd.cluster.daemons:
        host.kill()
        host.boot()
    for _ in range(1000):
        crowd.cluster.run(0.01)
        sender.tick()
    assert sender.doubt is not None
    assert "nobody knows" in str(sender.doubt)
