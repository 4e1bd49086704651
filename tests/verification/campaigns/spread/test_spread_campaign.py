"""A short campaign of clients of Spread, and the findings of its checker."""

import struct

import attrs
import pytest

from tests.groupcommd.spread_client import AGREED, BY_JOIN, BY_NETWORK, REGULAR_VIEW, Received
from tests.verification.campaigns.runner import figures_of
from tests.verification.campaigns.spread import simulated
from tests.verification.campaigns.spread.checker import SpreadChecker, numbered
from tests.verification.mutants import spread as spread_mutants

pytestmark = pytest.mark.verification


def test_clients_of_spread_are_promised_the_same_through_disasters() -> None:
    found = figures_of("spread --clients 12 --groups 2 --disasters 1 --rate 60")
    assert found["messages"] > 100
    assert found["compared"] > 5


def view(key: bytes, members: tuple[str, ...], own: tuple[str, ...], cause: int) -> Received:
    """A view of the group g, with all its members in one set."""
    names = b"".join(name.encode().ljust(32, b"\0") for name in own)
    data = key.ljust(12) + struct.pack("<III", 1, 0, len(own)) + names
    return Received(
        type=REGULAR_VIEW | cause, sender="g", groups=members, tag=0, mismatch=False, data=data
    )


def message(number: int, sender: str = "x") -> Received:
    """A message to the group g; those of each sender have an order of their own."""
    data = numbered(number)
    return Received(type=AGREED, sender=sender, groups=("g",), tag=0, mismatch=False, data=data)


BOTH = ("a", "b")
NEXT = view(b"2", BOTH, BOTH, BY_NETWORK)
ONE, TWO, OTHER = message(1), message(2), message(3, "y")


def played(*seen: tuple[int, Received]) -> SpreadChecker:
    """A checker that two sessions, a and b, have told of one view, and then of this."""
    checker = SpreadChecker()
    for sent in (ONE, TWO, OTHER):
        checker.send(sent)
    for session, name in enumerate(BOTH):
        checker.see(session, name, view(b"1", BOTH, ("b",), BY_JOIN))
    for session, told in seen:
        checker.see(session, BOTH[session], told)
    checker.finish()
    return checker


def test_who_has_seen_the_same_has_broken_nothing() -> None:
    checker = played(*((s, m) for m in (ONE, OTHER, TWO, NEXT) for s in (0, 1)))
    assert (checker.violations, checker.compared) == ([], 1)


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        ([(0, ONE), (0, NEXT), (1, NEXT)], "two members have other messages: "),
        ([(0, TWO), (0, ONE)], "a message comes out of order: x 1 behind 2"),
        ([(0, ONE), (0, ONE)], "a message comes out of order: x 1 behind 1"),
        ([(0, ONE), (0, OTHER), (1, OTHER), (1, ONE)], "no order is that of all sessions: "),
        ([(0, attrs.evolve(ONE, tag=5))], "a message is another one than was sent: 1"),
        (
            [(0, attrs.evolve(ONE, type=AGREED | 1 << 30))],
            "a message is another one than was sent: 1",
        ),
        (
            [(0, NEXT), (1, view(b"2", ("b", "a"), BOTH, BY_NETWORK))],
            "a view is another one elsewhere: ",
        ),
        ([(0, view(b"2", ("b",), ("b",), BY_NETWORK))], "a member is not in its view: a of g"),
        (
            [(0, view(b"2", ("a",), ("a",), BY_NETWORK))],
            "members are lost without a transition: ['b']",
        ),
        (
            [(0, attrs.evolve(NEXT, type=0x2000, groups=(), data=b"9"))],
            "a transition ends no view: 0x2000 of g",
        ),
    ],
)
def test_what_breaks_a_promise_is_found(seen: list[tuple[int, Received]], found: str) -> None:
    assert any(found in text for text in played(*seen).violations)


def test_what_is_owed_and_does_not_come_is_found() -> None:
    checker = played()
    checker.owed[0] |= {1, 2}
    checker.see(0, "a", ONE)
    checker.end_owing()
    assert checker.violations == ["what is owed does not come: [2] to 0"]


def test_programs_of_spread_keep_their_promises_under_all_faults_of_the_simulator() -> None:
    crowd = simulated.play(6)
    assert crowd.checker.compared > 20


def test_messages_to_many_groups_that_are_overtaken_are_found() -> None:
    with spread_mutants.messages_to_many_are_overtaken.active(), pytest.raises(AssertionError):
        simulated.play(1)
