"""The unit of systemd: its settings hold for the daemon, and the daemon keeps the protocol."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import trio

from groupcommd.cli import make_parser
from groupcommd.host.process import feed_systemd_watchdog

UNIT: Final = Path(__file__).parents[2] / "daemon/packages/groupcommd@.service"
TIMEOUT_S: Final = 30.0


def setting(key: str) -> str:
    lines = [line for line in UNIT.read_text().splitlines() if line.startswith(f"{key}=")]
    (line,) = lines
    return line.partition("=")[2]


def test_the_daemon_understands_how_it_is_started() -> None:
    started = setting("ExecStart").replace("%i", "alfa")
    command, *arguments = started.replace("/etc/groupcomm", str(UNIT.parent)).split()
    assert command.endswith("/groupcommd")
    options = make_parser().parse_args(arguments)
    assert (options.config, options.name) == (UNIT.parent / "cluster.toml", "alfa")


def test_the_daemon_tells_systemd_what_it_does(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.settimeout(TIMEOUT_S)
        daemon = subprocess.Popen(
            [
                *(sys.executable, "-m", "groupcommd", "--port", "0"),
                *("--unix", str(tmp_path / "socket"), "--state-dir", str(tmp_path / "state")),
            ],
            env={
                **os.environ,
                "HOME": str(tmp_path),
                "XDG_STATE_HOME": str(tmp_path),
                "NOTIFY_SOCKET": str(tmp_path / "notify"),
                "WATCHDOG_USEC": "20000",
            },
        )
        try:
            states = [supervisor.recv(100) for _ in range(3)]
            assert states == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
            daemon.send_signal(signal.SIGTERM)
            while (state := supervisor.recv(100)) == b"WATCHDOG=1":
                pass
            assert state == b"STOPPING=1"
            assert daemon.wait(TIMEOUT_S) == 0
        finally:
            daemon.kill()
            daemon.wait()


def test_a_watchdog_of_another_process_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent may be watched, and have passed its variables on."""
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    trio.run(feed_systemd_watchdog)  # WATCHDOG_PID is another process, so this returns
