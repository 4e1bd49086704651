"""Identities of simulated daemons: drawn from the seed, as everything is."""

from collections.abc import Iterable
from functools import lru_cache

from groupcomm.security.identity import IDENTITY_BYTES, Roll, public_of
from groupcomm.sim.loop import random_for


def draw_private(seed: int, name: str) -> bytes:
    """The private key of a daemon."""
    return random_for(seed, f"identity {name}").randbytes(IDENTITY_BYTES)


@lru_cache(maxsize=16)
def _roll(seed: int, names: tuple[str, ...]) -> Roll:
    return Roll({name: public_of(draw_private(seed, name)) for name in names})


def roll_of(seed: int, names: Iterable[str]) -> Roll:
    """Of all daemons of a cluster; none is evicted."""
    return _roll(seed, tuple(names))
