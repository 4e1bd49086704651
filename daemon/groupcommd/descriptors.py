"""File descriptors: how many connections there may be, and what is done while there are none left.

Every connection takes one of the descriptors that the system lets this process have. A daemon keeps
a reserve for itself: without one it could not write its state, and would have to end. Other
processes of the host can use up what the whole system has (ENFILE), so whatever needs a descriptor
waits for one instead of failing.
"""

import errno
import logging
import os
import resource
from collections.abc import Callable
from typing import Final, TypeVar

MAX_CONNECTIONS: Final = 16_384
"""However many descriptors there are: each connection takes memory, too."""

RESERVE: Final = 64
"""Descriptors that connections leave: for the state, files of keys and certificates, the flight
recorder, and programs that are told why they are not let in.
"""

RETRY_S: Final = 0.25
"""Between two tries while there is no descriptor."""

_OWN: Final = 256
"""More than a daemon has open besides connections, its reserve included."""

_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE))
_T = TypeVar("_T")
_log = logging.getLogger("groupcommd")


def raise_limit() -> int:
    """Let this process have as many descriptors as it can use and may have; how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _OWN
    allowed = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        return allowed
    return wanted if soft == resource.RLIM_INFINITY else soft


def room_for_connections() -> int:
    """Return how many connections there may be beside what is open now; 1 at least."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_CONNECTIONS + _OWN if soft == resource.RLIM_INFINITY else soft
    opened = sum(map(_is_open, range(min(limit, MAX_CONNECTIONS + _OWN))))
    return max(1, min(MAX_CONNECTIONS, limit - opened - RESERVE))


def _is_open(number: int) -> bool:
    """Return whether a descriptor is in use; that takes none, as to read /proc would."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def is_exhausted(error: BaseException) -> bool:
    """Return whether something failed only because there was no descriptor for it."""
    cause = error if isinstance(error, OSError) else error.__cause__
    return isinstance(cause, OSError) and cause.errno in _EXHAUSTED


async def in_spite_of_exhaustion(what: str, act: Callable[[], _T]) -> _T:
    """Do something in a thread, again while there is no descriptor for it; the log says so once.

    Who is cancelled does not wait for the thread.

    Args:
        what: is waited for, for the log.
        act: does it; whatever else it raises is raised here.
    """
    import trio  # noqa: PLC0415 - `groupcomm tokens` imports this module, and no event loop

    told = False
    while True:
        try:
            return await trio.to_thread.run_sync(act, abandon_on_cancel=True)
        except Exception as error:
            if not is_exhausted(error):
                raise
            if not told:
                told = True
                _log.warning("%s waits for a file descriptor: %s", what, _reason(error))
        await trio.sleep(RETRY_S)


def _reason(error: Exception) -> str:
    cause = error if isinstance(error, OSError) else error.__cause__
    return os.strerror(cause.errno or 0) if isinstance(cause, OSError) else str(error)
