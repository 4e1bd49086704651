"""Warm start: processes that were forked are what processes are, and leave nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from groupcomm_tools.warm_start import LOST, ForkedProcess, ForkServer, start_warm

MODULE = "tests.groupcomm_tools.forked_main"
PATIENCE_S = 30.0

ENDS_AT_ONCE = f"""
import os, sys
from groupcomm_tools.warm_start import ForkServer
server = ForkServer({MODULE!r})
server.start([sys.argv[1], "0"], stderr=2).wait()
print(server._process.pid, flush=True)
os._exit(0)
"""


@pytest.fixture
def server() -> Iterator[ForkServer]:
    made = ForkServer(MODULE)
    yield made
    made.close()
    assert made._process.returncode == 0


def wait_for(path: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < end, f"{path} is not there"
        time.sleep(0.005)


def start(server: ForkServer, told: Path, end: str) -> ForkedProcess:
    with Path(f"{told}.log").open("wb") as log:
        process = server.start([str(told), end], stderr=log.fileno())
    wait_for(told)
    return process


def test_it_has_arguments_environment_and_folder_of_who_started_it(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOLD_LATER", "yes")
    monkeypatch.chdir(tmp_path)
    process = start(server, tmp_path / "told", "7")
    assert process.wait(PATIENCE_S) == 7
    found = json.loads((tmp_path / "told").read_text())
    assert found["env"]["TOLD_LATER"] == "yes"
    assert (found["folder"], found["pid"]) == (str(tmp_path), process.pid)
    assert (tmp_path / "told.log").read_text() == "said\n"


def test_ps_shows_what_it_does(server: ForkServer, tmp_path: Path) -> None:
    process = start(server, tmp_path / "t", "sleep")
    proc = Path(f"/proc/{process.pid}")
    shown = proc.joinpath("cmdline").read_bytes().rstrip(b"\0").decode()
    expected = f"tests {tmp_path / 't'} sleep"
    assert shown == expected[: len(shown)]
    assert shown.startswith("tests /")
    assert proc.joinpath("comm").read_text() == "tests\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait(PATIENCE_S)


def test_it_has_the_standard_streams_that_it_is_given(server: ForkServer, tmp_path: Path) -> None:
    """Pipes, though the streams of the process that forks were files at its start."""
    text = "größe\nno end"
    for name in ("one", "other"):  # the one has nothing that is for the other
        (stdin, given), (found, stdout), (said, stderr) = os.pipe(), os.pipe(), os.pipe()
        words = [str(tmp_path / name), "copy"]
        process = server.start(words, stdin=stdin, stdout=stdout, stderr=stderr)
        for end in (stdin, stdout, stderr):
            os.close(end)
        with os.fdopen(given, "w") as writer:
            writer.write(f"{name} {text}")
        with os.fdopen(found) as output, os.fdopen(said) as messages:
            assert (output.read(), messages.read()) == (f"{name} {text}", "said\n")
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_by_signals_and_others_go_on(
    server: ForkServer, tmp_path: Path, number: signal.Signals
) -> None:
    one, other = (start(server, tmp_path / name, "sleep") for name in ("one", "other"))
    assert one.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        one.wait(0.0)
    one.send_signal(number)
    assert one.wait(PATIENCE_S) == -number
    one.send_signal(number)  # no process gets it
    assert other.poll() is None
    other.send_signal(signal.SIGKILL)
    assert other.wait() == -signal.SIGKILL


def test_no_descriptor_stays_open(server: ForkServer, tmp_path: Path) -> None:
    def count(pid: int | str) -> int:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))

    start(server, tmp_path / "first", "0").wait()
    forks, before = server._process.pid, count("self")
    for number in range(5):
        assert start(server, tmp_path / str(number), "3").wait(PATIENCE_S) == 3
    assert count("self") == before
    while_one_runs = start(server, tmp_path / "last", "sleep")
    assert count(while_one_runs.pid) == 3, "it has descriptors of others"
    while_one_runs.send_signal(signal.SIGKILL)
    while_one_runs.wait()
    end = time.monotonic() + PATIENCE_S
    while count(forks) > 6:  # the socket of a process is closed just after its report
        assert time.monotonic() < end, sorted(Path(f"/proc/{forks}/fd").iterdir())
        time.sleep(0.005)


def test_where_the_process_that_forks_was_killed_another_one_comes(tmp_path: Path) -> None:
    def told(name: str) -> ForkedProcess:
        return start_warm(MODULE, [str(tmp_path / name), "sleep"], stderr=sys.stderr.fileno())

    one = told("one")
    wait_for(tmp_path / "one")
    forks = int(Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(forks, signal.SIGKILL)
    assert one.wait(PATIENCE_S) == LOST
    with suppress(ProcessLookupError):
        os.kill(one.pid, signal.SIGKILL)
    other = told("other")
    wait_for(tmp_path / "other")
    other.send_signal(signal.SIGKILL)
    assert other.wait(PATIENCE_S) == -signal.SIGKILL


def test_what_an_interpreter_reads_at_its_start_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.marker = 'read'")
    start_warm(MODULE, [str(tmp_path / "before"), "0"], stderr=sys.stderr.fileno()).wait()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    start_warm(MODULE, [str(tmp_path / "after"), "0"], stderr=sys.stderr.fileno()).wait()
    found = [json.loads((tmp_path / name).read_text())["marker"] for name in ("before", "after")]
    assert found == ["", "read"]


def test_it_ends_with_who_started_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDS_AT_ONCE, str(tmp_path / "told")],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    end = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{int(done.stdout)}").exists():
        assert time.monotonic() < end, "it waits for requests of nobody"
        time.sleep(0.01)
