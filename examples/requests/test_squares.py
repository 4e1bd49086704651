import subprocess
import sys
from pathlib import Path

import trio

from groupcomm_client import connect
from groupcomm_tools.local_cluster import LocalCluster

SQUARES = Path(__file__).with_name("squares.py")


def run(address: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SQUARES), "--address", str(address), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def start(address: Path, user: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(SQUARES), "--address", str(address), "work", "--user", user]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


async def until_there(address: Path, count: int) -> None:
    async with connect(str(address)) as look:
        while len((await look.ask("members workers"))["members"]) != count:
            await trio.sleep(0.01)


async def test_workers_share_requests_and_one_that_goes_is_succeeded() -> None:
    async with LocalCluster("ab") as cluster:
        await cluster.settle("ab")
        here, there = cluster["a"].unix, cluster["b"].unix
        workers = [start(here, "ann"), start(there, "bob")]
        await until_there(there, 2)
        done = run(there, "ask", "3", "4", "five")
        assert done.returncode == 0, done.stderr
        by = [line.rpartition(" ")[0] for line in done.stdout.splitlines()[:2]]
        assert by == ["3: 9 by", "4: 16 by"]
        assert "five: ValueError: invalid literal" in done.stdout
        assert len({line.split()[-1] for line in done.stdout.splitlines()[:2]}) == 2
        assert run(here, "who").stdout.splitlines() == ["#ann#a", "#bob#b"]
        workers[0].kill()
        workers[0].wait()
        await until_there(there, 1)
        assert run(here, "ask", "5", "6").stdout == "5: 25 by #bob#b\n6: 36 by #bob#b\n"
        workers[1].kill()
        workers[1].wait()


async def test_without_workers_it_says_so() -> None:
    async with LocalCluster("a") as cluster:
        done = run(cluster["a"].unix, "--timeout-s", "0.1", "ask", "1")
        assert done.returncode == 1
        assert "no reply of group 'workers' came in 0.1 s; is a server running?" in done.stderr
