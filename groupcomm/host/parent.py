"""Processes that end with the process that has started them, however that one ends, and that ps
names for what they do.

Linux sends them a signal then, see PR_SET_PDEATHSIG in prctl(2). The process counts that has forked
them, and its thread: who starts them must not do so in a thread that ends earlier.
"""

import ctypes
import os
import signal
from pathlib import Path
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


def show_as(command: str) -> None:
    """Have ps show this process as a command, as far as the one that it was started with is long.

    The system reads the words of a command from the memory of its process, which may write there.
    """
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(stat[45]), int(stat[46])  # arg_start and arg_end of proc(5)
    ctypes.memmove(
        start, command.encode()[: end - start - 1].ljust(end - start, b"\0"), end - start
    )
    Path("/proc/self/comm").write_text(command.partition(" ")[0])
