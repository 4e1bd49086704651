import subprocess
import sys
from pathlib import Path

from groupcomm_client import connect
from groupcomm_tools.local_cluster import LocalCluster

POOL = Path(__file__).with_name("pool.py")


def command(address: Path, *words: str) -> list[str]:
    return [sys.executable, str(POOL), "--address", str(address), *words]


def run(address: Path, *words: str) -> str:
    done = subprocess.run(
        command(address, *words), capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


async def until_there(address: Path, count: int) -> None:
    """Wait until the pool has this number of workers."""
    async with (
        connect(str(address)) as connection,
        connection.work("numbers", name="factoring", at_once=0) as watcher,
    ):
        await watcher.driver.until(lambda: len(watcher.workers) == count)


async def until_done(address: Path) -> None:
    """Wait until all numbers are factored, or set aside."""
    async with (
        connect(str(address)) as connection,
        connection.work("numbers", name="factoring", at_once=0) as watcher,
    ):
        queue = watcher.sharing.queue
        await watcher.driver.until(lambda: watcher.is_current and not queue.jobs)


async def test_the_numbers_of_a_killed_worker_are_factored_by_another(tmp_path: Path) -> None:
    async with LocalCluster("ab") as cluster:
        await cluster.settle("ab")
        here, there = cluster["a"].unix, cluster["b"].unix
        with (tmp_path / "ann").open("wb") as ann, (tmp_path / "bob").open("wb") as bob:
            slow = subprocess.Popen(command(here, "work", "--effort-s", "600"), stdout=ann)
            await until_there(there, 1)
            run(there, "send", "15", "77", "nine")
            quick = subprocess.Popen(command(there, "work", "--effort-s", "0"), stdout=bob)
            try:
                await until_there(there, 2)
                slow.kill()
                slow.wait()
                await until_done(there)
                assert run(here, "aside").startswith("nine: 3 failures, ValueError: invalid")
                assert run(here, "again")
                await until_done(there)
            finally:
                quick.kill()
                quick.wait()
        assert (tmp_path / "ann").read_text() == ""
        lines = sorted((tmp_path / "bob").read_text().splitlines())
        assert lines == ["15 = 3 x 5 (attempt 2)", "77 = 7 x 11 (attempt 2)"]
