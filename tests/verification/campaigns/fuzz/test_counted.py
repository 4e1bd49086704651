"""Counted inputs: equal every time, continued after a break; broken decoders are reported."""

import json
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from groupcomm.errors import BadDatagram
from tests.verification.campaigns.fuzz import counted, targets
from tests.verification.campaigns.fuzz.mutation import MAX_BYTES, fields, inputs, mutated
from tests.verification.campaigns.fuzz.seeds import SEEDS


@pytest.mark.parametrize("name", sorted(targets.TARGETS))
def test_changed_seeds_do_no_harm(name: str) -> None:
    found = counted.run_chunk(name, 0, 200)
    assert (found["inputs"], found["exceptions"], found["bugs"]) == (200, 0, {})


def test_inputs_differ_are_bounded_and_are_the_same_every_time() -> None:
    seeds = [b"seed" * 300, b"", b"another"]
    first = list(inputs("t", 3, 2000, seeds))
    assert first == list(inputs("t", 3, 2000, seeds))
    assert len(set(first)) > 1000
    assert max(map(len, first)) <= MAX_BYTES
    assert first != list(inputs("t", 4, 2000, seeds))


def test_every_kind_of_change_is_made() -> None:
    """Make a field of each width at its edges, and inputs that are cut, moved, doubled and
    mixed."""
    seed, other = bytes(range(64)), b"\xaa" * 64
    made = list(islice(mutated(Random(1), [seed, other]), 50_000))
    assert all(any(field in raw for raw in made) for field in fields())
    assert any(raw == seed[: len(raw)] for raw in made if 0 < len(raw) < 64)
    assert any(raw[:30] == seed[:30] and raw[-10:] == other[-10:] for raw in made)
    assert any(raw.count(seed[10:20]) == 2 for raw in made)
    assert any(len(raw) > 64 and raw.startswith(seed) for raw in made)


def test_a_run_goes_on_where_the_last_one_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted, "CHUNK", 100)
    monkeypatch.setattr(counted, "TRIAL", 10)
    path = tmp_path / "results.jsonl"
    names = ["wire.hello.hello", "session.frames.query"]
    assert counted.run_all(names, 250, path)
    with path.open("a") as file:
        file.write('{"target": "wire.he')
    assert counted.run_all(names, 450, path)
    lines = counted.read_results(path)
    for name in names:
        mine = [line for line in lines if line["target"] == name]
        assert sum(line["inputs"] for line in mine) == 450
        assert [line["chunk"] for line in mine] == list(range(len(mine)))
        assert all(0 < line["taken"] < line["inputs"] for line in mine)
    assert "| session.frames.query | 450 |" in counted.table(lines)


def test_what_breaks_a_decoder_is_reported_and_ends_with_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def careless(raw: bytes) -> None:
        if len(raw) < 2:
            raise BadDatagram("short")
        raw[6]

    monkeypatch.setitem(targets.TARGETS, "careless", careless)
    monkeypatch.setitem(SEEDS, "careless", [b"careful"])
    options = ["--inputs", "500", "--target", "careless", "--results", str(tmp_path / "r.jsonl")]
    assert counted.main(options) == counted.DECODERS_FAIL
    (line,) = counted.read_results(tmp_path / "r.jsonl")
    assert line["exceptions"] > 1
    ((bug, raw),) = line["bugs"].items()
    assert bug.startswith("IndexError in test_counted.py:")
    with pytest.raises(IndexError):
        careless(bytes.fromhex(raw))
    assert bug in capsys.readouterr().err
    assert counted.main(options) == counted.DECODERS_FAIL, "it is still broken"
    assert json.loads((tmp_path / "r.jsonl").read_text()) == line, "and is not done again"


def test_a_target_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        counted.main(["--inputs", "1", "--target", "wire.none"])
    assert caught.value.code == 2
    assert "there is no target wire.none; there are: archive" in capsys.readouterr().err
