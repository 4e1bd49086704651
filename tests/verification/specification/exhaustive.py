"""The search of a model: all states within its bounds, in breadth, each checked by the invariants.

Breadth first, so that a counterexample is a shortest one.
"""

from collections import deque
from collections.abc import Hashable
from typing import TypeVar

import attrs

from tests.verification.specification.form import Label, Model, State

S = TypeVar("S", bound=State)


@attrs.frozen(kw_only=True)
class Explored:
    """The result of a search.

    Attributes:
        states: the number of different states.
        transitions: the number of enabled actions that were taken from them.
        depth: the most actions from a beginning to a state, each state by its shortest way.
        broken: the invariant that does not hold in the last state of `path`; None if all hold.
        path: the actions that lead to that state.
        is_complete: whether all states within the bounds were reached.
    """

    states: int
    transitions: int
    depth: int
    broken: str | None = None
    path: tuple[Label, ...] = ()
    is_complete: bool = True


def explore(model: Model[S], most_states: int = 10**9) -> Explored:
    """Explore all states of a model, up to the first that breaks an invariant.

    Args:
        model: the specification and its bounds.
        most_states: the number of states after which the search ends, incomplete.
    """
    ways: dict[Hashable, tuple[Hashable, Label] | None] = {}
    edge: deque[tuple[S, int]] = deque()
    transitions = depth = 0
    for state in model.beginnings():
        if state.key not in ways:
            ways[state.key] = None
            edge.append((state, 0))
    while edge:
        state, depth = edge.popleft()
        key = state.key
        broken = model.broken(state)
        if broken is not None:
            path = _path_to(key, ways)
            return Explored(
                states=len(ways), transitions=transitions, depth=depth, broken=broken, path=path
            )
        if len(ways) >= most_states:
            return Explored(
                states=len(ways), transitions=transitions, depth=depth, is_complete=False
            )
        for label in model.labels(state):
            following = model.apply(state, label)
            if following is None:
                continue
            transitions += 1
            other = following.key
            if other not in ways:
                ways[other] = (key, label)
                edge.append((following, depth + 1))
    return Explored(states=len(ways), transitions=transitions, depth=depth)


def _path_to(
    key: Hashable, ways: dict[Hashable, tuple[Hashable, Label] | None]
) -> tuple[Label, ...]:
    path: list[Label] = []
    way = ways[key]
    while way is not None:
        key, label = way
        path.append(label)
        way = ways[key]
    return tuple(reversed(path))
