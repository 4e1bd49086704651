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
"""The limit however many descriptors there are, as each connection takes memory, too."""

RESERVE: Final = 64
"""Descriptors that connections leave free: for the state, files of keys and certificates, the
flight recorder, and answers to programs that are refused.
"""

RETRY_S: Final = 0.25
"""The time between two attempts while there is no descriptor."""

NO_THREAD: Final = "can't start new thread"
"""The text of Python's error."""

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_OWN: Final = 256
"""More than a daemon has open besides connections, the reserve included."""

_STANDARD_ERROR: Final = 2
_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE))
_T = TypeVar("_T")
_log = logging.getLogger("groupcommd")


def raise_descriptor_limit() -> int:
    """Raise the limit of descriptors to what the daemon can use and may have; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _OWN
    allowed = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        return allowed
    return wanted if soft == resource.RLIM_INFINITY else soft


def occupy_standard_descriptors() -> None:
    """Open /dev/null where standard input, output or error are closed.

    Otherwise the next file or socket would have their numbers, and get what is meant for them.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        os.set_inheritable(opened, True)
    os.close(opened)


def connection_capacity() -> int:
    """Return the number of connections that fit beside the open descriptors; 1 at least."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_CONNECTIONS + _OWN if soft == resource.RLIM_INFINITY else soft
    opened = sum(map(_is_open, range(min(limit, MAX_CONNECTIONS + _OWN))))
    return max(1, min(MAX_CONNECTIONS, limit - opened - RESERVE))


def _is_open(number: int) -> bool:
    """Return whether a descriptor is in use; reading /proc instead would need one."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def is_exhausted(error: BaseException) -> bool:
    """Return whether an error means that there was no file descriptor."""
    cause = error if isinstance(error, OSError) else error.__cause__
    return isinstance(cause, OSError) and cause.errno in _EXHAUSTED


async def retry_while_exhausted(what: str, act: Callable[[], _T]) -> _T:
    """Run a function in a thread, and again while it fails for want of a descriptor; log that once.

    A caller that is cancelled does not wait for the thread.

    Args:
        what: the work that waits, for the log.
        act: the function; its other errors are raised here.
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


LAST_WORDS_BYTES: Final = 1024 * 1024


class LastWords:
    """Memory that a daemon holds back, to end in order and say why once there is no other."""

    def __init__(self) -> None:
        self._held = bytearray(LAST_WORDS_BYTES)

    def free(self) -> None:
        """Give the memory back; the next allocations have it."""
        self._held = bytearray()


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error, or one of those that came together in it, is a lack of memory.

    Or of threads: Python tells the lack of memory for the stack of one by the same error.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_out_of_memory, error.exceptions))
    is_of_threads = isinstance(error, RuntimeError) and str(error) == NO_THREAD
    return isinstance(error, MemoryError) or is_of_threads


def resident_bytes() -> int:
    """Return the memory that this process uses."""
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - of the kernel, no disk
        return int(file.read().split()[1]) * _PAGE_BYTES


KEPT_BYTES: Final = 64 * 1024 * 1024
"""The free memory that the process keeps."""

SHARED_BYTES: Final = 16 * 1024 * 1024
"""Smaller blocks come from the memory that is kept; larger ones are returned when they are freed.
"""

_TRIM_THRESHOLD: Final = -1  # numbers of malloc.h, for mallopt(3)
_MMAP_THRESHOLD: Final = -3


def retain_freed_memory() -> bool:
    """Have the C library keep freed memory; return whether it can (glibc can).

    Every datagram of a burst takes a buffer of its size, and all of them are free again a moment
    later. By default the C library returns them to the system each time and pays for each page
    anew: that was a third of what a daemon's core does for a bundle of 28,000 bytes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_MMAP_THRESHOLD, SHARED_BYTES))


FULL_EVERY: Final = 60
DEEP_EVERY: Final = 60 * FULL_EVERY
MOST_EXAMINED: Final = 5_000
"""The objects that one collection examines, but for deep ones: some 2 to 5 ms."""

