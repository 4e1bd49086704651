"""Releases of one cluster: each start of a daemon may have another one."""

from random import Random
from typing import Final

import attrs

from groupcomm.config.versions import (
    ADDRESSED,
    COLUMNS,
    DIGESTS,
    PACKED,
    SEGMENTS,
    Versions,
)

MEETING: Final = (
    Versions(lowest=1, highest=1),
    Versions(lowest=1, highest=PACKED, features=0b1),
    Versions(lowest=1, highest=PACKED, features=0b11 | DIGESTS | COLUMNS | ADDRESSED),
    Versions(lowest=1, highest=PACKED + 1, features=0b110 | DIGESTS | COLUMNS),
)
"""Releases of which each two share a version; not all have the same features."""

APART: Final = Versions(lowest=PACKED, highest=PACKED + 2, features=0b111)
"""A release that shares a version with some of these only."""

APART_SHARE: Final = 0.15

JOINS_SEGMENTS_SHARE: Final = 0.8
"""Where packets travel in segments, the share of starts whose release joins them."""


def draw_release(rng: Random, *, meets_all: bool, segments: bool = False) -> Versions:
    """Draw the versions and features of one start.

    Args:
        rng: the random source.
        meets_all: whether it must share a version with all others.
        segments: whether most releases join segments.
    """
    lot, found = rng.random(), rng.choice(MEETING)
    if lot < APART_SHARE and not meets_all:
        return APART
    if segments and rng.random() < JOINS_SEGMENTS_SHARE:
        return attrs.evolve(found, features=found.features | SEGMENTS)
    return found
