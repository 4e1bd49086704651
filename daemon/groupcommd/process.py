"""The process of a daemon: its descriptors, its memory, its supervisor and its end."""

import ctypes
import errno
import gc
import logging
import os
import resource
import socket
import threading
import time
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


def raise_descriptor_limit() -> int:
    """Let this process have as many descriptors as it can use and may have; how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _OWN
    allowed = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        return allowed
    return wanted if soft == resource.RLIM_INFINITY else soft


def connection_capacity() -> int:
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


async def retry_while_exhausted(what: str, act: Callable[[], _T]) -> _T:
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


KEPT_BYTES: Final = 64 * 1024 * 1024
"""So much free memory stays with the process."""

SHARED_BYTES: Final = 16 * 1024 * 1024
"""Smaller blocks come from what is kept; larger ones go back to the system when they are freed."""

_TRIM_THRESHOLD: Final = -1  # numbers of malloc.h, mallopt(3)
_MMAP_THRESHOLD: Final = -3


def retain_freed_memory() -> bool:
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


TELL_S: Final = 0.5
"""How long the log may take for the last line: what holds up the daemon may be the log itself."""


class Watchdog:
    """Ends this process, some time after it was told to leave, if it is still there.

    Args:
        seconds: how long that is.
        status: the exit status then.
    """

    def __init__(self, seconds: float, status: int) -> None:
        self._seconds = seconds
        self._status = status
        self._armed = False

    def arm(self) -> None:
        """Begin to wait; what is armed stays so, since the process is to end."""
        if not self._armed:
            self._armed = True
            threading.Thread(target=self._wait, name="watchdog", daemon=True).start()

    def _wait(self) -> None:
        time.sleep(self._seconds)
        teller = threading.Thread(target=self._tell, daemon=True)
        teller.start()
        teller.join(TELL_S)
        os._exit(self._status)

    def _tell(self) -> None:
        _log.critical(
            "this process hangs, %g s after it was told to leave: it ends now, and what its"
            " programs have sent last may be lost",
            self._seconds,
        )


def notify_systemd(state: str) -> bool:
    """Send a state such as ``READY=1``; False if nobody asks, or it cannot be told now."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return False
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.connect(address)
            notify.sendall(state.encode())
    except OSError as error:
        _log.warning("systemd cannot be told %s: %s", state, error)
        return False
    return True
