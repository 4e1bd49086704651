"""The command that plays stories."""

import json
from pathlib import Path

import pytest

from examples.ordering.__main__ import main
from examples.ordering.chapter import PARTS, STORIES
from groupcomm_tools.traces.check import check_trace


def test_it_lists_all_stories_under_the_parts_of_the_chapter(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arguments in ([], ["--list"]):
        assert main(arguments) == 0
        told = capsys.readouterr().out
        listed = [line.split()[0] for line in told.splitlines() if line.startswith("  ")]
        assert listed == list(STORIES)
        assert told.count("\n\n") == len(PARTS) - 1


def test_it_tells_steps_deliveries_and_the_orders_that_held(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["effect-first", "scheduler"]) == 0
    told = capsys.readouterr().out
    assert f"effect-first: {STORIES['effect-first'].title}" in told
    assert STORIES["effect-first"].lesson in told
    assert "q                        sends q:1 to p, q, r\n" in told
    assert "r delivers q1, p1\norders that held: fifo\n" in told
    assert "granted: r1 q1\novertaken: r1 q1\noverlaps: none\n" in told


def test_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["effect-first", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["held"] == ["fifo"]
    assert told["delivered"]["r"] == ["q1", "p1"]
    assert main(["--list", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == list(STORIES)


def test_a_trace_is_written_for_check_and_view(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.jsonl"
    assert main(["safe", "--trace", str(file)]) == 0
    lines = file.read_bytes().splitlines(keepends=True)
    result = check_trace("run.jsonl", lines)
    assert result.holds
    assert result.events == len(STORIES["safe"].run().events)
    capsys.readouterr()
    assert main(["safe", "--trace", str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["vectr"], "no story is named 'vectr'; did you mean vector"),
        (["mutex"], "no story is named 'mutex'; did you mean lamport-mutex"),
        (["?"], "no story is named '?'; --list tells all names"),
        (["vector", "safe", "--trace", "x"], "--trace is for one story, and there are 2; name one"),
        (["--trace", "x"], "--trace is for one story, and there are 0; name one"),
    ],
)
def test_what_is_wrong_is_reported(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert told in capsys.readouterr().err
