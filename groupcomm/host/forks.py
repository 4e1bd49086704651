"""What belongs to one process alone: a process that is forked from it lets go of its copies.

A session, its descriptors and its locks are those of the process that has made them. A copy of a
socket would keep the session alive after its process, and a word to the other side would disturb
it. So the copies are closed right behind the fork (`os.fork`, and multiprocessing's start method of
this name), without a word.

The copy of an event loop goes on until all its blocks are left, and shares an epoll with the loop
of the other process: it would take that one's events. It gets an epoll of its own instead.
"""

import os
import select
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakSet


class Own(Protocol):
    """A part of a program that belongs to its process alone."""

    def forsake(self) -> object:
        """Let go of everything, in a process that was forked; say nothing, and wait for nothing.

        Returns:
            What has the descriptor of the epoll of its event loop, if there is one.
        """


_own: Final[WeakSet[Own]] = WeakSet()


def keep_own(part: Own) -> None:
    """Have a part forsaken in each process that is forked from this one."""
    _own.add(part)


def _forsake_all() -> None:
    parts = list(_own)
    _own.clear()
    numbers = {_number_of(part.forsake()) for part in parts}
    for number in sorted(numbers - {-1}):  # once all sockets are closed
        _replace(number)


def _number_of(shared: object) -> int:
    number = shared.fileno() if hasattr(shared, "fileno") else -1
    return number if isinstance(number, int) else -1


def _replace(number: int) -> None:
    """Replace a shared epoll by one of this process, which watches the same open files."""
    try:
        lines = Path(f"/proc/self/fdinfo/{number}").read_text(encoding="ascii").splitlines()
    except OSError:  # there is no /proc, and the epoll stays shared
        return
    with select.epoll() as fresh:
        for line in lines:
            if line.startswith("tfd:"):
                file, events = line.split()[1:4:2]
                with suppress(OSError):  # it was closed, as it belongs to the other process
                    fresh.register(int(file), int(events, 16))
        os.dup2(fresh.fileno(), number, inheritable=False)


os.register_at_fork(after_in_child=_forsake_all)
