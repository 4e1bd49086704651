"""Spread's event loop, by its names and in its order of arguments: one loop for the process.

A mailbox is a file number that is readable when SP_receive has something, so it is attached as any
other one. As in C, results are numbers: -1 if there is nothing of that kind, or an argument is not
allowed. Times are in seconds. Other threads may call E_exit_events alone.
"""

import bisect
import os
import select
import time
from collections.abc import Callable
from typing import Final

import attrs

from groupcomm_client.spread_api.constants import HIGH_PRIORITY, LOW_PRIORITY, MEDIUM_PRIORITY

MAX_FD_EVENTS: Final = 2000
NUM_PRIORITY: Final = 3
NUM_FDTYPES: Final = 3
READ_FD: Final = 0
WRITE_FD: Final = 1
EXCEPT_FD: Final = 2

_MASKS: Final = (select.POLLIN, select.POLLOUT, select.POLLPRI)
_ENDED: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL
_LONG_S: Final = 3600.0


@attrs.define
class _Timer:
    """A function that is called once at a time."""

    at: float
    func: Callable[[int, object], object]
    code: int
    data: object

    def is_it(self, func: object, code: int, data: object) -> bool:
        return self.func == func and self.code == code and self.data is data


@attrs.define
class _Watch:
    """A function that is called while a file is ready."""

    fd: int
    fd_type: int
    func: Callable[[int, int, object], object]
    code: int
    data: object
    active: bool = True


class _Loop:
    """The loop of the process."""

    def __init__(self) -> None:
        self.timers: list[_Timer] = []  # by time
        self.watches: list[dict[tuple[int, int], _Watch]] = [{} for _ in range(NUM_PRIORITY)]
        self.threshold = LOW_PRIORITY
        self.is_over = False
        self.waker = -1  # the end of a pipe that ends the wait; -1 while the loop does not run

    def end(self) -> None:
        """End the loop, also out of its wait: signals do not interrupt that."""
        self.is_over = True
        if self.waker >= 0:
            os.write(self.waker, b".")

    def find(self, fd: int, fd_type: int) -> list[_Watch]:
        """Return the watches of a file, of all priorities."""
        return [each[fd, fd_type] for each in self.watches if (fd, fd_type) in each]

    def run_timers(self) -> float:
        """Call what is due; return the seconds until the next is."""
        while self.timers and not self.is_over:
            left = self.timers[0].at - time.monotonic()
            if left > 0:
                return min(left, _LONG_S)
            timer = self.timers.pop(0)
            timer.func(timer.code, timer.data)
        return _LONG_S

    def wait(self, wait_s: float, woken: int) -> dict[int, int]:
        """Wait until a file is ready, or the pipe `woken`; return what each is ready for."""
        masks = {woken: select.POLLIN}
        for watches in self.watches[self.threshold :]:
            for watch in watches.values():
                if watch.active:
                    masks[watch.fd] = masks.get(watch.fd, 0) | _MASKS[watch.fd_type]
        poll = select.poll()
        for fd, mask in masks.items():
            poll.register(fd, mask)
        return dict(poll.poll(1000 * wait_s))

    def call(self, priority: int, ready: dict[int, int], most: int) -> bool:
        """Call functions of files that are ready, `most` at most; return whether any was."""
        watches = self.watches[priority]
        called = 0
        for key, watch in list(watches.items()):
            is_due = ready.get(watch.fd, 0) & (_MASKS[watch.fd_type] | _ENDED)
            if self.is_over or called == most or priority < self.threshold:
                break
            if is_due and watch.active and watches.get(key) is watch:
                called += 1
                if priority == LOW_PRIORITY:
                    watches[key] = watches.pop(key)  # others have their turn first the next time
                watch.func(watch.fd, watch.code, watch.data)
        return called > 0


_loop = _Loop()


def E_init() -> int:
    """Begin anew, with nothing attached and nothing queued."""
    _loop.timers.clear()
    for watches in _loop.watches:
        watches.clear()
    _loop.threshold = LOW_PRIORITY
    return 0


# ---- times ----


def E_get_time() -> float:
    """Return the time of day, in seconds since 1970."""
    return time.time()


def E_get_time_monotonic() -> float:
    """Return a time that nobody sets back, in seconds."""
    return time.monotonic()


def E_neg_time(t: float) -> float:
    """Return the time with the other sign."""
    return -t


def E_add_time(t: float, delta_t: float) -> float:
    """Return the sum of two times."""
    return t + delta_t


def E_sub_time(t: float, delta_t: float) -> float:
    """Return the difference of two times."""
    return t - delta_t


def E_compare_time(t1: float, t2: float) -> int:
    """Return 1 if the first time is the later one, -1 if the second one is, else 0."""
    return (t1 > t2) - (t1 < t2)


