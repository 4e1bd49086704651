"""`groupcomm compare`: the same load for all, judged by what each claims; table and JSON."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from groupcomm_lessons import comparison
from groupcomm_lessons.algorithms.catalogue import ALGORITHMS, Entry
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.process import Order, Packet, Step
from groupcomm_lessons.algorithms.vector import Vector
from groupcomm_lessons.comparison import ComparisonLoad, chosen, compare
from groupcomm_tools.cli import main

DOCS = Path(__file__).parents[2] / "docs"
SMALL = ("--processes", "4", "--messages", "60")


class Boaster(FanOut):
    """Claims an order that it does not keep."""

    claims = frozenset({Order.CAUSAL})


class Forgetful(Vector):
    """Loses what comes."""

    def receive(self, packet: Packet) -> Step:
        return Step()


def as_json(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["compare", "--json", *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_each_algorithm_keeps_what_it_claims(loss: float) -> None:
    load = ComparisonLoad(processes=4, messages=60, loss=loss)
    rows = list(compare(list(ALGORITHMS.values()), load))
    assert [row.entry.name for row in rows if row.is_wrong] == []
    held = {row.entry.name: row.held for row in rows}
    assert not held["fan-out"]
    assert Order.TOTAL not in held["vector"], "the load has concurrent messages"
    assert Order.FIFO not in held["sequencer"], "packets overtake each other"
    assert held["global-id-or-error"] == held["vector-or-error"] == set(Order)
    assert Order.CAUSAL not in held["global-id"]
    assert held["real-time"] == (set() if loss else set(Order))


def test_the_same_seed_gives_the_same_load_to_all_and_another_one_another() -> None:
    def rows(seed: int) -> list[dict[str, Any]]:
        found = compare(
            chosen("vector,vector-session,fan-out"), ComparisonLoad(messages=60, seed=seed)
        )
        return [row.as_json() for row in found]

    assert rows(1) == rows(1)
    assert rows(1) != rows(2)
    vector, session, fan_out = (
        {key: row[key] for key in ("packets", "repeated", "messages")} for row in rows(1)
    )
    assert vector == session == fan_out


def test_what_is_counted_is_what_was_sent(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "--algorithms", "vector", "--processes", "3", "--messages", "10")
    assert found["load"] == {
        "processes": 3,
        "messages": 10,
        "delay_ms": 10.0,
        "loss": 0.0,
        "seed": 1,
    }
    (row,) = found["algorithms"]
    assert (row["messages"], row["packets"], row["repeated"]) == (10, 20, 0)
    stamp = 3 * (1 + len("p1") + 8)
    assert (row["stamp_bytes"], row["most_stamp_bytes"]) == (stamp, stamp)
    assert row["bytes"] == 20 * (28 + 100 + stamp)
    assert 5 <= row["delay_ms"] <= row["most_delay_ms"]
    assert row["claims"] == ["fifo", "causal"]


def test_loss_costs_packets_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--algorithms", "sequencer", *SMALL)
    (whole,) = as_json(capsys, *options)["algorithms"]
    (lossy,) = as_json(capsys, *options, "--loss", "0.5")["algorithms"]
    assert whole["repeated"] == 0
    assert lossy["packets"] - lossy["repeated"] == whole["packets"]
    assert lossy["repeated"] > whole["packets"] / 2
    assert lossy["delay_ms"] > whole["delay_ms"] + 100
    assert lossy["missing"] == 0


def test_the_table_says_what_was_kept_and_how_each_was_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compare", *SMALL, "--algorithms", "vector,fan-out,vector-or-error"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line for line in lines if line}
    assert lines[0].startswith("4 processes, 60 messages of 100 bytes to all")
    assert re.match(r"vector +kept +kept +no ", rows["vector"])
    assert re.match(r"fan-out +no +no +no ", rows["fan-out"])
    assert rows["vector-or-error"].endswith("users take turns: it refuses concurrent messages")


def test_the_list_has_names_and_claims(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ALGORITHMS)
    assert lines[0].split() == ["fan-out", "nothing"]
    assert lines[-1].split() == ["bus1", "fifo,", "causal,", "total"]
    found = as_json(capsys, "--list", "--algorithms", "sequencer")
    assert found["algorithms"] == [
        {"name": "sequencer", "claims": ["total"], "in_turn": False, "note": ""}
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--algorithms", "vektor"], "no algorithm is named 'vektor'; there are: all, fan-out,"),
        (["--algorithms", ""], "no algorithm is named ''"),
        (["--processes", "0"], "--processes is 0; it must be 2 to 64"),
        (["--messages", "0"], "--messages is 0; it must be 1 to 100000"),
        (["--loss", "1"], "--loss is 1.0; it must be 0 to 0.9"),
        (["--loss", "nan"], "--loss is nan; it must be 0 to 0.9"),
        (["--delay-ms", "-1"], "--delay-ms is -1.0; it must be 0 to 10000"),
    ],
)
def test_what_cannot_be_is_refused(
    options: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *options]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (Entry(type=Boaster), "boaster claims causal order, and broke it"),
        (Entry(type=Forgetful), "forgetful has lost messages"),
    ],
)
def test_who_breaks_a_promise_makes_it_fail(
    entry: Entry, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(comparison, "ALGORITHMS", {entry.name: entry})
    assert main(["compare", *SMALL]) == 1
    out, err = capsys.readouterr()
    assert told in err
    assert ("BROKEN" in out.split("kept: claimed")[0]) == ("broke it" in told)
    assert ("MISSING" in out) == ("lost" in told)


def test_a_network_without_delay_ends_too() -> None:
    (row,) = compare(
        chosen("vector-or-error"), ComparisonLoad(processes=2, messages=20, delay_ms=0)
    )
    assert not row.is_wrong
    assert row.delay_ms == 0


def test_the_table_of_the_documentation_is_what_comes_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (DOCS / "algorithms.md").read_text()
    command = re.search(r"`groupcomm (compare [^`]*)`", text)
    assert command is not None
    assert main(command[1].split()) == 0
    table = capsys.readouterr().out.split("\n\n")[1]
    assert table.rstrip("\n") in text
