"""Spread's event loop, as programs written for Spread use it."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from groupcomm_client import spread_api as sp


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    assert sp.E_init() == 0
    yield
    sp.E_init()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_what_is_queued_is_called_once_in_the_order_of_its_times() -> None:
    called: list[tuple[int, object]] = []

    def note(code: int, data: object) -> None:
        called.append((code, data))
        if code == 3:
            sp.E_exit_events()

    for code, delay in ((3, 0.02), (2, 0.01), (1, 0.0), (4, 0.0)):
        assert sp.E_queue(note, code, "data", delay) == 0
    sp.E_queue(note, 1, "data", 0.015)  # in place of the first one
    assert sp.E_in_queue(note, 4, "data")
    assert not sp.E_in_queue(note, 4, "other")
    assert (sp.E_dequeue(note, 4, "data"), sp.E_dequeue(note, 4, "data")) == (0, -1)
    sp.E_handle_events()
    assert called == [(2, "data"), (1, "data"), (3, "data")]
    assert not sp.E_in_queue(note, 3, "data")


def test_files_are_called_by_priority_and_the_lowest_one_at_a_time(pipe: tuple[int, int]) -> None:
    ready, full = pipe
    called: list[int] = []

    def note(fd: int, code: int, data: object) -> None:
        assert (fd, data) == (full, None)
        called.append(code)
        if len(called) == 4:
            sp.E_exit_events()

    def never(fd: int, code: int, data: object) -> None:
        raise AssertionError("it is not readable")

    assert sp.E_attach_fd(full, sp.WRITE_FD, note, 1, None, sp.LOW_PRIORITY) == 0
    assert sp.E_attach_fd(full, sp.WRITE_FD, never, 2, None, sp.HIGH_PRIORITY) == 0
    assert sp.E_attach_fd(full, sp.WRITE_FD, note, 2, None, sp.HIGH_PRIORITY) == 1, "replaced"
    assert sp.E_attach_fd(full, sp.WRITE_FD, note, 3, None, sp.MEDIUM_PRIORITY) == 0
    assert sp.E_attach_fd(ready, sp.READ_FD, never, 4, None, sp.HIGH_PRIORITY) == 0
    sp.E_handle_events()
    assert called == [2, 1, 2, 1], "medium waits while high is ready"

    called.clear()
    assert sp.E_detach_fd_priority(full, sp.WRITE_FD, sp.HIGH_PRIORITY) == 0
    assert sp.E_set_active_threshold(sp.MEDIUM_PRIORITY) == sp.MEDIUM_PRIORITY
    sp.E_handle_events()
    assert called == [3, 3, 3, 3]
    assert sp.E_deactivate_fd(full, sp.WRITE_FD) == 0
    assert [sp.E_num_active(priority) for priority in range(3)] == [0, 0, 1]
    assert sp.E_activate_fd(full, sp.WRITE_FD) == 0
    assert sp.E_num_active(sp.MEDIUM_PRIORITY) == 1
    assert (sp.E_detach_fd(full, sp.WRITE_FD), sp.E_detach_fd(full, sp.WRITE_FD)) == (0, -1)


def test_what_a_function_detaches_is_not_called_any_more(pipe: tuple[int, int]) -> None:
    called: list[int] = []

    def detach(fd: int, code: int, data: object) -> None:
        called.append(code)
        sp.E_detach_fd(pipe[1], sp.WRITE_FD)
        sp.E_detach_fd(pipe[0], sp.READ_FD)
        sp.E_queue(lambda *_: sp.E_exit_events(), 0, None, 0.0)

    os.write(pipe[1], b"x")
    sp.E_attach_fd(pipe[1], sp.WRITE_FD, detach, 1, None, sp.HIGH_PRIORITY)
    sp.E_attach_fd(pipe[0], sp.READ_FD, detach, 2, None, sp.HIGH_PRIORITY)
    sp.E_handle_events()
    assert called == [1]


@pytest.mark.parametrize("how", ["signal", "thread"])
def test_the_loop_ends_while_it_waits(how: str) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: sp.E_exit_events_async_safe())
    killer = threading.Timer(
        0.05,
        sp.E_exit_events if how == "thread" else lambda: os.kill(os.getpid(), signal.SIGUSR1),
    )
    try:
        killer.start()
        sp.E_handle_events()
    finally:
        killer.join()
        signal.signal(signal.SIGUSR1, before)


def test_arguments_that_are_not_allowed_give_minus_one() -> None:
    def nothing(fd: int, code: int, data: object) -> None: ...

    assert sp.E_attach_fd(-1, sp.READ_FD, nothing, 0, None, sp.LOW_PRIORITY) == -1
    assert sp.E_attach_fd(0, sp.NUM_FDTYPES, nothing, 0, None, sp.LOW_PRIORITY) == -1
    assert sp.E_attach_fd(0, sp.READ_FD, nothing, 0, None, sp.NUM_PRIORITY) == -1
    assert sp.E_detach_fd_priority(0, sp.READ_FD, sp.NUM_PRIORITY) == -1
    assert sp.E_set_active_threshold(sp.NUM_PRIORITY) == -1
    assert sp.E_num_active(sp.NUM_PRIORITY) == -1
    assert (sp.E_activate_fd(0, sp.READ_FD), sp.E_deactivate_fd(0, sp.READ_FD)) == (-1, -1)
    assert sp.E_attach_fd(0, sp.EXCEPT_FD, nothing, 0, None, sp.LOW_PRIORITY) == 0
    for fd in range(1, sp.MAX_FD_EVENTS):
        sp.E_attach_fd(fd, sp.EXCEPT_FD, nothing, 0, None, sp.LOW_PRIORITY)
    assert sp.E_attach_fd(9999, sp.READ_FD, nothing, 0, None, sp.LOW_PRIORITY) == -1


def test_times_are_numbers() -> None:
    assert sp.E_add_time(2.0, 3.0) == 5.0
    assert sp.E_sub_time(2.0, 3.0) == sp.E_neg_time(1.0) == -1.0
    assert [sp.E_compare_time(1.0, other) for other in (0.0, 1.0, 2.0)] == [1, 0, -1]
    before = sp.E_get_time_monotonic()
    sp.E_delay(0.0)
    assert sp.E_get_time_monotonic() >= before
    assert sp.E_get_time() > 1_700_000_000
