"""A daemon whose disk is slow, hangs or fails: its reports, the others' views, its end."""

import json
import logging
import signal
from collections.abc import AsyncIterator
from math import inf
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import trio
import trio.testing

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine import DaemonCore
from groupcomm_client import connect
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon
from groupcommd.cli import count_start
from groupcommd.config.config_file import read_config
from groupcommd.files.disk import DiskWatch
from groupcommd.files.state_dir import StateDir, StateError, StateRecord
from groupcommd.operators.assessment import DaemonAnswers, check_disk
from groupcommd.operators.findings import Finding, Grade
from tests.groupcommd.virtual import virtual_clock

FOLDER = Path("/var/lib/groupcomm/press")
TIMEOUT_S = 5.0
MARK = 10**9


class Watched:
    """A core, and the reports about its disk."""

    def __init__(self) -> None:
        config = CoreConfig(suite=0, sites=(("a",),))
        start = Start(name="a", incarnation=Incarnation(1, 7), mark=MARK)
        self._core = DaemonCore(config, start, keys=None, now=0.0, wall=0.0)
        self.disk = self._core.reservation
        self._watch = DiskWatch(FOLDER, TIMEOUT_S)

    def write(self, begins: float, ends: float) -> None:
        assert self.disk.to_store is None or self.disk.asked_at == begins
        self.disk.may_use(self.disk.mark + 1, begins)
        assert self.disk.to_store is not None
        self.disk.stored(self.disk.to_store, ends)
        self.look(ends)

    def look(self, now: float) -> None:
        """The look of a second."""
        self._watch.check(self._core.status(now))

    def told(self, now: float) -> dict[str, Any]:
        """Return the part of `status`."""
        return self._watch.report(self._core.status(now))

    def finding(self, now: float) -> Finding:
        """Return the doctor's findings."""
        return check_disk(DaemonAnswers({}, {"disk": self.told(now)}, {}))


# ---- reports ----


def test_a_disk_that_is_well_is_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="groupcommd")
    watched = Watched()
    for second in range(5):
        watched.write(second, second + 0.01)
    assert caplog.text == ""
    assert watched.finding(5.0).grade is Grade.OK
    assert watched.told(5.0) == {
        "folder": str(FOLDER),
        "write_s": 0.01,
        "slow": False,
        "waits_s": 0.0,
        "answers": True,
        "error": None,
        "aside": False,
    }


def test_a_slow_disk_is_reported_once_and_when_it_is_quick_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="groupcommd")
    watched = Watched()
    for second in range(3):
        watched.write(second, second + 0.5)
    (line,) = caplog.messages
    assert str(FOLDER) in line
    assert "a write took 0.50 s" in line
    assert watched.finding(3.0).grade is Grade.WARNING
    watched.write(4.0, 5.5)
    assert "a write took 1.50 s" in caplog.messages[1], "it has become much worse"
    for second in range(6, 12):
        watched.write(second, second + 0.01)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]


def test_a_disk_that_does_not_answer_is_reported_while_it_does_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="groupcommd")
    watched = Watched()
    watched.disk.may_use(MARK + 1, 10.0)
    for second in range(10, 15):
        watched.look(second)
    assert all("have a view without this one" in line for line in caplog.messages)
    caplog.clear()
    watched.look(15.0)
    watched.look(16.0)
    (line,) = caplog.messages
    assert f"{FOLDER}: the disk has not answered for 5.0 s (disk_timeout_s = 5)" in line
    found = watched.finding(16.0)
    assert found.grade is Grade.PROBLEM
    assert "has not answered for 6 s; the daemon has left the view" in found.text
    caplog.clear()
    watched.write(10.0, 30.0)
    assert any("the disk answers again" in line for line in caplog.messages)
    assert any("joins the others again" in line for line in caplog.messages)


def test_writes_that_fail_are_reported_once_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="groupcommd")
    watched = Watched()
    for reason in ("No space left", "No space left", "Input/output error"):
        watched.disk.step(1000.0)
        watched.disk.failed(f"state_dir {FOLDER} cannot be used: {reason}", 1.0)
        watched.look(1.0)
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "No space left" in caplog.messages[0]
    found = watched.finding(1.0)
    assert (found.grade, "Input/output error" in found.text) == (Grade.PROBLEM, True)
    watched.disk.step(1000.0)
    watched.write(watched.disk.asked_at, 2.0)
    assert "writes succeed again" in caplog.messages[-1]


# ---- the state folder ----


def test_who_comes_back_late_does_not_write_over_what_is_newer(tmp_path: Path) -> None:
    """A thread that hung in a write while the daemon began anew."""
    state = StateDir(tmp_path)
    state.begin("a")
    hangs, goes_on = Event(), Event()
    right = state._write

    def hang(record: StateRecord) -> None:
        hangs.set()
        goes_on.wait(10)
        right(record)

    state._write = hang  # type: ignore[method-assign]
    outcome = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, state.store, 5)
            await trio.to_thread.run_sync(hangs.wait)
            state._write = right  # type: ignore[method-assign]
            nursery.start_soon(begin)
            await trio.testing.wait_all_tasks_blocked()
            goes_on.set()

    async def begin() -> None:
        outcome.append(await trio.to_thread.run_sync(state.begin, "a"))

    trio.run(main)
    assert outcome[0].incarnation.restarts == 2
    found = json.loads((tmp_path / "state.json").read_text())
    assert found == {"restarts": 2, "mark": outcome[0].mark}
    state.close()


