"""Processes that end with the process that has started them, however that one ends.

Linux sends them a signal then, see PR_SET_PDEATHSIG in prctl(2). The process counts that has forked
them, and its thread: who starts them must not do so in a thread that ends earlier.
"""

import ctypes
import os
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # of prctl(2)
_libc: Final = ctypes.CDLL(None)


def end_with_parent(number: signal.Signals = signal.SIGTERM, parent: int | None = None) -> None:
    """Have this process get a signal when its parent ends.

    Args:
        number: the signal.
        parent: the process that is its parent, unless that has ended already: then the signal
            comes at once. None if this cannot be.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, number)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), number)
