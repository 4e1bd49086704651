"""The watch over a daemon's event loop: its longest steps, what they did, and what they lacked."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trio

from groupcomm.engine import Input, LeaveRequested, Output
from groupcommd.host.bounded_log import BURST, BoundedLog
from groupcommd.host.loop_watch import LOGGED_S, LONG_S, WINDOW_S, LoopWatch, Step, log_step
from groupcommd.operators.assessment import STANDS_STILL_MS, DaemonAnswers, check_loop
from groupcommd.operators.findings import Grade
from tests.groupcommd.virtual import virtual_daemons

ERROR_S = 0.006
"""What a part may lack: the clocks of parts are read each 5 ms."""


class FakeClocks:
    """Clocks that a test sets."""

    def __init__(self) -> None:
        self.time, self.cpu, self.queued = 1000.0, 3.0, 7.0

    def now(self) -> float:
        return self.time

    def parts(self) -> tuple[float, float]:
        return self.cpu, self.queued

    def run(self, busy_s: float = 0.0, waited_s: float = 0.0, host_s: float = 0.0) -> None:
        self.time += busy_s + waited_s + host_s
        self.cpu += busy_s
        self.queued += host_s


class Steps:
    """A watch whose steps a test takes."""

    def __init__(self) -> None:
        self.told: list[Step] = []
        self.clocks = FakeClocks()
        self.watch = LoopWatch(self.told.append)
        self.watch._clocks = self.clocks
        self.watch.read_due = 0.0

    def take(self, did: str = "worked", *, idle_s: float = 0.0, **parts: float) -> None:
        """Idle, then take a step as a turn of the daemon does."""
        self.clocks.run(waited_s=idle_s)
        began = self.clocks.now()
        if began >= self.watch.read_due:
            self.watch.read(began)
        self.clocks.run(**parts)
        took_s = self.clocks.now() - began
        if took_s > self.watch.noted_s:
            self.watch.end(took_s, did)


def test_a_long_step_is_told_with_its_parts_and_its_work() -> None:
    steps = Steps()
    steps.take(busy_s=0.001)
    steps.take("read a file", idle_s=30.0, busy_s=0.02, waited_s=0.35, host_s=0.03)
    (found,) = steps.told
    assert (found.took_s, found.busy_s) == pytest.approx((0.4, 0.02))
    assert (found.waited_s, found.host_s) == pytest.approx((0.35, 0.03))
    assert found.text == (
        "the event loop served nobody for 400 ms: it was busy for 20 ms, waited for 350 ms, and the"
        " host ran others for 30 ms, while it read a file"
    )
    assert "please report" in found.remedy
    assert steps.watch.longest == found


@pytest.mark.parametrize("parts", [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_long_steps_are_counted_by_their_cause(parts: tuple[int, int, int]) -> None:
    steps = Steps()
    for seconds in (0.001, 3 * LONG_S, 2 * LONG_S, LONG_S / 2):
        busy_s, waited_s, host_s = (seconds * part for part in parts)
        steps.take(idle_s=1.0, busy_s=busy_s, waited_s=waited_s, host_s=host_s)
    assert list(steps.watch.long.values()) == [2 * part for part in parts]
    assert steps.told == [], "as long as that is no log's business"


def test_what_comes_between_steps_is_in_none() -> None:
    steps = Steps()
    for _ in range(1000):
        steps.take(idle_s=10.0, busy_s=0.002)
        steps.clocks.run(host_s=0.5)  # it is awake, and has no processor yet
    assert steps.watch.longest.took_s == pytest.approx(0.002)
    assert not any(steps.watch.long.values())


def test_short_steps_before_a_long_one_never_make_it_look_as_if_it_had_waited() -> None:
    steps = Steps()
    for number in range(50):
        steps.take(busy_s=0.0004)
        steps.take(host_s=0.0004)
        waited_s = 0.02 + number / 1000
        steps.take(waited_s=waited_s)
        assert waited_s - ERROR_S < steps.watch.longest.waited_s < waited_s + 1e-9


def test_the_longest_step_is_one_of_the_last_two_windows() -> None:
    steps = Steps()
    steps.take("was slow", busy_s=0.05)
    steps.take(idle_s=0.9 * WINDOW_S, busy_s=0.02)
    assert steps.watch.longest.did == "was slow"
    steps.take(idle_s=0.9 * WINDOW_S, busy_s=0.03)
    assert steps.watch.longest.did == "was slow"
    steps.take(idle_s=1.1 * WINDOW_S, busy_s=0.01)
    assert steps.watch.longest.took_s == pytest.approx(0.03)
    steps.take(idle_s=1.1 * WINDOW_S, busy_s=0.001)
    assert steps.watch.longest.took_s == pytest.approx(0.01)


def test_a_quantile_of_steps_is_the_bound_that_so_many_keep() -> None:
    watch = LoopWatch(bool)
    assert watch.report()["p999_ms"] == 0.0, "no step yet"
    for took_s in [0.0002] * 999 + [0.02]:
        watch.steps.add(took_s)
    assert watch.report()["p999_ms"] == 0.25
    watch.steps.add(0.01)
    assert watch.report()["p999_ms"] == 10.0, "which it keeps"
    for _ in range(9):
        watch.steps.add(11.0)
    assert watch.report()["p999_ms"] is None
    assert watch.report()["steps"]["more"] == 9


def test_what_the_host_took_of_a_long_step_is_no_work_of_it() -> None:
    steps = Steps()
    for _ in range(3):
        steps.take(host_s=0.04, busy_s=0.0002)
    steps.take(busy_s=0.03)
    watch = steps.watch
    for took_s in (0.04, 0.04, 0.04, 0.03, 0.0002, 0.01):
        watch.steps.add(took_s)
    busy = {bound: count for bound, count in watch.report()["busy_steps"].items() if count}
    assert busy == {"0.25": 4, "10": 1, "50": 1}


def test_lines_of_long_steps_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    log = BoundedLog(lambda: 1000.0)
    with caplog.at_level(logging.WARNING, "groupcommd"):
        for _ in range(100):
            log_step(log, Step(took_s=0.2, busy_s=0.2, did="worked"))
        assert len(caplog.messages) == BURST
        log_step(log, Step(took_s=0.2, did="worked"))
    assert "waited for 200 ms" in caplog.messages[-1], "another cause has lines of its own"


def test_the_doctor_reports_a_loop_that_stood_still() -> None:
    steps = Steps()
    steps.take("read a file", waited_s=STANDS_STILL_MS / 1000 - 0.1)
    assert not [*check_loop(DaemonAnswers({}, {"loop": steps.watch.report()}, {}))]
    steps.take("read a file", waited_s=STANDS_STILL_MS / 1000)
    (found,) = check_loop(DaemonAnswers({}, {"loop": steps.watch.report()}, {}))
    assert found.grade is Grade.WARNING
    assert "while it read a file" in found.text
    assert not [*check_loop(DaemonAnswers({}, {}, {}))], "an older daemon"


# ---- a real loop ----


def use_processor(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        continue


@pytest.mark.parametrize(
    ("part", "act"),
    [("waited_s", time.sleep), ("busy_s", use_processor)],
)
def test_the_parts_of_a_real_step_are_known(part: str, act: Callable[[float], None]) -> None:
    """However busy the host is: that is another part of the step."""
    told: list[Step] = []
    watch = LoopWatch(told.append)
    with watch.running(), watch.step("acted"):
        act(LOGGED_S)
    (found,) = told
    assert getattr(found, part) >= LOGGED_S - ERROR_S
    assert found.did == "acted"
    assert steps_of(watch, LOGGED_S) == 1
    with watch.step("is not measured any more"):
        act(LOGGED_S)
    assert told == [found]


def steps_of(watch: LoopWatch, least_s: float) -> int:
    """Return the number of steps, as its report tells, that took this time or longer."""
    return sum(
        count
        for bound, count in watch.report()["steps"].items()
        if bound == "more" or float(bound) >= 1000 * least_s
    )


def test_a_late_timer_is_told_unless_a_long_step_explains_it() -> None:
    told: list[Step] = []
    watch = LoopWatch(told.append)
    with watch.running():
        with watch.step("slept"):
            time.sleep(LOGGED_S)
        watch.note_late(LOGGED_S)
        assert [each.did for each in told] == ["slept"]
        time.sleep(LOGGED_S)
        watch.note_late(0.99 * LOGGED_S)
        watch.note_late(LONG_S / 2)
        assert [each.did for each in told] == ["slept"], "it is long, and not logged"
        assert sum(watch.long.values()) == steps_of(watch, LONG_S) == 2
        time.sleep(2 * LOGGED_S)
        watch.note_late(LOGGED_S)
    assert [each.did for each in told] == ["slept", "took other steps"]


async def test_a_daemon_tells_of_a_step_that_waits(tmp_path: Path) -> None:
    """What waits here is its core, between the datagrams of others and the programs."""
    async with virtual_daemons(tmp_path, "a") as daemons:
        service = daemons["a"].service
        told: list[Step] = []
        service.loop._tell = told.append
        step = service.core.step

        def wait(now: float, datagrams: Sequence[bytes], inputs: Sequence[Input]) -> Output:
            if inputs:
                time.sleep(LOGGED_S)
            return step(now, datagrams, inputs)

        service.core.step = wait  # type: ignore[method-assign]
        service.connections.feed([LeaveRequested()])
        while not told:
            await trio.sleep(0.01)
    assert told[0].waited_s >= LOGGED_S - ERROR_S
    assert steps_of(service.loop, LOGGED_S) >= len(told), "a bucket begins below"
    assert sum(service.loop.steps.counts) > len(told), "the short ones"
    assert "handled 1 inputs" in told[0].did
