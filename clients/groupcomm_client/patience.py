"""How long a thread waits: a time for all that is done in a block, as event loops have it."""

import math
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from groupcomm.host.tls import AnySocket

_end: Final = ContextVar("end", default=math.inf)  # each thread has its own; of time.monotonic


class TimeIsUp(Exception):
    """Raised where a thread waits, once the time of a block around it is over."""


@contextmanager
def move_on_after(seconds: float, *, shield: bool = False) -> Iterator[None]:
    """Wait in this block for so long at most; then go on behind it.

    Args:
        seconds: with 0, what needs no waiting is still done.
        shield: the times of blocks around this one count for nothing in it.
    """
    outer = math.inf if shield else _end.get()
    token = _end.set(min(outer, time.monotonic() + seconds))
    try:
        yield
    except TimeIsUp:
        if time.monotonic() >= outer:
            raise
    finally:
        _end.reset(token)


def seconds_left() -> float:
    """How long this thread may still wait; 0 when time is up."""
    return max(0.0, _end.get() - time.monotonic())


def check_time() -> None:
    """Raise TimeIsUp if it is."""
    if time.monotonic() >= _end.get():
        raise TimeIsUp


def wait_for_socket(socket_: AnySocket, events: int) -> int:
    """What of some events of `select.poll` has come; 0 if nothing has when time is up."""
    return wait_for_files({socket_.fileno(): events})


def wait_for_files(files: Mapping[int, int]) -> int:
    """The same for several: by file number the events; what has come of any of them."""
    poll = select.poll()
    for number, events in files.items():
        if number < 0:  # closed by another thread
            return select.POLLHUP
        poll.register(number, events)
    left_s = seconds_left()
    found = poll.poll(None if left_s == math.inf else left_s * 1000)
    return found[0][1] if found else 0
