"""Deadlines of threads: how long a thread may wait in a block, and whether it has to give up.

Event loops have cancel scopes for this purpose. A thread keeps its limits in a context variable,
and every waiting function here observes them.
"""

import math
import os
import select
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from groupcomm.host.forks import keep_own


class DeadlinePassed(Exception):
    """Raised where a thread waits, once the deadline of a block around it has passed."""


class Interrupted(BaseException):
    """Raised where a thread waits, once an `Interrupt` of a block around it was set."""

    def __init__(self, interrupt: "Interrupt") -> None:
        super().__init__("another thread has ended this wait")
        self.interrupt = interrupt


class Interrupt:
    """A handle with which another thread ends the waits of a block; see `interruptible`.

    Attributes:
        is_set: whether the thread waits no more in the block.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._lock = threading.Lock()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._condition: threading.Condition | None = None  # the thread waits on it
        keep_own(self)

    def forsake(self) -> None:
        """See `groupcomm.host.forks`: a thread of the other process waits for the file."""
        self._lock = threading.Lock()
        self._condition = None
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = os.eventfd(self.is_set, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def set(self) -> None:
        """End the wait of the thread, and each later one in the same block."""
        with self._lock:
            self.is_set = True
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)
            condition = self._condition
        if condition is not None:
            with condition:
                condition.notify_all()

    def close(self) -> None:
        """Free the file; `set` may still be called."""
        with self._lock:
            os.close(self._wake)
            self._wake = -1

    def fileno(self) -> int:
        """Return the descriptor of a file that is readable once the interrupt is set."""
        return self._wake

    def waits_on(self, condition: threading.Condition | None) -> None:
        """Note the condition that the thread waits on, so that `set` wakes the thread."""
        self._condition = condition


class _Limits(NamedTuple):
    """The limits of the blocks around a call: the end by `time.monotonic`, and the interrupts."""

    end: float = math.inf
    interrupts: tuple[Interrupt, ...] = ()


_limits: Final = ContextVar("limits", default=_Limits())  # noqa: B039 - it is frozen; each thread has its own


@contextmanager
def move_on_after(seconds: float, *, shield: bool = False) -> Iterator[None]:
    """Wait in this block for `seconds` at most; then continue behind it.

    Args:
        seconds: the limit; with 0, calls that need not wait are still made.
        shield: whether the limits of outer blocks do not count in this one.
    """
    outer = _Limits() if shield else _limits.get()
    end = min(outer.end, time.monotonic() + seconds)
    token = _limits.set(outer._replace(end=end))
    try:
        yield
    except DeadlinePassed:
        if time.monotonic() >= outer.end:
            raise
    finally:
        _limits.reset(token)


@contextmanager
def interruptible(interrupt: Interrupt) -> Iterator[None]:
    """Wait in this block until an interrupt is set; then continue behind it."""
    outer = _limits.get()
    token = _limits.set(outer._replace(interrupts=(*outer.interrupts, interrupt)))
    try:
        yield
    except Interrupted as error:
        if error.interrupt is not interrupt:
            raise
    finally:
        _limits.reset(token)
        interrupt.close()


def seconds_left() -> float:
    """Return the seconds that this thread may still wait; 0 once its deadline has passed."""
    return max(0.0, _limits.get().end - time.monotonic())


def check_limits() -> None:
    """Raise DeadlinePassed or Interrupted if this thread must not wait any longer."""
    limits = _limits.get()
    for interrupt in limits.interrupts:
        if interrupt.is_set:
            raise Interrupted(interrupt)
    if time.monotonic() >= limits.end:
        raise DeadlinePassed


def wait_on(condition: threading.Condition) -> None:
    """Wait until a condition, which is held, is notified, or a limit is reached."""
    limits = _limits.get()
    for interrupt in limits.interrupts:
        interrupt.waits_on(condition)  # before it is checked, so that no `set` is missed
    try:
        for interrupt in limits.interrupts:
            if interrupt.is_set:
                raise Interrupted(interrupt)
        left_s = seconds_left()
        condition.wait(None if left_s == math.inf else min(left_s, threading.TIMEOUT_MAX))
    finally:
        for interrupt in limits.interrupts:
            interrupt.waits_on(None)


MAX_POLL_S: Final = 1e6
"""The longest time that the system is asked to wait; whoever wants to wait longer asks again."""


def wait_for_files(files: Mapping[int, int]) -> int:
    """Wait for events of several files.

    Args:
        files: for each descriptor the wanted events of `select.poll`.

    Returns:
        The events of one of the files; 0 if a limit or MAX_POLL_S was reached first.
    """
    poll = select.poll()
    for number, events in files.items():
        if number < 0:  # another thread has closed it
            return select.POLLHUP
        poll.register(number, events)
    for interrupt in _limits.get().interrupts:
        poll.register(interrupt.fileno(), select.POLLIN)
    left_s = seconds_left()
    found = poll.poll(None if left_s == math.inf else min(left_s, MAX_POLL_S) * 1000)
    return next((events for number, events in found if number in files), 0)
