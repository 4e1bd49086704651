"""What programs of Spread send, as drawn: to one group or many, with all services and bits."""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from tests.groupcommd import spread_client as spread

SERVICES: Final = (spread.RELIABLE, spread.FIFO, spread.CAUSAL, spread.AGREED, spread.SAFE)
OWN_SERVICES: Final = (spread.AGREED, spread.SAFE)
"""Of programs of our own: their lower levels promise less than Spread's programs may rely on."""

BITS: Final = (0, 0, spread.SELF_DISCARD, 1 << 28, 1 << 29, 1 << 30, 7 << 28)
"""The bits of type besides the service that reach receivers."""

OWN_BITS: Final = BITS[:3]

MANY: Final = (2, 43, 100)
"""The groups of a message to many; Spread keeps messages to up to 43 groups whole."""

CHURN: Final = 0.05
"""The share of sends before which a client leaves its group and joins it again."""

_WIDE: Final = 0.05
_PADDING: Final = (0, 100, 3000)


class Draft(NamedTuple):
    """A message to send; its data are a number and this many more bytes."""

    groups: list[str]
    service: int
    tag: int
    padding: int

    @property
    def is_wide(self) -> bool:
        """Return whether it goes to several groups."""
        return len(self.groups) > 1


def group_name(number: int) -> str:
    """Return the name of a group, of as many bytes as a name may have."""
    return f"g{number:030}"


def draw_groups(draw: Random, own: int, count: int) -> list[str]:
    """Draw the destinations of a message of a member of a group, one of `count`; rarely many.

    Some of many are groups of nobody, so the names alone may need more than a packet.
    """
    numbers = {own}
    if draw.random() < _WIDE:
        numbers |= {*draw.sample(range(count), draw.randrange(1, count + 1))}
        numbers |= {*range(count, count + draw.choice(MANY) - len(numbers))}
    found = sorted(numbers)
    draw.shuffle(found)
    return [*map(group_name, found)]


def draw_message(draw: Random, groups: list[str], *, is_own: bool = False) -> Draft:
    """Draw a message to these destinations; `is_own`: of a program that is not Spread's."""
    services: Sequence[int] = OWN_SERVICES if is_own else SERVICES
    service = draw.choice(services) | draw.choice(OWN_BITS if is_own else BITS)
    return Draft(groups, service, draw.randrange(1 << 16), draw.choice(_PADDING))
