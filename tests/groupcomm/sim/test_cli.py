"""The `groupcomm` command as a user meets it: options, output, exit status."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from groupcomm.trace.events import encode_event
from groupcomm.trace.steps import AlgorithmStep, StepTrace
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.network import Network
from groupcomm_tools.cli import main

FAST = ["--duration-s", "0.5", "--workers", "1"]


def test_simulate_tells_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = ("--progress-s", "3600")
    assert main(["simulate", "--seeds", "1:3", "--faults", "none", *quiet, *FAST]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("3 seeds, ")
    assert "0 violations" in output.out
    assert output.err == ""


def test_simulate_ends_with_one_object_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "1:2", "--faults", "none", "--json", *FAST]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["seeds"] == 2
    assert figures["violations"] == 0
    assert figures["events"] > 100
    assert figures["deliveries"] > 10
    assert 2 <= figures["views"] <= 8, "with no fault only a core that is not all makes another"
    assert figures["simulated_s"] > 1.0
    assert figures["wall_s"] > 0.0
    assert figures["events_per_s"] > 0
    assert len(figures["trace_hash"]) == 32


def test_a_recorded_trace_has_one_event_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    command = ["simulate", "--seeds", "4", "--faults", "none", "--json", "--trace", str(trace)]
    assert main([*command, *FAST]) == 0
    figures = json.loads(capsys.readouterr().out)
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    assert len(events) == figures["events"]
    assert sum(event["e"] == "dlv" for event in events) == figures["deliveries"]
    assert events[-1]["e"] == "quiet"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "5:1"], "'5:1' holds no seed: A must not be above B"),
        (["--seeds", "few"], "'few' is not of the form A:B, as in 1:20"),
        (["--faults", "rain"], "no fault is named 'rain'; there are: all, every, none, loss"),
        (["--daemons", "0"], "argument --daemons: it is 0, and must be at least 1"),
        (["--daemons", "2", "--rings", "3"], "sites is 3; there are 1 to 2"),
        (["--duration-s", "0"], "argument --duration-s: it is 0, and must be above 0"),
        (["--seeds", "1:2", "--trace", "t"], "--trace writes the trace of one run"),
        (["--workers", "0"], "argument --workers: it is 0, and must be at least 1"),
    ],
)
def test_wrong_usage_is_named_and_ends_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["simulate", *arguments])
    output = capsys.readouterr()
    assert status == 2
    assert message in output.err
    assert output.out == ""


def test_a_file_that_cannot_be_written_is_named_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--trace", str(tmp_path / "no" / "folder"), *FAST]) == 1
    error = capsys.readouterr().err
    assert error.startswith("groupcomm: ")
    assert "No such file" in error
    assert "Traceback" not in error


def test_debug_shows_where_an_error_came_from(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        main(["simulate", "--debug", "--trace", str(tmp_path / "no" / "folder"), *FAST])


def test_check_checks_a_recorded_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.jsonl"
    assert main(["simulate", "--seeds", "4", "--trace", str(trace), *FAST]) == 0
    assert main(["check", str(trace)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(" events, 0 violations")


def test_check_finds_what_was_changed_in_a_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    command = ["simulate", "--seeds", "4", "--faults", "none", "--trace", str(trace)]
    assert main([*command, *FAST]) == 0
    lines = trace.read_bytes().splitlines(keepends=True)
    delivery = next(line for line in lines if b'"e":"dlv"' in line)
    lines.insert(lines.index(delivery), delivery)
    trace.write_bytes(b"".join(lines))
    capsys.readouterr()
    assert main(["check", "--json", str(trace)]) == 1
    output = capsys.readouterr()
    figures = json.loads(output.out)
    assert figures["properties"] == ["D2"]
    assert figures["events"] == len(lines)
    assert f"{trace} violates D2: " in output.err
    assert "receives #user" in output.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello\n", ":1: not an event"),
        (b'{"e":"quiet","t":-1.5}\n', ":1: not an event"),
    ],
)
def test_check_names_a_file_that_is_no_trace(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(content)
    assert main(["check", str(trace)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("groupcomm: ")
    assert str(trace) in error
    assert message in error


@pytest.mark.parametrize("verb", ["simulate", "check", "story"])
def test_help_has_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    assert f"example:\n  groupcomm {verb}" in capsys.readouterr().out


def test_the_story_ends_with_one_agreed_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["story"]) == 0
    story = capsys.readouterr().out
    assert "lost: packet" in story
    assert "repaired: " in story
    assert story.rstrip().endswith("All 5 members saw one agreed order.")
    table = story[story.index("    position") :].splitlines()
    assert len(table) >= 8
    assert "  1      1      1      1      1" in table[1]


def test_interrupting_tells_what_was_done_and_ends_with_130() -> None:
    command = [sys.executable, "-m", "groupcomm_tools.cli", "simulate", "--seeds", "1:100000"]
    with subprocess.Popen(
        [*command, "--workers", "2", "--duration-s", "0.2", "--progress-s", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=20)
    assert "/100000 seeds, 0 violations, " in first
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "stopped; so far:" in errors
    assert output.split()[1] == "seeds,"
    assert int(output.split()[0]) > 0


def test_check_verifies_the_steps_of_algorithms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An effect that comes before its cause is reported, and total order if requested."""
    steps: list[AlgorithmStep] = []
    network = Network([FanOut(name, "pqr") for name in "pqr"], steps.append)
    network.send("p", b"question")
    network.bring(network.under_way[0])
    network.send("q", b"answer")
    network.bring(network.under_way[-1])
    network.bring_all()
    trace = tmp_path / "steps.jsonl"
    trace.write_bytes(b"".join(encode_event(step) + b"\n" for step in steps))
    assert main(["check", str(trace), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["properties"] == ["causal"]
    assert "violates causal: r: q1 before p1, which may have caused it" in err
    assert main(["check", str(trace), "--orders", "fifo,causal,total"]) == 1
    assert "violates total" in capsys.readouterr().err
    assert main(["check", str(trace), "--orders", "none"]) == 0
    assert main(["check", str(trace), "--orders", "fifo,some"]) == 2
    assert "--orders has 'some', which is no order" in capsys.readouterr().err


def test_check_leaves_the_filters_of_a_session_alone(tmp_path: Path) -> None:
    """A connection's messages are of all levels, and most of them promise no order."""
    steps: list[AlgorithmStep] = []
    trace = StepTrace(Network([]), steps.append, "#ann#a/1")
    for number in (2, 1):
        trace.sent(("#ann#a/1", number), ["room"])
        trace.delivered(("#ann#a/1", number))
    file = tmp_path / "filters.jsonl"
    file.write_bytes(b"".join(encode_event(step) + b"\n" for step in steps))
    assert main(["check", str(file)]) == 0
