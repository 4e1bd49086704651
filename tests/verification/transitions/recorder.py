"""The recorder of transitions: it watches an attribute of a class while runs go on.

The attribute is replaced by a property for that time, so every assignment is seen, also several in
one step. The machines themselves know nothing of it.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import attrs

Transition: TypeAlias = tuple[str, str, str]
"""The name of a machine, the state before, and the state after; both may be the same."""

BEGIN = "-"
"""The state before the first."""


@attrs.frozen
class Machine:
    """One state machine.

    Attributes:
        name: its name in the table.
        owner: the class.
        attribute: the attribute that holds the state.
        states: the states.
        after: for each state, the states that may follow it, with spaces between them.
    """

    name: str
    owner: type
    attribute: str
    states: type[enum.Enum]
    after: dict[str, str]

    @property
    def transitions(self) -> list[Transition]:
        """Return all transitions that may happen."""
        return [
            (self.name, before, after)
            for before, follow in self.after.items()
            for after in follow.split()
        ]


@contextmanager
def recording(machines: Iterable[Machine]) -> Iterator[Counter[Transition]]:
    """Count the transitions of machines while the context lasts."""
    reached: Counter[Transition] = Counter()
    with ExitStack() as stack:
        for machine in machines:
            before = vars(machine.owner).get(machine.attribute)
            setattr(machine.owner, machine.attribute, _watched(machine, before, reached))
            if before is None:
                stack.callback(delattr, machine.owner, machine.attribute)
            else:
                stack.callback(setattr, machine.owner, machine.attribute, before)
        yield reached


def _watched(machine: Machine, slot: Any, reached: Counter[Transition]) -> property:
    """Return a property in place of a slot, or of an entry in the dictionary of each object."""
    name = machine.attribute

    def get(owner: Any) -> Any:
        return owner.__dict__[name] if slot is None else slot.__get__(owner)

    def set_(owner: Any, value: enum.Enum) -> None:
        try:
            before = get(owner).name
        except (AttributeError, KeyError):
            before = BEGIN
        reached[machine.name, before, value.name] += 1
        if slot is None:
            owner.__dict__[name] = value
        else:
            slot.__set__(owner, value)

    return property(get, set_)
