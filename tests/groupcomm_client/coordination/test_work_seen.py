"""A state of a worker set has heard of the jobs of its stretches, and of no others."""

from itertools import pairwise
from random import Random

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm_client.coordination import work_seen
from groupcomm_client.coordination.work_messages import Stretch
from groupcomm_client.coordination.work_seen import Seen, unite

FIRST, SECOND = (ViewId(number, "d", 1) for number in (1, 2))


def at(time: int, view: ViewId = FIRST) -> Position:
    return Position(view, time, 0, 0, 0)


def stretch(first: int, last: int) -> Stretch:
    return at(first), at(last)


def heard(stretches: list[Stretch], *times: int) -> list[int]:
    """Which of these places a state with these stretches has heard of."""
    return [time for time in times if at(time) in Seen(stretches)]


def test_the_jobs_of_a_view_are_one_stretch() -> None:
    seen = Seen()
    for id in (at(1), at(3), at(7), at(2, SECOND), at(4, SECOND)):
        seen.note(id, transitional=False)
    assert seen.stretches == [stretch(1, 7), (at(2, SECOND), at(4, SECOND))]
    assert at(7) in seen
    assert at(8) not in seen
    assert at(1, SECOND) not in seen


def test_each_job_of_the_end_of_a_view_is_a_stretch_of_its_own() -> None:
    seen = Seen()
    seen.note(at(1), transitional=False)
    for time in (3, 5):
        seen.note(at(time), transitional=True)
    seen.note(at(1, SECOND), transitional=False)
    assert heard(seen.stretches, 0, 1, 2, 3, 4, 5, 6) == [1, 3, 5]


def test_stretches_that_share_a_job_are_united_and_others_are_not() -> None:
    assert unite([[stretch(1, 4)], [stretch(4, 6)]]) == [stretch(1, 6)]
    assert unite([[stretch(1, 9)], [stretch(3, 3), stretch(9, 9)]]) == [stretch(1, 9)]
    apart = [stretch(1, 3), stretch(6, 8)]
    assert unite([apart[1:], apart[:1]]) == apart
    assert unite([apart, [stretch(3, 6)]]) == [stretch(1, 8)]


def test_a_union_has_what_any_part_has_and_nothing_else() -> None:
    """Random parts: in each, places of one view that it was there for, and some of the end."""
    rng = Random(5)
    for _ in range(300):
        parts: list[list[Stretch]] = []
        expected: set[int] = set()
        for _ in range(rng.randint(1, 4)):
            cuts = sorted(rng.sample(range(40), 2 * rng.randint(0, 3)))
            part = [stretch(*pair) for pair in zip(cuts[::2], cuts[1::2], strict=True)]
            expected.update(*(range(a.time, b.time + 1) for a, b in part))
            parts.append(part)
        united = unite(parts)
        assert heard(united, *range(40)) == sorted(expected)
        assert all(one[1] < other[0] for one, other in pairwise(united))


def test_the_earliest_stretches_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_seen, "MOST_STRETCHES", 3)
    seen = Seen()
    for time in range(1, 6):
        seen.note(at(time), transitional=True)
    assert heard(seen.stretches, *range(9)) == [3, 4, 5]
    assert heard(unite([seen.stretches, [stretch(1, 1), stretch(7, 8)]]), *range(9)) == [4, 5, 7, 8]
