"""Deliberately wrong variants of the core: do the simulator and its oracles find them?

Each replaces one attribute of one class for the length of a run. `make soak` hunts every one of
them anew; tests/simulation/test_known_bugs.py replays the seeds that found them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from groupcomm.clocks.ring_clock import RingClock
from groupcomm.errors import ConfigError


@attrs.frozen(kw_only=True)
class KnownBug:
    """One way to do it wrong.

    Attributes:
        name: as the command line takes it, words with hyphens between them.
        sentence: what is wrong, in one sentence.
        owner: the class to change.
        attribute: the name of what is replaced, mostly a method.
        variant: makes the wrong one from the right one.
    """

    name: str
    sentence: str
    owner: type
    attribute: str
    variant: Callable[[Any], Any]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Be wrong while the context lasts."""
        right = self.owner.__dict__[self.attribute]
        setattr(self.owner, self.attribute, self.variant(right))
        try:
            yield
        finally:
            setattr(self.owner, self.attribute, right)


def _follow_nothing(_right: object) -> object:
    def follow(_clock: RingClock, _time: int) -> None:
        """Forget the stamp."""

    return follow


KNOWN_BUGS: tuple[KnownBug, ...] = (
    KnownBug(
        name="clock-ignores-stamps",
        sentence="A holder of the token does not set its clock above the stamps it has received.",
        owner=RingClock,
        attribute="follow",
        variant=_follow_nothing,
    ),
)
"""All of them, sorted by name."""


def find_known_bug(name: str) -> KnownBug:
    """The bug of this name.

    Raises:
        ConfigError: there is none; the text lists those that exist.
    """
    for bug in KNOWN_BUGS:
        if bug.name == name:
            return bug
    names = ", ".join(bug.name for bug in KNOWN_BUGS)
    raise ConfigError(f"no known bug is named {name!r}; there are: {names}")
