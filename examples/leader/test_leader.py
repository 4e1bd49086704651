import subprocess
import sys
from pathlib import Path

import trio

from groupcomm_client import connect
from groupcomm_tools.local_cluster import LocalCluster

LEADER = Path(__file__).with_name("leader.py")


def start(cluster: LocalCluster, daemon: str, user: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, str(LEADER), "--address", str(cluster[daemon].unix)),
            *("--user", user, *options),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_when_the_leader_is_killed_the_next_one_works() -> None:
    async with LocalCluster("ab") as cluster:
        await cluster.settle("ab")
        ann = start(cluster, "a", "ann", "--ticks", "1000")
        assert ann.stdout is not None
        assert ann.stdout.readline() == "#ann#a leads, tick 1\n"
        bob = start(cluster, "b", "bob", "--ticks", "2")
        assert bob.stdout is not None
        assert ann.stdout.readline() == "#ann#a leads, tick 2\n"
        assert bob.poll() is None
        ann.kill()
        ann.communicate()
        assert bob.communicate(timeout=60)[0].splitlines() == [
            "#bob#b leads, tick 1",
            "#bob#b leads, tick 2",
        ]
        assert bob.returncode == 0


async def test_with_too_few_candidates_nobody_leads_until_another_comes() -> None:
    async with LocalCluster("a") as cluster, connect(str(cluster["a"].unix)) as look:
        few = start(cluster, "a", "ann", "--candidates", "3", "--ticks", "1")
        while not (await look.ask("members leaders"))["members"]:
            await trio.sleep(0.01)
        assert few.poll() is None
        other = start(cluster, "a", "bob", "--candidates", "3", "--ticks", "1")
        assert few.communicate(timeout=60)[0] == "#ann#a leads, tick 1\n"
        other.kill()  # it would be alone again, and wait for ever
        other.communicate()
