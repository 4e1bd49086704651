"""The end of commands that start processes: nothing is left, whatever ends them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from groupcomm_tools import cli
from groupcomm_tools.commands import keygen
from groupcomm_tools.local_cluster import LocalDaemon
from groupcomm_tools.running_cluster import RunningCluster
from groupcomm_tools.stopping import run_tasks, stopped_by_signals
from tests.groupcomm_tools.shell import Shell

PATIENCE_S = 60.0
MARK = "GROUPCOMM_TEST_OF_STOPS"
STATUSES = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}

HOLDER = """
import sys
from groupcomm_tools.running_cluster import RunningCluster
with RunningCluster(1, options=("--http", "127.0.0.1:0")) as cluster:
    print(flush=True)
    sys.stdin.read()
"""
"""A program that has a daemon and its HTTP process; as by the fixture of pytest."""


def marked(mark: str) -> list[str]:
    """Return the command lines of the processes that a marked one has started, and its own."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and f"{MARK}={mark}\0".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
    return found


@contextmanager
def all_gone(mark: str, *command: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a marked command; by the end of the block none of its processes is there."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, MARK: mark},
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
        end = time.monotonic() + PATIENCE_S
        while left := marked(mark):
            assert time.monotonic() < end, left
            time.sleep(0.05)
    finally:
        process.kill()
        process.communicate()


def until(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stdout is not None
    told = [""]
    while text not in told[-1]:
        told.append(process.stdout.readline())
        assert told[-1], told


def test_a_command_ends_at_signals_as_at_an_interrupt_unless_they_are_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_by_signals() as stop:
            signal.raise_signal(signal.SIGHUP)  # as under nohup
        with pytest.raises(KeyboardInterrupt), stopped_by_signals() as stop:
            signal.raise_signal(signal.SIGTERM)
        assert stop.status == 143
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_no_task_can_hold_an_interruption_for_an_error_of_its_own() -> None:
    held = []

    async def hold() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except BaseException as error:
            held.append(error)
        await trio.sleep_forever()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # PySpark changes it
    try:
        with pytest.raises(BaseExceptionGroup) as raised, stopped_by_signals():
            run_tasks(main)
    finally:
        signal.signal(signal.SIGINT, before)
    assert raised.value.subgroup(KeyboardInterrupt)
    assert not held


def test_errors_that_come_with_an_interruption_do_not_hide_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(options: object) -> int:
        raise BaseExceptionGroup("", [ValueError(), BaseExceptionGroup("", [KeyboardInterrupt()])])

    monkeypatch.setattr(keygen, "run", run)
    assert cli.main(["keygen", "x.key"]) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_commands_run_their_tasks_so() -> None:
    folder = Path(keygen.__file__).parent
    assert not [each.name for each in folder.glob("*.py") if "trio.run(" in each.read_text()]


def test_daemons_and_their_http_end_with_a_program_that_is_killed() -> None:
    with all_gone("killed", "-c", HOLDER) as program:
        until(program, "\n")
        end = time.monotonic() + PATIENCE_S
        while len(marked("killed")) < 4:  # the program, a fork server, a daemon, its HTTP, which
            assert time.monotonic() < end, marked("killed")  # may still become another program
            time.sleep(0.05)
        program.kill()


@pytest.mark.long
@pytest.mark.parametrize("number", STATUSES)
@pytest.mark.parametrize(
    ("command", "text", "pause_s"),
    [
        ("demo --keep", "configuration is", 0.5),
        ("bench --duration-s 1000", "", 6.0),
        ("bench --floor --rate 100 --duration-s 1000", "", 4.0),
        ("simulate --seeds 1:100000 --workers 2", "", 4.0),
    ],
)
def test_nothing_is_left_of_a_command(
    number: signal.Signals, command: str, text: str, pause_s: float
) -> None:
    mark = f"{command}/{number}"
    with all_gone(mark, "-m", "groupcomm_tools.cli", *command.split()) as process:
        if text:
            until(process, text)
        time.sleep(pause_s)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == STATUSES[number]


def test_a_worker_and_a_server_do_not_wait_long_for_a_daemon_that_stands_still() -> None:
    with RunningCluster(1) as cluster:
        shell = Shell(cluster.address("a"))
        daemon: LocalDaemon = cluster._local["a"]
        processes = [
            shell.start("work", "g", "--name", "set", "--", "cat"),
            shell.start("serve", "g", "--", "cat"),
        ]
        for process in processes:
            assert process.stderr is not None
            process.stderr.readline()
        daemon.signal(signal.SIGSTOP)
        try:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process in processes:
                process.communicate(timeout=PATIENCE_S)
                assert process.returncode == 0
        finally:
            daemon.signal(signal.SIGCONT)
