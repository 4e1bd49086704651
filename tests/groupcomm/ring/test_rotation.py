"""Rotations: the longest that a rotation may take follows from empty ones."""

from groupcomm.ring.rotation import (
    EMPTY_EVERY,
    EMPTY_TIMES,
    REMEMBERED,
    TARGET_S,
    Rotation,
    is_empty,
)


def after(*empty_s: float) -> float:
    """Return the bound after empty rotations of these lengths."""
    rotation = Rotation()
    for each in empty_s:
        rotation.note_empty(each)
    return rotation.bound_s


def test_the_target_counts_before_an_empty_rotation() -> None:
    assert after() == TARGET_S


def test_where_the_token_is_quick_the_target_counts() -> None:
    assert after(0.0005) == TARGET_S
    assert after(TARGET_S / EMPTY_TIMES) == TARGET_S


def test_where_the_token_is_slow_packets_may_take_some_times_as_long() -> None:
    """A bound below that would spend the time on passing the token."""
    assert after(1.1 * TARGET_S / EMPTY_TIMES) == 2 * TARGET_S
    assert 0.09 * EMPTY_TIMES <= after(0.09) < 2 * 0.09 * EMPTY_TIMES


def test_daemons_that_measure_nearly_the_same_have_the_same_bound() -> None:
    """The daemon with the higher one would take the share of the others."""
    assert len({after(0.0006 + at * 1e-4) for at in range(20)}) == 1


def test_the_shortest_of_the_latest_counts() -> None:
    assert after(0.09, 0.0005, 0.09) == TARGET_S, "a daemon was held up for once"
    assert after(0.09, *[0.0005] * REMEMBERED) == TARGET_S
    assert after(0.0005, *[0.09] * REMEMBERED) > 0.09 * EMPTY_TIMES


def test_each_daemon_sees_one_whole_rotation_without_packets() -> None:
    for members in (2, 3, 16):
        empty = [is_empty(hop, members) for hop in range(2 * EMPTY_EVERY * members)]
        for place in range(members):
            assert all(empty[place : place + members]), f"from the visit at {place} to the next"
        assert sum(empty) == 4 * members
    assert not is_empty(0, 1), "a daemon that is alone never passes the token on"
