"""Configurations that differ from that of all other hosts: an operator has changed some files."""

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.config.shared import must_equal, shared_settings
from groupcomm.security.layout import SUITE_IDENTITIES

EXTRA: Final = "zz-guest"
"""A daemon that some files list, and that never runs."""

OTHERS: Final = 2
"""Configurations of one run that differ from the common one; several hosts may have the same."""

Change: TypeAlias = Callable[[Random, CoreConfig], CoreConfig | None]
"""Returns a configuration with a change, or None where there is nothing to change."""


def other_configs(rng: Random, config: CoreConfig) -> tuple[CoreConfig, ...]:
    """Draw configurations that each differ from `config` in one setting."""
    found: list[CoreConfig] = []
    while len(found) < OTHERS:
        other = rng.choice(_CHANGES)(rng, config)
        if other is not None:
            found.append(other)
    return tuple(found)


def without(config: CoreConfig, name: str) -> CoreConfig | None:
    """Return a configuration that does not list a daemon; None if its site has no other one."""
    sites = tuple(tuple(each for each in site if each != name) for site in config.sites)
    return attrs.evolve(config, sites=sites) if all(sites) else None


def is_alike(one: CoreConfig, other: CoreConfig) -> bool:
    """Return whether daemons with these configurations may be in one view."""
    digests = [must_equal(shared_settings(config).digests) for config in (one, other)]
    return digests[0] == digests[1]


def _drop(rng: Random, config: CoreConfig) -> CoreConfig | None:
    return without(config, rng.choice(config.daemons))


def _add(rng: Random, config: CoreConfig) -> CoreConfig | None:
    if config.suite == SUITE_IDENTITIES:
        return None  # each listed daemon needs an identity
    place = rng.randrange(len(config.sites))
    sites = list(config.sites)
    sites[place] = (*sites[place], EXTRA)
    return attrs.evolve(config, sites=tuple(sites))


def _move(rng: Random, config: CoreConfig) -> CoreConfig | None:
    name, place = rng.choice(config.daemons), rng.randrange(len(config.sites))
    left = without(config, name)
    if left is None or name in config.sites[place]:
        return None
    sites = list(left.sites)
    sites[place] = tuple(sorted((*sites[place], name)))
    return attrs.evolve(config, sites=tuple(sites))


def _time_out(rng: Random, config: CoreConfig) -> CoreConfig:
    timeout_s = config.timing.token_timeout_s * rng.choice((0.5, 2.0))
    return attrs.evolve(config, timing=attrs.evolve(config.timing, token_timeout_s=timeout_s))


def _limit(rng: Random, config: CoreConfig) -> CoreConfig:
    return attrs.evolve(config, packet_limit=config.packet_limit + rng.choice((-300, 300)))


def _expect(rng: Random, config: CoreConfig) -> CoreConfig:
    return attrs.evolve(config, expected_daemons=len(config.daemons) + rng.randint(1, 3))


def _delay(rng: Random, config: CoreConfig) -> CoreConfig | None:
    if not config.link_delays_us:
        return None
    links = list(config.link_delays_us)
    place = rng.randrange(len(links))
    one, other, delay_us = links[place]
    links[place] = one, other, 2 * delay_us + 1
    return attrs.evolve(config, link_delays_us=tuple(links))


def _narrow(rng: Random, config: CoreConfig) -> CoreConfig:
    """Change windows, which only should be equal: such daemons form views with all others."""
    windows = attrs.evolve(config.windows, visit_bytes=config.windows.visit_bytes // 2)
    return attrs.evolve(config, windows=windows)


_CHANGES: Final[tuple[Change, ...]] = (
    _drop,
    _drop,
    _add,
    _add,
    _move,
    _time_out,
    _limit,
    _expect,
    _delay,
    _narrow,
)
