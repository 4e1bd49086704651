import subprocess
import sys
from pathlib import Path

from groupcomm.host.key_file import write_key_file
from groupcomm_tools.local_cluster import LocalCluster

ROOT = Path(__file__).parents[2]


def start(cluster: LocalCluster, daemon: str, user: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "examples.secret_group.secret_group"),
            *("--address", str(cluster[daemon].unix), "--user", user, *options),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def lines_until(program: subprocess.Popen[str], end: str) -> list[str]:
    assert program.stdout is not None
    lines = []
    for line in program.stdout:
        lines.append(line.strip())
        if line.startswith(end):
            return lines
    raise AssertionError(f"it ended without {end!r}: {lines}")


async def test_members_read_what_a_spy_among_them_does_not(tmp_path: Path) -> None:
    key = tmp_path / "plan.key"
    write_key_file(key)
    async with LocalCluster("ab") as cluster:
        await cluster.settle("ab")
        ann = start(cluster, "a", "ann", "--secret", str(key), "--messages", "1")
        lines_until(ann, "a new key for: #ann#a")
        spy = start(cluster, "a", "spy")
        assert "not trusted: #spy#a" in lines_until(ann, "not trusted")[-1]
        secret = ("--secret", str(key), "--say", "we meet at noon", "--messages", "1")
        bob = start(cluster, "b", "bob", *secret)
        for program in (ann, bob):
            assert lines_until(program, "#bob#b says")[-1] == "#bob#b says: we meet at noon"
            program.communicate(timeout=30)
            assert program.returncode == 0
        seen = lines_until(spy, "members: #spy#a")
        assert not any("noon" in line for line in seen)
        assert any("bytes from #bob#b: it is sealed" in line for line in seen)
        spy.kill()
        spy.communicate()
