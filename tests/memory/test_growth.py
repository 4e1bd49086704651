"""A daemon keeps no state of finished groups, names, users, connections, views, starts.

The objects reachable from the cores are counted after some rounds and after more of them, by place.
The same with a million of each, and with real daemons, is `make campaigns`
(tests/verification/campaigns/memory.py).
"""

from collections import Counter
from collections.abc import Callable

import pytest

from groupcomm.security import opening
from tests.memory.rounds import Rounds
from tests.memory.walker import grown, sizes

BRIEFLY_S = 0.2


def leaks(turn: Callable[[], None], look: Callable[[], Counter[str]], *, times: int) -> list[str]:
    """Return the places that grow at both daemons with each turn, once there were a few turns."""
    few = times // 2
    for _ in range(few):
        turn()
    before = look()
    for _ in range(times):
        turn()
    places = grown(before, look())
    return [f"{at}: {old}, {new}" for at, (old, new) in places.items() if new - old >= 2 * times]


@pytest.mark.long
def test_nothing_is_kept_of_groups_names_and_users() -> None:
    """All in one view of two rings, where daemons subscribe to groups."""
    rounds = Rounds()

    def turn() -> None:
        rounds.use_groups(8)
        rounds.use_private_names(8)
        rounds.use_users(8)

    assert leaks(turn, rounds.look, times=6) == []


@pytest.mark.long
def test_nothing_is_kept_of_views_however_fast_they_follow_each_other() -> None:
    rounds = Rounds(suite=2)

    def look() -> Counter[str]:
        return rounds.look(BRIEFLY_S)

    assert leaks(rounds.change_views, look, times=15) == []


@pytest.mark.verification
@pytest.mark.parametrize("suite", [pytest.param(0, marks=pytest.mark.long), 2])
def test_nothing_is_kept_of_starts_that_are_over(
    suite: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The windows of many starts stay, as their datagrams may be replayed."""
    monkeypatch.setattr(opening, "MAX_PEERS", 8)
    rounds = Rounds(suite=suite)
    assert leaks(rounds.restart, rounds.look, times=8) == []


class _Slotted:
    __slots__ = ("_held",)

    def __init__(self, held: object) -> None:
        self._held = held


def test_what_grows_is_found_wherever_it_is() -> None:
    one = _Slotted({"a": _Slotted([bytes(100)])})
    longer = _Slotted({"a": _Slotted([bytes(200)])})
    more = _Slotted({"a": _Slotted([bytes(100)]), "b": _Slotted([])})
    assert grown(sizes(one), sizes(longer)) == {"_Slotted._held[]": (100, 200)}
    assert grown(sizes(one), sizes(more)) == {
        "_Slotted._held": (2, 3),
        "objects of _Slotted": (2, 3),
    }