MOST_UNEXAMINED: Final = 2_000_000
"""The objects that wait for a deep collection: with as many it comes early."""


class GarbageCollection:
    """A garbage collector that runs when `collect` is called, and never by itself.

    Hardly anything is in a cycle, and nothing that a message needs, so a collection a second is
    enough; one in the middle of a burst would look at everything that waits. Young objects are
    examined each time, older ones each FULL_EVERY times, and what is still there then only each
    DEEP_EVERY times: to look at the tables of a hundred thousand groups takes 0.15 s. So do those
    of a burst, as of a thousand programs that connect: there would be too many for one step.
    """

    def __init__(self) -> None:
        gc.collect()
        gc.freeze()  # the present objects stay in memory
        gc.disable()
        self._times = 0
        self._away = 0  # put away since the last deep collection; gc would count one by one

    def collect(self) -> None:
        """Free objects that are in cycles."""
        self._times += 1
        waiting = sum(len(gc.get_objects(generation)) for generation in range(3))
        if self._times % DEEP_EVERY == 0 or self._away + waiting > MOST_UNEXAMINED:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._away = 0
        elif waiting > MOST_EXAMINED:
            gc.freeze()
            self._away += waiting
        elif self._times % FULL_EVERY:
            gc.collect(1)
        else:
            gc.collect()
            gc.freeze()


TELL_S: Final = 0.5
"""The time that the log has for the last line, as the log may be the part that hangs."""


class Watchdog:
    """Ends this process some time after it was asked to leave, if it still runs then.

    The core bounds the time that a daemon takes to leave, but its loop has to run for that. It does
    not run while a write to a full pipe, a file system or anything else holds it up. So a thread
    waits.

    Args:
        seconds: the length of that time.
        status: the exit status.
    """

    def __init__(self, seconds: float, status: int) -> None:
        self._seconds = seconds
        self._status = status
        self._armed = False

    def arm(self) -> None:
        """Start the timer; nothing stops it, as the process is to end."""
        if not self._armed:
            self._armed = True
            threading.Thread(target=self._wait, name="watchdog", daemon=True).start()

    def _wait(self) -> None:
        time.sleep(self._seconds)
        thread = threading.Thread(target=self._tell, daemon=True)
        thread.start()
        thread.join(TELL_S)
        os._exit(self._status)

    def _tell(self) -> None:
        _log.critical(
            "this process hangs, %g s after it was asked to leave: it ends now, and the last"
            " messages of its programs may be lost",
            self._seconds,
        )
        for each in _log.handlers:
            each.flush()


async def feed_systemd_watchdog() -> None:
    """Send ``WATCHDOG=1`` as often as systemd asks for, from the loop that it is to watch.

    A unit with ``WatchdogSec=`` has systemd kill a service whose loop stands still. Returns at once
    if systemd does not watch this process (sd_watchdog_enabled(3)).
    """
    import trio  # noqa: PLC0415 - as above

    period_us, watched = os.environ.get("WATCHDOG_USEC"), os.environ.get("WATCHDOG_PID")
    if not period_us or (watched or str(os.getpid())) != str(os.getpid()):
        return
    while True:
        notify_systemd("WATCHDOG=1")
        await trio.sleep(int(period_us) / 2e6)  # half of the period, as systemd's manual advises


def notify_systemd(state: str, *, within_s: float = 0.0) -> bool:
    """Send systemd a state such as ``READY=1`` (sd_notify(3)).

    Args:
        state: the state.
        within_s: the time in seconds to wait while systemd takes nothing.

    Returns:
        False if no supervisor asks for states, or this one cannot be sent now.
    """
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return False
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.settimeout(within_s)
            notify.connect(address)
            notify.sendall(state.encode())
    except OSError as error:
        _log.warning("systemd did not get the state %s: %s", state, error)
        return False
    return True
