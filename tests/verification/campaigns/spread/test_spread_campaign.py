"""A short campaign of clients of Spread, and the findings of its checker."""

import json
import struct

import pytest

from tests.groupcommd.spread_client import AGREED, BY_JOIN, BY_NETWORK, REGULAR_VIEW, Received
from tests.verification.campaigns.spread import campaign
from tests.verification.campaigns.spread.checker import SpreadChecker

pytestmark = pytest.mark.verification


def test_clients_of_spread_are_promised_the_same_through_disasters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = campaign.main(["--clients", "12", "--groups", "2", "--disasters", "1", "--rate", "60"])
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (status, found["violations"], found["daemons_violations"]) == (0, [], []), shown.err
    assert found["messages"] > 100
    assert found["compared"] > 5


def view(key: bytes, members: tuple[str, ...], own: tuple[str, ...], cause: int) -> Received:
    """A view of the group g, with all its members in one set."""
    names = b"".join(name.encode().ljust(32, b"\0") for name in own)
    data = key.ljust(12) + struct.pack("<III", 1, 0, len(own)) + names
    return Received(
        type=REGULAR_VIEW | cause, sender="g", groups=members, tag=0, mismatch=False, data=data
    )


def message(number: int) -> Received:
    """A message of x to the group g."""
    data = b"%012d" % number
    return Received(type=AGREED, sender="x", groups=("g",), tag=0, mismatch=False, data=data)


BOTH = ("a", "b")


def played(*seen: tuple[int, Received]) -> SpreadChecker:
    """A checker that two sessions, a and b, have told of one view, and then of this."""
    checker = SpreadChecker()
    for session, name in enumerate(BOTH):
        checker.see(session, name, view(b"1", BOTH, ("b",), BY_JOIN))
    for session, told in seen:
        checker.see(session, BOTH[session], told)
    return checker


NEXT = view(b"2", BOTH, BOTH, BY_NETWORK)


def test_who_has_seen_the_same_has_broken_nothing() -> None:
    checker = played(*((s, m) for m in (message(1), message(2), NEXT) for s in (0, 1)))
    assert (checker.violations, checker.compared) == ([], 1)


@pytest.mark.parametrize(
    "seen",
    [
        [(0, message(1)), (0, NEXT), (1, NEXT)],  # one session lacks a message
        [(0, message(2)), (0, message(1))],  # two messages are out of their sender's order
        [(0, message(1)), (0, message(1))],  # a message comes twice
        [(0, NEXT), (1, view(b"2", ("b", "a"), BOTH, BY_NETWORK))],  # members in another order
        [(0, view(b"2", ("b",), ("b",), BY_NETWORK))],  # a session is not in its own view
        [(0, Received(type=0x2000, sender="g", groups=(), tag=0, mismatch=False, data=b"9"))],
    ],
)
def test_what_breaks_a_promise_is_found(seen: list[tuple[int, Received]]) -> None:
    assert played(*seen).violations
