"""The store, used from terminals."""

import subprocess
import sys
from pathlib import Path

import pytest

from groupcomm_tools.local_cluster import LocalCluster

STORE = Path(__file__).with_name("store.py")


class Terminal:
    """A user who types lines and reads the answers."""

    def __init__(self, address: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(STORE), "--address", str(address), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip()

    def type(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.line()

    def leave(self) -> int:
        self.process.communicate()
        return self.process.returncode


async def test_what_one_writes_all_have_and_a_newcomer_gets_it() -> None:
    async with LocalCluster("abc") as cluster:
        await cluster.settle("abc")
        three = [Terminal(cluster[name].unix, "--replicas", "3") for name in "abc"]
        for each in three:
            assert each.line().startswith("0 keys")
        assert three[0].type("put color dark blue") == "version 1"
        assert three[1].type("put color red") == "version 2"
        assert three[1].type("put size 5") == "version 3"
        three[0].process.kill()
        three[0].leave()
        assert three[2].type("delete size") == "version 4"
        assert three[2].type("get size") == "there is no such key"
        back = Terminal(cluster["a"].unix, "--replicas", "3")
        assert back.line().startswith("1 keys")
        assert back.type("get color") == "red"
        assert back.type("sing") == "put KEY VALUE, get KEY, delete KEY, list, or hash"
        hashes = {each.type("hash") for each in (back, *three[1:])}
        assert len(hashes) == 1
        assert [each.leave() for each in (back, *three[1:])] == [0, 0, 0]


async def test_alone_it_says_what_it_waits_for(capfd: pytest.CaptureFixture[str]) -> None:
    async with LocalCluster("a") as cluster:
        alone = Terminal(cluster["a"].unix, "--replicas", "3", "--patience-s", "0.1")
        assert alone.leave() == 1
        assert "fewer than 2 of 3 replicas have the state" in capfd.readouterr().err
