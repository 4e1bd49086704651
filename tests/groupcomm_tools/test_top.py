"""`groupcomm top`: figures of real daemons, as lines, as JSON, on a terminal and as a picture."""

import io
import json
import os
import pty
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
from rich.console import Console

from groupcomm.events import Message
from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_tools.running_cluster import RunningCluster
from groupcomm_tools.top.draw import picture
from groupcomm_tools.top.frame import Frame, in_a_line, make_frame, shown, size
from tests.groupcomm_tools.shell import PATIENCE_S, Shell

TIMING = "[timing]\ntoken_timeout_s = 1.0\n"
"""A busy machine parts no daemon from the other: what is sent meanwhile would not reach it."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab", settings=TIMING) as running:
        yield running


@pytest.fixture
def shell(cluster: RunningCluster) -> Shell:
    return Shell(cluster.address("a"))


def look(connection: BlockingConnection, before: dict[str, object], interval_s: float) -> Frame:
    groups = connection.ask("groups")["groups"]
    return make_frame(before, connection.ask("status"), groups, interval_s)


def test_rates_are_differences_and_slow_programs_come_first(cluster: RunningCluster) -> None:
    with (
        connect(cluster.address("a"), user="ann") as ann,
        connect(cluster.address("a"), user="slow") as slow,
        connect(cluster.address("b"), user="bob") as bob,
    ):
        ann.join("room")
        slow.join("room")
        bob.join("other")
        before = ann.ask("status")
        bob.multicast_many("room", [bytes(50_000)] * 100)
        ann.multicast_many("room", [bytes(10)] * 20)
        for _ in range(120):
            while not isinstance(ann.receive(PATIENCE_S), Message):
                pass
        frame = look(ann, before, 2.0)
    assert (frame.daemon, frame.state, frame.daemons) == ("a", "operational", ["a", "b"])
    assert (frame.rates["taken"], frame.rates["delivered"]) == (10, 120)
    assert frame.rates["delivered_bytes"] >= 2 * (100 * 50_000 + 20 * 10) / 2.0
    assert frame.rates["received"] > 100 * 50_000 / 65_536 / 2.0
    assert [session.user for session in frame.sessions] == ["slow", "ann"]
    assert frame.sessions[0].output_bytes > 1_000_000 > frame.sessions[1].output_bytes
    assert frame.groups == {"room": 2, "other": 1}
    assert not frame.figures, "of a daemon that knows no metrics"
    assert list(frame.groups) == ["room", "other"]
    assert [(peer.name, peer.in_view) for peer in frame.peers] == [("b", True)]
    line = in_a_line(frame)
    for part in ("a operational; daemons a,b; missing none; taken 10/s", "slowest slow "):
        assert part in line


def test_a_frame_is_a_line_where_nobody_looks_or_an_object(shell: Shell) -> None:
    status, output, messages = shell.run("top", "--count", "2", "--interval-s", "0.1")
    assert (status, messages) == (0, "")
    first, second = output.splitlines()
    assert first.startswith("a operational; daemons a,b; missing none; taken ")
    assert second.startswith("a operational; ")
    words = ("top", "--count", "2", "--interval-s", "0.1", "--json", "--user", "me")
    frames = [json.loads(line) for line in shell.tell(*words)[1].splitlines()]
    assert [frame["sessions"][0]["user"] for frame in frames] == ["me", "me"]
    assert set(frames[0]) == {field.name for field in attrs.fields(Frame)}
    assert all(frame["interval_s"] >= 0.1 for frame in frames)


def test_metrics_that_are_not_0_are_figures(cluster: RunningCluster) -> None:
    with connect(cluster.address("a"), user="ann") as ann:
        before, after = ({**ann.ask("status"), **ann.ask("metrics")} for _ in range(2))
        groups = ann.ask("groups")["groups"]
    grown = after["metrics"]["groupcomm_datagrams_total"]["values"]
    grown["sent"] = before["metrics"]["groupcomm_datagrams_total"]["values"]["sent"] + 5
    figures = {each.name: each for each in make_frame(before, after, groups, 2.0).figures}
    sent = figures["datagrams_total sent"]
    assert (sent.value, sent.is_rate, shown(sent)) == (2.5, True, "2.5/s")
    clock = after["metrics"]["groupcomm_disk_spare_marks"]
    assert figures["disk_spare_marks"].help == clock["help"]
    assert not any(figure.value == 0 for figure in figures.values())


def on_a_terminal(shell: Shell, *words: str) -> tuple[int, str]:
    """Run a command whose output is a terminal; return its exit status and its output."""
    ours, theirs = pty.openpty()
    environment = {**shell.environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(
        shell.command(*words), env=environment, stdout=theirs, stderr=theirs, stdin=theirs
    )
    os.close(theirs)
    drawn = b""
    with suppress(OSError):  # Linux reports that the other end is closed
        while data := os.read(ours, 65_536):
            drawn += data
    os.close(ours)
    return process.wait(PATIENCE_S), drawn.decode()


def test_on_a_terminal_it_is_drawn_again_and_again(cluster: RunningCluster, shell: Shell) -> None:
    cluster.kill("b")
    cluster.settle("a")
    status, drawn = on_a_terminal(shell, "top", "--count", "3", "--interval-s", "0.1")
    cluster.start("b")
    cluster.settle()
    assert status == 0, drawn
    assert drawn.count("session (slow first)") >= 3
    assert drawn.count("\x1b[2K") > 10, "lines are drawn in place"
    assert "MISSING" in drawn


def test_a_picture_is_written(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "top.svg"
    words = ("top", "--count", "1", "--interval-s", "0.1", "--svg", str(path))
    assert shell.tell(*words)[0] == 0
    root = ET.parse(path).getroot()
    assert root.tag.endswith("svg")
    said = "".join(root.itertext()).replace("\xa0", " ")
    for part in ("groupcomm top", "operational", "delivered", "datagrams", "disk_spare_marks"):
        assert part in said


def test_without_rich_lines_are_printed_and_pictures_are_not(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ImportError('not here')\n")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    shell.environment["PYTHONPATH"] = path
    words = ("top", "--count", "1", "--interval-s", "0.1")
    command = shell.command(*words)  # the path is read when an interpreter starts
    subprocess.run(command, env=shell.environment, stdout=subprocess.PIPE, check=True)
    drawn = subprocess.run(
        [*command, "--svg", str(tmp_path / "x")],
        env=shell.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    for status, told in (on_a_terminal(shell, *words), (drawn.returncode, drawn.stderr)):
        assert (status, "install" in told and "'rich>=" in told) == (2, True)


@pytest.mark.parametrize("words", [("--interval-s", "0"), ("--count", "0")])
def test_what_is_out_of_range_is_reported(shell: Shell, words: tuple[str, str]) -> None:
    status, output, messages = shell.tell("top", *words)
    assert (status, output, "is 0" in messages) == (2, "", True)
    assert words[0] in messages


def test_a_picture_fits_its_terminal_and_counts_what_does_not(cluster: RunningCluster) -> None:
    with connect(cluster.address("a"), user="ann") as ann:
        before = ann.ask("status")
        for number in range(30):
            ann.join(f"group {number:02}")
        frame = look(ann, before, 1.0)
    text = io.StringIO()
    Console(file=text, width=80).print(picture(frame, 30))
    lines = text.getvalue().splitlines()
    assert len(lines) <= 30
    assert "group 00" in text.getvalue()
    shown = sum(line.startswith("group 0") for line in lines)
    assert f"and {30 - shown} more" in text.getvalue()


def test_sizes_have_the_unit_that_suits() -> None:
    assert [size(n) for n in (0, 5.25, 999, 1000, 2_500_000, 7e12)] == [
        "0 B",
        "5.2 B",
        "999 B",
        "1.0 KB",
        "2.5 MB",
        "7,000 GB",
    ]