def test_a_folder_stays_locked_while_a_write_hangs(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    with state._writing:
        state.close()
        with pytest.raises(StateError, match="in use by another daemon"):
            StateDir(tmp_path)
    state.close()
    StateDir(tmp_path).close()


# ---- the start ----


async def _signals(*numbers: signal.Signals, after_s: float) -> AsyncIterator[int]:
    await trio.sleep(after_s)
    for number in numbers:
        yield number
    await trio.sleep_forever()


def start_on_a_disk_that_hangs(
    folder: Path, *numbers: signal.Signals, answers_after_s: float
) -> tuple[Start | None, list[int], float]:
    """Return the result, the kept signals, and the virtual seconds that it took."""
    answers, kept = Event(), list[int]()

    class Hanging(StateDir):
        def _write(self, record: StateRecord) -> None:
            answers.wait(60)
            self._record = record

    async def main() -> tuple[Start | None, list[int], float]:
        config = read_config(None, name="a", state_dir=folder)
        state, begun = Hanging(folder), trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            signals = _signals(*numbers, after_s=30.0)
            found = await count_start(config, state, signals, kept)
            took_s = trio.current_time() - begun
            answers.set()
            nursery.cancel_scope.cancel()
        return found, kept, took_s

    async def answer() -> None:
        await trio.sleep(answers_after_s)
        clock.autojump_threshold = inf  # a thread works, however long the machine takes
        answers.set()

    clock = virtual_clock()
    return trio.run(main, clock=clock)


def test_a_start_says_what_it_waits_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found, _, _ = start_on_a_disk_that_hangs(tmp_path, answers_after_s=25.0)
    assert found is not None
    waits = [line.partition(" for ")[2].partition(" (")[0] for line in caplog.messages]
    assert waits == ["5 s", "10 s", "20 s"]
    assert f"state_dir {tmp_path}" in caplog.messages[0]
    assert "must be counted there first" in caplog.messages[0]


def test_a_start_that_waits_for_its_disk_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    numbers = (signal.SIGHUP, signal.SIGTERM)
    found, _, took_s = start_on_a_disk_that_hangs(tmp_path, *numbers, answers_after_s=1000.0)
    assert found is None
    assert took_s < 40.0


def test_other_signals_are_obeyed_once_the_start_is_counted(tmp_path: Path) -> None:
    found, kept, _ = start_on_a_disk_that_hangs(tmp_path, signal.SIGHUP, answers_after_s=50.0)
    assert found is not None
    assert kept == [signal.SIGHUP]


# ---- real daemons ----


class SickDaemon(LocalDaemon):
    """One with a disk to which something is done."""

    def spoil(self, how: str) -> None:
        """Have writes take seconds, hang or fail from now on."""
        Path(f"{self.unix}.disk").write_text(how)


def make_sick(cluster: LocalCluster, name: str) -> SickDaemon:
    """Give one daemon of a cluster that does not run yet such a disk."""
    module = Path(__file__).parent / "sick_disk"
    disk = cluster.folder / f"{name}.sock.disk"
    prefix = ("env", f"PYTHONPATH={module}", f"SICK_DISK={disk}")
    sick = SickDaemon(cluster.folder, name, cluster.config, (), prefix=prefix)
    cluster.daemons[name] = sick
    return sick


def logged(daemon: LocalDaemon, text: str) -> bool:
    return any(text in line["text"] for line in daemon.lines())


async def until_logged(daemon: LocalDaemon, text: str) -> None:
    with trio.fail_after(20):
        while not logged(daemon, text):
            await trio.sleep(0.01)


async def test_a_daemon_with_a_slow_disk_is_in_the_view_and_says_that_it_is_slow() -> None:
    cluster = LocalCluster("abc")
    slow = make_sick(cluster, "c")
    slow.spoil("0.5")
    async with cluster as daemons:
        await daemons.settle("abc")
        await until_logged(slow, "the disk is slow, a write took")
        daemons["b"].kill()
        await daemons.settle("ac")
        await daemons["b"].start()
        await daemons.settle("abc")
        async with connect(str(slow.unix)) as connection:
            assert (await connection.ask("status"))["disk"]["slow"]
        slow.spoil("hangs")
        daemons["b"].kill()
        await daemons.settle("ac")
        assert await slow.leave() == 0, "whatever its thread waits for"
        await daemons.settle("a")


async def test_a_daemon_alone_waits_for_its_disk_and_works_with_one_that_fails() -> None:
    cluster = LocalCluster("a", "disk_timeout_s = 0.1\n")
    sick = make_sick(cluster, "a")
    sick.spoil("hangs")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sick.start)
        await until_logged(sick, "must be counted there")
        assert await sick.leave() == 0
        sick.spoil("0.2")
        await sick.start()
        await cluster.settle("a")
        sick.spoil("full")
        await until_logged(sick, "No space left on device")
        async with connect(str(sick.unix)) as connection:
            assert (await connection.ask("status"))["state"] == "operational"
        assert await sick.leave() == 0
    cluster.close()
