"""Traces of real daemons and programs, judged as one."""

import json
from pathlib import Path

import pytest
import trio

from groupcomm.level import LEVELS
from groupcomm_client import ConnectOptions, connect
from groupcomm_tools.cli import main
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.traces.check import check_together


async def play(folder: Path) -> None:
    """Two sessions at two daemons send all levels, and end in order."""
    async with LocalCluster("ab", options=("--trace", str(folder))) as cluster:
        async with (
            connect(
                str(cluster["a"].unix), user="ann", options=ConnectOptions(trace=folder)
            ) as ann,
            connect(
                str(cluster["b"].unix), user="bob", options=ConnectOptions(trace=folder)
            ) as bob,
        ):
            await ann.join("g")
            await bob.join("g")
            for level in LEVELS:
                await ann.multicast("g", b"to all", level=level)
                await bob.multicast(["g", ann.name], b"to all and one", level=level)
            await bob.leave("g")
            await ann.multicast_ordered("g", b"last")
        for name in "ab":
            assert await cluster[name].leave() == 0


async def test_what_really_happened_keeps_every_promise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await play(tmp_path)
    assert len(list(tmp_path.glob("daemon-*.jsonl"))) == 2
    assert len(list(tmp_path.glob("session-*.jsonl"))) == 2
    assert await trio.to_thread.run_sync(main, ["check", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["violations"], found["traces"]) == (0, 1)
    assert found["events"] > 100
    ends = [path.read_bytes().splitlines()[-1] for path in tmp_path.glob("daemon-*.jsonl")]
    assert all(json.loads(end)["e"] == "left" for end in ends)


async def test_a_lie_in_one_of_them_is_found(tmp_path: Path) -> None:
    """Add a message to bob's trace that nobody sent; and cut a line off, like a kill does."""
    await play(tmp_path)
    traces = {path.name: path.read_bytes().splitlines(True) for path in tmp_path.glob("*.jsonl")}
    (bob,) = [name for name in traces if "bob" in name]
    (place,) = [n for n, line in enumerate(traces[bob]) if b'"m":2' in line and b'"dlv"' in line][
        :1
    ]
    line = traces[bob][place]
    traces[bob][place] = line.replace(b'"digest":', b'"digest":1')
    traces[bob].append(b'{"e":"dlv","t":')
    found = check_together("all", traces)
    assert {violation.property for violation in found.violations} == {"D1"}


async def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    assert main(["check", str(tmp_path)]) == 1
    async with LocalCluster("a") as cluster:
        unix = str(cluster["a"].unix)
        gone = ["sub", "g", "--address", unix, "--trace", str(tmp_path / "no")]
        assert await trio.to_thread.run_sync(main, gone) == 2
