"""Traces of real daemons and programs, judged as one."""

import json
from pathlib import Path
from typing import get_args

import pytest
import trio

from groupcomm.level import LEVELS
from groupcomm.trace.events import (
    REQUESTS,
    Ask,
    Fail,
    Heal,
    Quiet,
    Rejects,
    Release,
    TraceEvent,
    decode_event_untrusted,
)
from groupcomm.trace.steps import STEPS
from groupcomm.wire.bundle import OF_SESSIONS
from groupcomm_client import ConnectOptions, connect
from groupcomm_tools.cli import main
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.traces.check import check_together
from tests.groupcommd.hosts import run

OF_HARNESSES = {Fail, Heal, Quiet, Rejects}
OF_PROCESSES = set(get_args(TraceEvent)) - set(STEPS) - OF_HARNESSES


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


async def play_everything(folder: Path) -> None:
    """Sessions ask for all that there is, while votes change and daemons stop."""
    traced, began = ConnectOptions(trace=folder), trio.current_time()
    async with LocalCluster("abc", options=("--trace", str(folder))) as cluster:
        where = {name: str(cluster[name].unix) for name in "abc"}
        async with (
            connect(where["a"], user="ann", options=traced) as ann,
            connect(where["a"], user="cut", options=traced) as cut,
            connect(
                f"{where['b']},{where['c']}",
                user="once",
                options=traced,
                reconnect=True,
                exactly_once=True,
            ) as once,
        ):
            await ann.join("g", minority="pause")
            await cut.join("g", minority="leave")
            await ann.join("read", views=False)
            await once.multicast("g", bytes(200_000))
            for level in LEVELS:
                await once.multicast(["g", "read"], b"line", level=level)
            await ann.multicast("#nobody#a", b"comes back")
            await once.flush()
            through = ("--through", cluster["a"].unix)
            for change in (("votes", "a", 2), ("policy", "--orderly", "yes")):
                # The view that a change brings may end what is asked for meanwhile.
                while (await run("daemons", *change, *through))[0]:
                    assert trio.current_time() < began + 100, "asked again and again"
            assert await cluster["b"].leave() == 0
            await once.multicast_ordered("g", b"goes on at another daemon")
            await ann.leave("g")
            cut.close_socket()
        for name in "ac":
            assert await cluster[name].leave() == 0


async def test_all_that_daemons_and_sessions_can_trace_is_read(tmp_path: Path) -> None:
    """A kind of bundles that is made for sessions has to be read by checkers, too."""
    await play_everything(tmp_path)
    lines = {path.name: path.read_bytes().splitlines(True) for path in tmp_path.glob("*.jsonl")}
    found = check_together("all", lines)
    assert found.violations == ()
    events = [decode_event_untrusted(line) for each in lines.values() for line in each]
    assert {e.kind for e in events if isinstance(e, Release)} == OF_SESSIONS
    asked = {e.what for e in events if isinstance(e, Ask)}
    assert asked | {"refused"} == REQUESTS  # who is refused has no trace yet, but in the simulator
    assert {type(event) for event in events} == OF_PROCESSES


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
