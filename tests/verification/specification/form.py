"""The form of a specification: variables, actions with conditions, and invariants.

It is that of TLA+, in Python. A *state* gives each variable a value. An *action* is a method that
takes a state and arguments. It first names its conditions with `need`: if one does not hold, the
action is disabled there. Then it changes the state into the next one. A *behaviour* is a sequence
of states, each made from the one before it by an enabled action.

An action changes the state that it is given: the search copies a state before it tries an action,
and the check of a run, which never goes back, spares the copy. All conditions come before the first
change, so a disabled action changes nothing.

Messages that daemons send stay in the state for good, and a daemon may act upon any of them at any
time or never. So loss, delay, repetition and reordering need no actions of their own; nor does a
crash, which is a daemon that takes no further step.
"""

import enum
from collections.abc import Hashable, Iterator
from typing import Any, Generic, Self, TypeVar

import attrs

Label = tuple[Any, ...]
"""The name of an action, which is that of a method, and its arguments."""


class Disabled(Exception):
    """Raised by an action that is not enabled; the condition says why.

    Attributes:
        condition: the condition that does not hold.
    """

    def __init__(self, condition: enum.Enum) -> None:
        super().__init__(condition.value)
        self.condition = condition


@attrs.define(eq=False)
class State:
    """The values of all variables; subclasses declare these.

    Each is a dict, set or list with unchangeable contents, or is unchangeable itself.
    """

    def copy(self) -> Self:
        """Return a state with the same values, to be changed into the next one."""
        values = (getattr(self, name) for name in _variables(type(self)))
        return type(self)(
            *(value.copy() if isinstance(value, dict | set | list) else value for value in values)
        )

    @property
    def key(self) -> Hashable:
        """Return a value that is equal for equal states only."""
        values = (getattr(self, name) for name in _variables(type(self)))
        return tuple(
            frozenset(value.items())
            if isinstance(value, dict)
            else frozenset(value)
            if isinstance(value, set)
            else tuple(value)
            if isinstance(value, list)
            else value
            for value in values
        )


_NAMES: dict[str, tuple[str, ...]] = {}


def _variables(kind: type[State]) -> tuple[str, ...]:
    """Return the names of a state's variables; looked up often, found once."""
    names = _NAMES.get(kind.__qualname__)
    if names is None:
        names = _NAMES[kind.__qualname__] = tuple(field.name for field in attrs.fields(kind))
    return names


S = TypeVar("S", bound=State)


class Specification(Generic[S]):
    """The actions of a machine.

    Args:
        dropped: conditions that are left out, to see which invariant they keep.
    """

    def __init__(self, dropped: frozenset[enum.Enum] = frozenset()) -> None:
        self._dropped = dropped

    def need(self, holds: bool, condition: enum.Enum) -> None:
        """Raise Disabled unless a condition holds or is left out."""
        if not holds and condition not in self._dropped:
            raise Disabled(condition)


class Model(Generic[S]):
    """A specification within bounds: what the search explores.

    Attributes:
        specification: its actions.
    """

    specification: Specification[Any]

    def beginnings(self) -> Iterator[S]:
        """Yield the states in which a behaviour may begin."""
        raise NotImplementedError

    def labels(self, state: S) -> Iterator[Label]:
        """Yield the actions to be tried in a state, enabled or not."""
        raise NotImplementedError

    def broken(self, state: S) -> str | None:
        """Return the invariant that does not hold in a state; None if all hold."""
        raise NotImplementedError

    def apply(self, state: S, label: Label) -> S | None:
        """Return the state after an action; None if it is disabled."""
        following = state.copy()
        try:
            getattr(self.specification, label[0])(following, *label[1:])
        except Disabled:
            return None
        return following
