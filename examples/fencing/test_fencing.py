"""The examples, run as a user would: a later holder was there, and the older one is refused."""

import os
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from pathlib import Path

from examples.fencing.writer import put
from groupcomm_tools.local_cluster import LocalCluster

HERE = Path(__file__).parent
LIMIT_S = 60


def start(program: str, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(HERE / program), *options], stdout=subprocess.PIPE, text=True
    )


def said(process: "subprocess.Popen[str]") -> list[str]:
    lines = process.communicate(timeout=LIMIT_S)[0].splitlines()
    assert process.returncode == 0
    return lines


async def test_a_database_refuses_a_holder_that_stood_still_with_its_host(tmp_path: Path) -> None:
    async with LocalCluster("abc") as cluster:
        await cluster.settle("abc")
        path = tmp_path / "stock.db"

        def seller(user: str, daemon: str, *more: str) -> "subprocess.Popen[str]":
            address = str(cluster[daemon].unix)
            options = ("--user", user, "--address", address, "--database", str(path))
            return start("stock.py", *options, *more)

        ann = seller("ann", "a", "--stop")
        assert ann.stdout is not None
        assert ann.stdout.readline() == "ann holds the mutex\n"
        os.waitid(os.P_PID, ann.pid, os.WSTOPPED)
        cluster["a"].signal(signal.SIGSTOP)
        assert said(seller("bob", "b")) == ["bob holds the mutex", "bob: sold"]
        ann.send_signal(signal.SIGCONT)
        cluster["a"].signal(signal.SIGCONT)
        refused, lost = said(ann)
        assert refused == "ann: refused"
        assert lost.startswith("ann: this program was cut off")
        with sqlite3.connect(path) as database:
            assert database.execute("SELECT count FROM stock").fetchone() == (9,)
        database.close()


async def test_a_service_refuses_a_leader_of_an_earlier_term() -> None:
    service = start("service.py", "--port", "0")
    try:
        assert service.stdout is not None
        url = service.stdout.readline().strip()
        async with LocalCluster("a") as cluster:
            options = ("--address", str(cluster["a"].unix), "--url", url, "--times", "2")
            for user in ("kim", "lee"):
                assert (
                    said(start("writer.py", *options, "--user", user)) == [f"{user}: written"] * 2
                )
        assert not put(url, b"too late", 1)
        with urllib.request.urlopen(url) as answer:
            assert answer.read() == b"lee 1"
    finally:
        service.kill()
        service.communicate()
