"""Deliberately wrong variants of the core: do the simulator and its oracles find them?

`make soak` hunts every one of them anew; docs/known-bugs.md says which seeds the last hunt found.
"""

from groupcomm.errors import ConfigError
from groupcomm.sim.variants import (
    clients,
    groups,
    links,
    order,
    ring,
    security,
    sites,
    staying,
    views,
)
from groupcomm.sim.variants.bug import KnownBug

KNOWN_BUGS: tuple[KnownBug, ...] = tuple(
    sorted(
        (
            bug
            for part in (clients, groups, links, order, ring, security, sites, staying, views)
            for bug in part.BUGS
        ),
        key=lambda bug: bug.name,
    )
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
