"""Names and identities of simulated daemons; identities are drawn from the seed."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from groupcomm.security.identity import IDENTITY_BYTES, Roll, public_of
from groupcomm.sim.virtual_time import random_for

_WORDS: Final = tuple(
    """
    alfa bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november oscar
    papa quebec romeo sierra tango uniform victor whiskey xray yankee zulu
    able baker cast dog easy fox george how item jig king love nan
    """.split()  # noqa: SIM905 - words read better than so many quoted lines
)
"""Today's spelling alphabet, then words of an older one."""


def daemon_names(daemons: int) -> list[str]:
    """Return this number of different names, sorted: words first, then words with a number."""
    words = len(_WORDS)
    names = [
        _WORDS[at % words] + (str(at // words + 1) if at >= words else "") for at in range(daemons)
    ]
    return sorted(names)


def draw_private(seed: int, name: str) -> bytes:
    """Return the private key of a daemon."""
    return random_for(seed, f"identity {name}").randbytes(IDENTITY_BYTES)


@lru_cache(maxsize=16)
def _roll(seed: int, names: tuple[str, ...]) -> Roll:
    return Roll({name: public_of(draw_private(seed, name)) for name in names})


def roll_of(seed: int, names: Iterable[str]) -> Roll:
    """Return the roll of all daemons of a cluster; none is evicted."""
    return _roll(seed, tuple(names))
