"""Deliberately wrong variants of the core: do the simulator and its checkers find them?

`make soak` hunts every one of them anew; docs/mutants.md says which seeds the last hunt found.
"""

from groupcomm.errors import ConfigError
from tests.verification.mutants import (
    clients,
    differences,
    groups,
    links,
    locality,
    minority,
    order,
    relays,
    ring,
    rosters,
    security,
    segments,
    sites,
    staying,
    versions,
    views,
    votes,
)
from tests.verification.mutants.mutant import Mutant

PARTS = (
    clients,
    differences,
    groups,
    links,
    locality,
    minority,
    order,
    relays,
    ring,
    rosters,
    security,
    segments,
    sites,
    staying,
    versions,
    views,
    votes,
)

MUTANTS: tuple[Mutant, ...] = tuple(
    sorted(
        (bug for part in PARTS for bug in part.BUGS),
        key=lambda bug: bug.name,
    )
)
"""All mutants, sorted by name."""


def find_mutant(name: str) -> Mutant:
    """Return the bug of this name.

    Raises:
        ConfigError: there is none; the text lists those that exist.
    """
    for bug in MUTANTS:
        if bug.name == name:
            return bug
    names = ", ".join(bug.name for bug in MUTANTS)
    raise ConfigError(f"no mutant is named {name!r}; there are: {names}")
