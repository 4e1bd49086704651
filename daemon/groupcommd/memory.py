"""Memory of the process: what was freed is kept for the next burst, and garbage waits.

Every datagram of a burst takes a buffer of its size, and all of them are free again a moment later.
The C library would give them back to the system each time and pay for each page anew: that was
a third of what a daemon's core does for a bundle of 28,000 bytes.

Nothing that a message needs is in a cycle, so hardly anything is left to the garbage collector. It
is not to look at all that waits in the middle of a burst; once a second is enough.
"""

import ctypes
import gc
from typing import Final

KEPT_BYTES: Final = 64 * 1024 * 1024
"""So much free memory stays with the process."""

SHARED_BYTES: Final = 16 * 1024 * 1024
"""Smaller blocks come from what is kept; larger ones go back to the system when they are freed."""

_TRIM_THRESHOLD: Final = -1  # numbers of malloc.h, mallopt(3)
_MMAP_THRESHOLD: Final = -3


def keep_memory() -> bool:
    """Have the C library do so from now on; whether it can (glibc can)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_MMAP_THRESHOLD, SHARED_BYTES))


FULL_EVERY: Final = 60


class GarbageCollection:
    """Collects when it is told to, and never by itself.

    Young objects are looked at each time, old ones each FULL_EVERY times.
    """

    def __init__(self) -> None:
        gc.collect()
        gc.freeze()  # what is there now stays
        gc.disable()
        self._times = 0

    def collect(self) -> None:
        """Take away what is in cycles."""
        self._times += 1
        gc.collect(2 if self._times % FULL_EVERY == 0 else 1)
