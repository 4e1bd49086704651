"""Daemons, archives and other servers go on, though nobody reads what they tell."""

import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_client.history import EARLIEST, CaughtUp
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.host.process import notify_systemd
from groupcommd.operators import journal
from groupcommd.operators.logs import dropped_lines, set_up_logs
from tests.groupcomm_tools.shell import tell
from tests.groupcomm_tools.warm import WarmProcess

PATIENCE_S = 30.0
COMMAND = (sys.executable, "-m", "groupcomm_tools.cli")


@contextmanager
def stuck() -> Iterator[int]:
    """Yield the descriptor of a full pipe that nobody reads."""
    out, end = os.pipe()
    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(end, False)
    os.write(end, b"x" * 4096)
    os.set_blocking(end, True)
    try:
        yield end
    finally:
        os.close(end)
        os.close(out)


def until(what: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


@contextmanager
def running(*words: str, **streams: int) -> Iterator[WarmProcess]:
    """Run a command; once the block is over it must end in order, although it is stuck."""
    process = WarmProcess(*words, environment=None, **streams)
    try:
        yield process
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("a") as made:
        yield made


def test_a_daemon_starts_serves_and_leaves(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    words = ("daemon", "--unix", str(path), "--state-dir", str(tmp_path / "state"), "--port", "0")
    with stuck() as pipe, running(*words, stderr=pipe) as process:
        until(path.exists)
        with connect(str(path)) as connection:
            connection.join("g")
            for _ in range(20):
                process.send_signal(signal.SIGHUP)  # it logs that it has read its file
                connection.multicast_ordered("g", b"x")
            assert connection.ask("status")["log"] == {"dropped_lines": 0}


@pytest.mark.long
def test_a_daemon_that_cannot_start_ends(tmp_path: Path) -> None:
    with stuck() as pipe:
        for words in (
            ("--config", str(tmp_path / "nothing.toml")),
            ("--state-dir", "/dev/null/x", "--unix", str(tmp_path / "s")),
        ):
            command = [*COMMAND, "daemon", *words]
            ended = subprocess.run(command, check=False, stderr=pipe, timeout=PATIENCE_S)
            assert ended.returncode in (1, 2)


def test_a_daemon_without_standard_streams_gives_their_numbers_to_nothing_else(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.sock"
    words = f"--unix {path} --state-dir {tmp_path / 'state'} --port 0"
    command = f"exec {' '.join(COMMAND)} daemon {words} 0<&- 1>&- 2>&-"
    process = subprocess.Popen(["sh", "-c", command])
    try:
        until(path.exists)
        with connect(str(path)) as connection:
            connection.join("g")
        for number in range(3):
            assert Path(f"/proc/{process.pid}/fd/{number}").readlink() == Path(os.devnull)
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.long
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_an_archive_serves(cluster: RunningCluster, tmp_path: Path, as_json: bool) -> None:
    group, address = f"json-{as_json}", cluster.address("a")
    store = ("--store", str(tmp_path / "log"))
    words = ("history", "serve", group, *store, "--address", address)
    with (
        stuck() as pipe,
        connect(address) as connection,
        connect(address) as reader,
        running(
            *(*words, "--json") if as_json else words,
            **{"stdout" if as_json else "stderr": pipe},
        ),
    ):
        until(lambda: members(connection, group))
        with reader.subscribe(group, start=EARLIEST) as reading:
            while not isinstance(reading.receive(PATIENCE_S), CaughtUp):
                pass


def test_a_server_of_requests_answers(cluster: RunningCluster) -> None:
    address = ("--address", cluster.address("a"))
    words = ("serve", "echo", "--json", *address, "--", "cat")
    with stuck() as pipe, running(*words, stdout=pipe, stderr=pipe):
        with connect(cluster.address("a")) as connection:
            until(lambda: members(connection, "echo"))
        for text in ("a", "b"):
            told = tell("request", "echo", text, *address)
            assert (told[0], told[1].strip()) == (0, text)


def members(connection: BlockingConnection, group: str) -> list[str]:
    found: list[str] = connection.ask(f"members {group}")["members"]
    return found


def test_a_supervisor_that_takes_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        told: list[bool] = []
        _in_thread(lambda: told.extend(notify_systemd("WATCHDOG=1") for _ in range(5000)))
        assert not all(told), "its queue has a bound"


def test_a_journal_that_takes_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket is full, and so is standard error, where refused lines go then."""
    path = tmp_path / "journal"
    monkeypatch.setattr(journal, "SOCKET", path)
    log = logging.getLogger("groupcommd")
    kept = log.handlers[:], log.level, log.propagate
    with (
        stuck() as pipe,
        os.fdopen(os.dup(pipe), "w") as messages,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener,
    ):
        listener.bind(str(path))
        found = os.fstat(pipe)
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        monkeypatch.setattr(sys, "stderr", messages)
        log.handlers[:] = []
        set_up_logs(as_json=False, verbose=False)

        def write() -> None:
            for number in range(5000):
                log.warning("line %d", number)

        _in_thread(write)
        assert dropped_lines() > 0
        for handler in log.handlers:
            handler.close()
        log.handlers[:], log.level, log.propagate = kept


def _in_thread(work: Callable[[], object]) -> None:
    """Do something that must not wait."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "it waits"
