"""Linearizability: is there one order of all operations that explains each result?

The search of Wing and Gong ("Testing and verifying concurrent objects", JPDC 1993) with the memory
of Lowe ("Testing for linearizability", CCPE 2017): operations take effect one after the other,
each between its call and its end, and no state is tried twice after the same operations. Objects
are independent of each other, so each is searched alone (Horn and Kroening, FORTE 2015).

An operation of unknown outcome may take effect at any time after its call, or never; one that
failed has none.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final

import attrs

from tests.verification.campaigns.consistency.operations import Operation, by_key

Step = Callable[[Any, Operation], tuple[bool, Any]]
"""Returns whether an operation may have its result in a state, and the state after it."""

MOST_STATES: Final = 2_000_000
"""The number of states after which a search gives up."""


class GaveUp(Exception):
    """A record has too many operations at the same time."""


def register_step(state: Any, operation: Operation) -> tuple[bool, Any]:
    """A register with reads, writes and compare-and-set; None at first."""
    known = operation.outcome == "ok"
    match operation.act:
        case ["read"]:
            return not known or operation.result == state, state
        case ["write", value]:
            return True, value
        case ["cas", old, new]:
            done = state == old
            return not known or operation.result == done, new if done else state
        case _:
            raise ValueError(f"no register has {operation.act}")


@attrs.frozen
class NotLinearizable:
    """An object whose operations no order explains.

    Attributes:
        key: the object.
        operations: the number of its operations.
        stuck: the operations of which none could come next, in the longest order that was found.
    """

    key: str
    operations: int
    stuck: tuple[Operation, ...]

    def __str__(self) -> str:
        acts = "; ".join(f"{o.process}: {o.act} -> {o.result}" for o in self.stuck[:5])
        return f"no order explains {self.operations} operations on {self.key!r}; stuck at: {acts}"


def check_registers(operations: Sequence[Operation]) -> list[NotLinearizable]:
    """Return the registers whose operations are not linearizable."""
    found = (check_object(each, None, register_step) for each in by_key(operations).values())
    return [each for each in found if each is not None]


def check_object(operations: Sequence[Operation], first: Any, step: Step) -> NotLinearizable | None:
    """Search an order for the operations on one object.

    Args:
        operations: the operations.
        first: the state at first; states are hashable.
        step: the object.

    Raises:
        GaveUp: there are too many possible orders.
    """
    effective = [o for o in operations if o.outcome != "failed" and not _is_idle(o)]
    effective.sort(key=lambda operation: operation.call)
    search = _Search(effective, step)
    if search.run(first):
        return None
    return NotLinearizable(operations[0].key, len(operations), search.stuck)


def _is_idle(operation: Operation) -> bool:
    """Return whether it is a read without a result, which says nothing."""
    return operation.outcome == "unknown" and operation.act == ["read"]


class _Search:
    """A search, depth first.

    Operations are numbered by their calls. Those that have taken effect are all below `low`, and
    some others: so the memory is small, however long the record is.
    """

    def __init__(self, operations: Sequence[Operation], step: Step) -> None:
        self._operations = operations
        self._step = step
        known = [operation.outcome == "ok" for operation in operations]
        self._known = known
        self._known_below = [0, *accumulate(known)]
        self._seen: set[tuple[int, frozenset[int], Any]] = set()
        self._best = -1
        self.stuck: tuple[Operation, ...] = ()

    def run(self, first: Any) -> bool:
        stack: list[tuple[int, frozenset[int], Any]] = [(0, frozenset(), first)]
        while stack:
            low, more, state = stack.pop()
            if (low, more, state) in self._seen:
                continue
            self._seen.add((low, more, state))
            if len(self._seen) > MOST_STATES:
                raise GaveUp(f"{len(self._operations)} operations have too many possible orders")
            waiting = self._waiting(low, more)
            done = self._known_below[low] + sum(self._known[n] for n in more)
            if done == self._known_below[-1]:
                return True
            if low + len(more) > self._best:
                self._best = low + len(more)
                self.stuck = tuple(self._operations[n] for n in waiting)
            for number in reversed(waiting):
                fits, after = self._step(state, self._operations[number])
                if fits:
                    stack.append((*self._with(low, more, number), after))
        return False

    def _waiting(self, low: int, more: frozenset[int]) -> list[int]:
        """Return the operations that may come next: called before any other one has ended."""
        found: list[int] = []
        ends = float("inf")
        for number in range(low, len(self._operations)):
            operation = self._operations[number]
            if operation.call > ends:
                break
            if number not in more:
                found.append(number)
                ends = min(ends, operation.last)
        return [n for n in found if self._operations[n].call <= ends]

    def _with(self, low: int, more: frozenset[int], number: int) -> tuple[int, frozenset[int]]:
        done = {*more, number}
        while low in done:
            done.remove(low)
            low += 1
        return low, frozenset(done)
