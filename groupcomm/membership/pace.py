"""The pace of messages about views: the more daemons there are, the rarer are repetitions.

Pure. Each daemon gets the messages of all others, so what it gets in a second does not grow.
"""

from typing import Final

import attrs

from groupcomm.config.core import CoreConfig, Timing

CROWD: Final = 16
"""The daemons from which on each repeats itself less often, so that none gets more of others."""

MOST_CROWDS: Final = 4.0
"""The most by which repetitions are rarer: an attempt has time for two."""


HOLD_S: Final = 0.008
"""The time for which a relay holds joins and commits, as others and later ones may come."""

HOLDS: Final = 5
"""The times that they are held on the way to another daemon and back: by the relay of the own site,
by one in between if they go around, and for half the time by that of the other site."""


def are_few(config: CoreConfig) -> bool:
    """Return whether there are so few daemons that short times count for more than few messages."""
    return not config.is_large


def crowd_of(config: CoreConfig) -> float:
    """Return the factor by which messages are repeated less often, 1 to MOST_CROWDS."""
    return min(max(1.0, len(config.daemons) / CROWD), MOST_CROWDS)


def paced(config: CoreConfig) -> Timing:
    """Return the timing of a cluster with the times that suit the number of its daemons."""
    timing = config.timing
    wait_s = timing.gather_wait_s + (HOLDS * HOLD_S if config.has_relays else 0.0)
    interval_s = timing.join_interval_s * crowd_of(config)
    return attrs.evolve(timing, join_interval_s=interval_s, gather_wait_s=wait_s)
