"""Commands that handle jobs and requests: what they leave, print and break ends at most one."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from groupcomm.errors import ConfigError
from groupcomm_client.coordination.limits import MAX_DATA_BYTES
from groupcomm_tools.commands.children import (
    SHOWN_BYTES,
    CannotStart,
    CommandFailed,
    Done,
    check_command,
    execute,
)
from groupcomm_tools.commands.guardian import Guardian
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_tools.shell import Shell
from tests.groupcomm_tools.warm import WarmProcess

PATIENCE_S = 30.0
MOMENT_S = 0.5


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with RunningCluster("a") as cluster:
        yield Shell(cluster.address("a"))


async def execute_script(script: str, data: bytes = b"") -> Done:
    with trio.fail_after(PATIENCE_S):
        return await execute(("sh", "-c", script), data, {"WORD": "told"}, keep_output=True)


def until(what: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


# ---- one command ----


async def test_a_command_gets_its_input_and_returns_its_output() -> None:
    data = bytes(range(256)) * 4096
    assert await execute_script("cat; echo $WORD >&2", data) == Done(0, data, "told")
    failed = await execute_script(f"head -c {SHOWN_BYTES * 9} /dev/zero >&2; exit 3", data)
    assert (failed.status, len(failed.why)) == (3, SHOWN_BYTES)
    with pytest.raises(CommandFailed, match="exit status 3"):
        failed.check()


async def test_a_command_is_done_when_it_exits_whatever_it_leaves_in_the_background() -> None:
    done = await execute_script("sleep 1000 & echo $!; echo said >&2; exit 0", b"x" * 10**6)
    left = int(done.output)
    try:
        assert (done.status, done.why) == (0, "said")
        assert not has_ended(left)
    finally:
        os.kill(left, signal.SIGKILL)


async def test_a_command_that_is_cancelled_ends_with_all_that_it_has_started(
    tmp_path: Path,
) -> None:
    told = tmp_path / "told"
    script = f"trap '' TERM; sleep 1000 & echo $$ $! > {told}.new; mv {told}.new {told}; wait; wait"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(execute_script, script)
        while not told.exists():
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    pids = [int(word) for word in told.read_text().split()]
    assert len(pids) == 2
    until(lambda: all(map(has_ended, pids)))


async def test_a_command_prints_no_more_than_a_message_may_have() -> None:
    with pytest.raises(CommandFailed, match=f"more than {MAX_DATA_BYTES:,} bytes"):
        await execute_script("cat /dev/zero")


async def test_a_command_that_cannot_be_started_is_told_apart_from_one_that_fails() -> None:
    for command in ("/no/such/command", "no-such-command", "/etc/passwd"):
        with pytest.raises(ConfigError, match="there is no such program"):
            check_command([command])
        with pytest.raises(CannotStart, match=f"cannot start {command}"):
            await execute([command], b"", {}, keep_output=False)
    check_command(["cat"])


# ---- workers and servers ----


@contextmanager
def running(shell: Shell, *words: str) -> Iterator[WarmProcess]:
    process = shell.start(*words)
    assert process.stderr is not None
    try:
        process.stderr.readline()  # it is there
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def test_who_has_no_command_never_gets_a_job_or_a_request(shell: Shell) -> None:
    for words in (("work", "g", "--name", "set"), ("serve", "g")):
        status, _, messages = shell.tell(*words, "--", "/no/such/command")
        assert (status, "there is no such program" in messages) == (2, True)


def test_jobs_of_a_worker_whose_command_is_gone_go_to_others_and_count_no_failure(
    shell: Shell, tmp_path: Path
) -> None:
    command = tmp_path / "command"
    command.symlink_to("/bin/true")
    words = ("work", "gone", "--name", "set", "--tries", "1", "--at-once", "1", "--json")
    with (
        running(shell, *words, "--", str(command)) as broken,
        running(shell, *words, "--count", "2", "--", "sh", "-c", "cat >&2") as good,
    ):
        command.unlink()
        assert shell.tell("pub", "gone", given="1\n2\n")[0] == 0
        assert broken.wait(PATIENCE_S) == 1
        assert broken.stderr is not None
        assert f"cannot start {command}: No such file" in broken.stderr.read()
        assert good.wait(PATIENCE_S) == 0
    _, output, _ = shell.tell("work", "gone", "--name", "set", "--list", "--json")
    assert json.loads(output)["set_aside"] == []


def test_a_worker_tells_its_own_terminal_what_fails(shell: Shell) -> None:
    script = "echo no printer >&2; exit 4"
    words = ("work", "told", "--name", "set", "--tries", "1", "--", "sh", "-c", script)
    with running(shell, *words) as worker:
        assert shell.tell("pub", "told", given="1\n")[0] == 0
        assert worker.stderr is not None
        line = worker.stderr.readline()
    assert line.startswith("a job of #")
    assert line.endswith("has failed here: exit status 4: no printer\n")


def test_a_handler_that_leaves_a_process_has_replied(shell: Shell, tmp_path: Path) -> None:
    left = tmp_path / "left"
    script = f"sleep 1000 & echo $! > {left}; cat"
    with running(shell, "serve", "leaving", "--", "sh", "-c", script):
        try:
            assert shell.tell("request", "leaving", "hello")[:2] == (0, "hello\n")
        finally:
            os.kill(int(left.read_text()), signal.SIGKILL)


STATUSES = {signal.SIGTERM: 0, signal.SIGHUP: 129, signal.SIGKILL: -9}


@pytest.mark.parametrize("number", STATUSES)
def test_the_command_of_a_worker_ends_with_it(
    shell: Shell, tmp_path: Path, number: signal.Signals
) -> None:
    told = tmp_path / "told"
    script = f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 1000"
    words = ("work", f"ends-{number}", "--name", "set", "--", "sh", "-c", script)
    with running(shell, *words) as worker:
        assert shell.tell("pub", f"ends-{number}", given="1\n")[0] == 0
        until(told.exists)
        time.sleep(MOMENT_S)  # a command of the last moment before a kill is not known to be ended
        worker.send_signal(number)
        assert worker.wait(PATIENCE_S) == STATUSES[number]
        pid = int(told.read_text())
        until(lambda: has_ended(pid))


@contextmanager
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], process_group=0) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_guardian_ends_what_runs_and_nothing_that_was_forgotten() -> None:
    guardian = Guardian()
    with sleeping() as kept, sleeping() as forgotten:
        guardian.start()
        guardian.add(kept.pid)
        guardian.add(forgotten.pid)
        guardian.discard(forgotten.pid)
        helper = guardian._helper
        assert helper is not None
        assert helper.stdin is not None
        helper.stdin.close()  # as when this process is killed
        assert kept.wait(PATIENCE_S) == -signal.SIGTERM
        assert helper.wait(PATIENCE_S) == 0
        assert forgotten.poll() is None


def test_a_guardian_that_was_killed_is_replaced() -> None:
    guardian = Guardian()
    with sleeping() as kept:
        guardian.start()
        guardian.add(kept.pid)
        first = guardian._helper
        assert first is not None
        first.kill()
        first.wait()
        guardian.add(kept.pid)
        second = guardian._helper
        assert second is not None
        assert second is not first
        assert second.stdin is not None
        second.stdin.close()
        assert kept.wait(PATIENCE_S) == -signal.SIGTERM
        assert second.wait(PATIENCE_S) == 0
