"""A short campaign of real kills, stops and partitions; `make chaos` runs a long one."""

import json
import shlex
from pathlib import Path

import pytest

from groupcomm.host.trace_file import TraceFile
from groupcomm.trace.events import Boot, Fail, encode_event
from groupcomm_tools.relay import Line
from groupcomm_tools.topology import Topology
from tests.verification.campaigns.chaos.sites import parts
from tests.verification.campaigns.consistency import verdict
from tests.verification.campaigns.runner import NotHere, figures_of, play
from tests.verification.campaigns.traces import note_kill

pytestmark = pytest.mark.verification


@pytest.mark.parametrize(
    ("options", "disasters"),
    [
        (("--disasters", "1", "--rate", "100"), 1),
        pytest.param(
            ("--disasters", "1", "--rate", "100", "--sites", "2", "--daemons", "3"),
            1,
            marks=pytest.mark.long,
        ),
    ],
)
def test_real_disasters_break_no_promise(options: tuple[str, ...], disasters: int) -> None:
    figures = figures_of(shlex.join(("chaos", *options)))
    assert figures["disasters"] == disasters
    assert figures["deliveries"] > 100


@pytest.mark.long
def test_shared_objects_keep_their_promises_and_their_record_can_be_verified_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--disasters", "1", "--rate", "100", "--records", str(tmp_path))
    totals = tmp_path / "totals.jsonl"
    figures = figures_of(shlex.join(("chaos", *options, "--totals", str(totals))))
    assert figures["operations"] == figures["totals"]["operations"] > 50
    assert verdict.main([str(tmp_path / "seed-1-1.jsonl")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(counts["ok"] > 5 for counts in found["counts"].values())


def test_parts_are_what_links_still_join() -> None:
    chain = Topology.of("abcdef", 3, Line(), "chain")
    first, second = chain.links
    assert parts(chain, [first]) == [["a", "b"], ["c", "d", "e", "f"]]
    assert len(parts(chain, [first, second])) == 3
    mesh = Topology.of("abc", 3, Line())
    assert [parts(mesh, [link]) for link in mesh.links] == [[["a", "b", "c"]]] * 3


def test_disasters_of_sites_need_sites() -> None:
    with pytest.raises(NotHere, match="--only kill_gateway is for several sites"):
        play("chaos", "--only", "kill_gateway")


@pytest.mark.parametrize(("cut", "recorded"), [(0, 0), (5, 1)])
def test_an_end_that_a_daemon_has_recorded_itself_is_recorded_once(
    tmp_path: Path, cut: int, recorded: int
) -> None:
    for start, at in (("3.7f", 1), ("1.5a", 4), ("2.6b", 2)):  # an empty folder counts anew
        boot = encode_event(Boot(at, f"a/{start}", start))
        (tmp_path / f"daemon-a-{start}.jsonl").write_bytes(boot + b"\n")
    line = encode_event(Fail(7, "a/1.5a"))
    with (tmp_path / "daemon-a-1.5a.jsonl").open("ab") as file:
        file.write(line[: len(line) - cut])
    trace = TraceFile(tmp_path / "harness.jsonl")
    note_kill(trace, tmp_path, "a")
    trace.close()
    found = (tmp_path / "harness.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["p"] for line in found] == ["a/1.5a"] * recorded
