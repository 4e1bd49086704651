"""SIGTERM ends a real daemon within its bound, and its status and last words say how.

The states of the core are in tests/groupcomm/sim/test_leaving.py, on virtual time.
"""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio

from groupcomm_client import connect
from groupcomm_tools.local_cluster import LocalCluster
from groupcommd.cli import CUT_SHORT

PATIENCE_S: Final = 20.0
"""More than any bound here; a daemon that hangs is killed then."""

HEAD: Final = "leave_timeout_s = 0.5\n"


async def test_a_daemon_that_was_asked_twice_leaves_once() -> None:
    async with LocalCluster("ab") as daemons, connect(str(daemons["a"].unix)) as program:
        await program.join("g")
        await daemons.settle("ab")
        daemons["a"].signal(signal.SIGTERM)
        daemons["a"].signal(signal.SIGTERM)
        assert await daemons["a"].ended() == 0
        assert daemons["a"].lines()[-1]["text"] == "left"
        await daemons.settle("b")


async def test_a_daemon_leaves_in_order_beside_one_that_hangs() -> None:
    async with LocalCluster("ab") as daemons, connect(str(daemons["a"].unix)) as program:
        await program.join("g")
        await daemons.settle("ab")
        daemons["b"].signal(signal.SIGSTOP)
        assert await daemons["a"].leave() == 0


async def test_a_daemon_that_has_no_time_says_what_it_has_left_undone() -> None:
    async with (
        LocalCluster("ab", "leave_timeout_s = 0") as daemons,
        connect(str(daemons["a"].unix)) as program,
    ):
        await program.join("g")
        await daemons.settle("ab")
        assert await daemons["a"].leave() == CUT_SHORT
        last = daemons["a"].lines()[-1]
        assert last["unfinished"] in last["text"]
        assert "left, but not in order" in last["text"]
        await daemons.settle("b")


# ---- what hangs in the process itself ----

PATCHED: Final = """
import sys, time
from groupcommd import cli
from groupcommd.service import Service
from groupcommd.files.state_dir import StateDir
{patch}
sys.exit(cli.main(sys.argv[1:]))
"""

HANG: Final = "lambda *_: time.sleep(3600)"


@attrs.define
class Patched:
    """A daemon with a part that hangs."""

    process: subprocess.Popen[bytes]
    log: Path

    async def ended(self) -> int:
        """Tell it to leave, and return its status."""
        self.process.send_signal(signal.SIGTERM)
        with trio.fail_after(PATIENCE_S):
            while self.process.poll() is None:
                await trio.sleep(0.01)
        return self.process.returncode

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@asynccontextmanager
async def patched(folder: Path, patch: str) -> AsyncIterator[Patched]:
    """Run a daemon that is alone, with a patch, from the moment on at which it listens."""
    config = folder / "alone.toml"
    config.write_text(
        f'{HEAD}[sites.main.daemons]\na = "127.0.0.1:0"\n[clients]\ntcp = "off"\n'
        'spread_unix = "off"\n'
    )
    log, ports = folder / "log", folder / "ports"
    command = [sys.executable, "-c", PATCHED.format(patch=patch), "--config", str(config)]
    command += ["--name", "a", "--state-dir", str(folder / "state"), "--json-log"]
    command += ["--unix", str(folder / "a.sock"), "--ports-file", str(ports)]
    with log.open("wb") as stream, subprocess.Popen(command, stderr=stream) as process:
        try:
            with trio.fail_after(PATIENCE_S):
                while not ports.exists():
                    await trio.sleep(0.01)
            yield Patched(process, log)
        finally:
            process.kill()


@pytest.mark.parametrize("part", ["StateDir.begin", "StateDir.store"])
async def test_a_disk_that_hangs_holds_up_no_daemon_that_is_to_leave(
    tmp_path: Path, part: str
) -> None:
    async with patched(tmp_path, f"{part} = {HANG}") as daemon:
        await trio.sleep(0.3)
        assert await daemon.ended() == 0
        assert daemon.lines[-1]["text"].startswith("left")


async def test_a_loop_that_hangs_holds_up_no_daemon_that_is_to_leave(tmp_path: Path) -> None:
    async with patched(tmp_path, f"Service.dump = {HANG}; cli.HANGS_S = 0.1") as daemon:
        daemon.process.send_signal(signal.SIGUSR1)
        await trio.sleep(0.5)
        assert await daemon.ended() == CUT_SHORT
        assert "this process hangs" in daemon.lines[-1]["text"]
