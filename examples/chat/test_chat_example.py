import signal
import subprocess
import sys
from pathlib import Path

from groupcomm_tools.local_cluster import LocalCluster

CHAT = Path(__file__).with_name("chat.py")


def start(address: Path, user: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(CHAT), "--address", str(address), "--user", user],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def test_all_see_the_same_in_the_same_order() -> None:
    async with LocalCluster("ab") as cluster:
        await cluster.settle("ab")
        ann = start(cluster["a"].unix, "ann")
        assert ann.stdin is not None
        assert ann.stdout is not None
        assert ann.stdout.readline() == "[join: #ann#a]\n"
        bob = start(cluster["b"].unix, "bob")
        assert bob.stdin is not None
        assert bob.stdout is not None
        both = "[join: #ann#a, #bob#b]\n"
        assert (ann.stdout.readline(), bob.stdout.readline()) == (both, both)
        for number in range(5):
            for each, name in ((ann, "ann"), (bob, "bob")):
                assert each.stdin is not None
                each.stdin.write(f"{name} {number}\n")
                each.stdin.flush()
        seen = [[out.readline() for _ in range(10)] for out in (ann.stdout, bob.stdout)]
        assert seen[0] == seen[1]
        assert [line for line in seen[0] if "bob" in line] == [
            f"#bob#b: bob {number}\n" for number in range(5)
        ]
        bob.communicate()
        assert ann.stdout.readline() in ("[leave: #ann#a]\n", "[disconnect: #ann#a]\n")
        ann.send_signal(signal.SIGINT)  # as ^C, while she may still type
        ann.wait(timeout=20)
        assert ann.communicate()[1] == "stopped\n"
        assert (ann.returncode, bob.returncode) == (130, 0)


async def test_the_end_of_the_daemon_ends_it_with_a_line() -> None:
    async with LocalCluster("a") as cluster:
        await cluster.settle("a")
        ann = start(cluster["a"].unix, "ann")
        assert ann.stdout is not None
        assert ann.stdout.readline() == "[join: #ann#a]\n"
        cluster["a"].kill()
        ann.wait(timeout=20)  # although her standard input is open
        (line,) = ann.communicate()[1].splitlines()
        assert line.startswith("chat.py: the connection to the daemon was lost: run it again")
        assert ann.returncode == 1