def E_delay(t: float) -> None:
    """Wait for some seconds."""
    time.sleep(t)


# ---- functions at a time ----


def E_queue(
    func: Callable[[int, object], object], code: int, data: object, delta_time: float
) -> int:
    """Have `func(code, data)` called once, after some seconds; one that is queued is replaced."""
    E_dequeue(func, code, data)
    timer = _Timer(time.monotonic() + delta_time, func, code, data)
    bisect.insort(_loop.timers, timer, key=lambda each: each.at)
    return 0


def E_in_queue(func: Callable[[int, object], object], code: int, data: object) -> int:
    """Return 1 if a call is queued, else 0."""
    return int(any(timer.is_it(func, code, data) for timer in _loop.timers))


def E_dequeue(func: Callable[[int, object], object], code: int, data: object) -> int:
    """Take a call out of the queue; return 0, or -1 if it is not there."""
    found = [timer for timer in _loop.timers if timer.is_it(func, code, data)]
    for timer in found:
        _loop.timers.remove(timer)
    return 0 if found else -1


# ---- functions of files ----


def E_attach_fd(
    fd: int,
    fd_type: int,
    func: Callable[[int, int, object], object],
    code: int,
    data: object,
    priority: int,
) -> int:
    """Have `func(fd, code, data)` called whenever a file is ready.

    Args:
        fd: its number; a mailbox.
        fd_type: READ_FD, WRITE_FD or EXCEPT_FD.
        func: see above; one that is attached for this file, type and priority is replaced.
        code: any number.
        data: anything.
        priority: HIGH_PRIORITY, MEDIUM_PRIORITY or LOW_PRIORITY, of which one is called at a time.

    Returns:
        0, or 1 if a function was replaced, or -1 if it cannot be attached.
    """
    if not (0 <= priority < NUM_PRIORITY and 0 <= fd_type < NUM_FDTYPES and fd >= 0):
        return -1
    watches = _loop.watches[priority]
    is_there = (fd, fd_type) in watches
    if not is_there and len(watches) >= MAX_FD_EVENTS:
        return -1
    watches[fd, fd_type] = _Watch(fd, fd_type, func, code, data)
    return int(is_there)


def E_detach_fd(fd: int, fd_type: int) -> int:
    """Detach a file, of any priority; return 0, or -1 if it is not attached."""
    found = [E_detach_fd_priority(fd, fd_type, each) for each in range(NUM_PRIORITY)]
    return max(found)


def E_detach_fd_priority(fd: int, fd_type: int, priority: int) -> int:
    """Detach a file of one priority; return 0, or -1 if it is not attached."""
    if not 0 <= priority < NUM_PRIORITY:
        return -1
    return -1 if _loop.watches[priority].pop((fd, fd_type), None) is None else 0


def E_set_active_threshold(priority: int) -> int:
    """Have functions of lower priorities not called; return the priority, or -1."""
    if not LOW_PRIORITY <= priority <= HIGH_PRIORITY:
        return -1
    _loop.threshold = priority
    return priority


def E_activate_fd(fd: int, fd_type: int) -> int:
    """Have the function of a file called again; return 0, or -1 if it is not attached."""
    return _activate(fd, fd_type, active=True)


def E_deactivate_fd(fd: int, fd_type: int) -> int:
    """Have the function of a file not called for now; return 0, or -1 if it is not attached."""
    return _activate(fd, fd_type, active=False)


def _activate(fd: int, fd_type: int, *, active: bool) -> int:
    found = _loop.find(fd, fd_type)
    for watch in found:
        watch.active = active
    return 0 if found else -1


def E_num_active(priority: int) -> int:
    """Return the number of files of a priority whose functions are called; or -1."""
    if not 0 <= priority < NUM_PRIORITY:
        return -1
    return sum(watch.active for watch in _loop.watches[priority].values())


# ---- the loop ----


def E_handle_events() -> None:
    """Call what is due and what is ready, until E_exit_events is called.

    What is due comes first, then all of the highest priority that is ready, then one of the lowest.
    """
    loop = _loop
    loop.is_over = False
    woken, loop.waker = os.pipe()
    try:
        while not loop.is_over:
            wait_s = loop.run_timers()
            ready = {} if loop.is_over else loop.wait(wait_s, woken)
            if not loop.call(HIGH_PRIORITY, ready, MAX_FD_EVENTS):
                loop.call(MEDIUM_PRIORITY, ready, MAX_FD_EVENTS)
            loop.call(LOW_PRIORITY, ready, 1)
    finally:
        waker, loop.waker = loop.waker, -1
        os.close(waker)
        os.close(woken)


def E_exit_events() -> None:
    """Have E_handle_events return once the present function has."""
    _loop.end()


def E_exit_events_async_safe() -> None:
    """Do the same, from the handler of a signal."""
    _loop.end()
