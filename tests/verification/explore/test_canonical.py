"""The canonical digest: what makes two daemons the same, and what does not."""

from collections.abc import Callable
from typing import Any

import pytest

from groupcomm.engine.counters import Counters
from tests.verification.explore.canonical import EPOCH, TICK, digest_of
from tests.verification.explore.scenarios import SCENARIOS, begin
from tests.verification.explore.transitions import Bounds

pytestmark = pytest.mark.verification


class Thing:
    """Some object with attributes, as parts of a core have them."""

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


def digest(value: object, now: float = EPOCH) -> bytes:
    return digest_of(value, now, {})


SAME: tuple[tuple[object, object], ...] = (
    (Thing(a=[1, "x"]), Thing(a=[1, "x"])),
    (Thing(a={3, 1, 2}), Thing(a={2, 3, 1})),
    (memoryview(b"xyz")[1:], memoryview(b"yz")),
    ("ab" * 2, "abab"),
)

DIFFERENT: tuple[tuple[object, object], ...] = (
    (Thing(a=1), Thing(a=2)),
    (Thing(a=1), Thing(b=1)),
    (Thing(a=[1]), Thing(a=(1,))),
    (Thing(a=True), Thing(a=1)),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),  # its order may matter to who iterates
    ([[1], [2]], [[1, 2]]),
    (Thing(a=0.25), Thing(a=0.5)),
)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_objects_have_one_digest(one: object, other: object) -> None:
    assert digest(one) == digest(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_objects_have_different_digests(one: object, other: object) -> None:
    assert digest(one) != digest(other)


def test_times_are_relative_to_the_present() -> None:
    later = EPOCH + 1000 * TICK
    assert digest(Thing(due=EPOCH + 0.5)) == digest(Thing(due=later + 0.5), later)
    assert digest(Thing(due=EPOCH + 0.5)) != digest(Thing(due=later + 0.6), later)


def test_an_object_that_is_shared_differs_from_two_equal_ones() -> None:
    """A change of the one would be a change of the other."""
    shared = [1]
    assert digest([shared, shared]) != digest([[1], [1]])


def test_objects_that_refer_to_each_other_have_a_digest() -> None:
    one, other = Thing(), Thing()
    one.other, other.other = other, one  # type: ignore[attr-defined]
    assert digest(one) == digest(other)


def test_counts_for_operators_are_left_out() -> None:
    counters = Counters()
    counters.received += 1
    assert digest(counters) == digest(Counters())


def _lower_the_mark(core: Any) -> None:
    core.reservation.mark -= 1


def _hear_later(core: Any) -> None:
    next(iter(core.membership.peers.values())).heard_at += 0.01


def _lose_a_packet(core: Any) -> None:
    assert core.view_state is not None
    core.view_state.streams[0].packets.popitem()


@pytest.mark.parametrize("change", [_lower_the_mark, _hear_later, _lose_a_packet])
def test_no_part_of_a_daemon_is_overlooked(change: Callable[[Any], None]) -> None:
    beginning = begin(SCENARIOS["agreed-2"], Bounds())
    nodes, number = beginning.nodes, beginning.state.nodes[0]
    same = nodes.change(number, lambda node: None)
    assert same == number
    assert nodes.change(number, lambda node: change(node.core)) != number
