"""Which daemons of a run lie, and how: drawn from its seed, swarm style."""

from random import Random
from typing import Final

import attrs


@attrs.frozen(kw_only=True)
class Lying:
    """How a daemon lies; a share of 0 switches a way of it off.

    Attributes:
        share: of the packets that it sends, so many come with a lie, 0 to 1.
        ways: what it does then: `change` fields, `contradict` itself, `replay` what it or somebody
            else has said, say something in a `wrong state`, `withhold` a packet, `forge` one that
            fits.
        spells: it tells the truth at times.
    """

    share: float = 0.0
    ways: tuple[str, ...] = ()
    spells: bool = True


MOST_LIARS_AMONG: Final = 5
"""Two may lie where there are so many daemons."""

WAYS: Final = ("change", "contradict", "replay", "wrong state", "withhold", "forge")


def draw_lying(rng: Random) -> Lying:
    """Draw how a daemon of one run lies."""
    share = 10 ** rng.uniform(-2.0, -0.1)
    ways = tuple(way for way in WAYS if rng.random() < 0.6) or ("change",)
    return Lying(share=share, ways=ways, spells=rng.random() < 0.7)


def draw_liars(rng: Random, daemons: int) -> tuple[int, ...]:
    """Draw the daemons that lie: one, or now and then two where there are enough."""
    several = daemons >= MOST_LIARS_AMONG and rng.random() < 0.15
    return tuple(sorted(rng.sample(range(daemons), 2 if several else 1)))
