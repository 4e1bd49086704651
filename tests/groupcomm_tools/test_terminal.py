"""Whatever names and texts hold, no command has a terminal obey it, or hides it from who reads."""

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from groupcomm.visible import find_hidden
from groupcomm_lessons.algorithms.vector import Vector
from groupcomm_tools.cli import main
from groupcomm_tools.pages.line_chart import page
from groupcomm_tools.pages.markup import escape
from groupcomm_tools.terminal import below, visible_output
from groupcomm_tools.top.draw import picture
from groupcomm_tools.top.frame import make_frame
from groupcomm_tools.view.build import make_diagram
from groupcomm_tools.view.figure import figure_of
from groupcomm_tools.view.page import make_page
from groupcommd.operators.logs import TextFormatter
from tests.groupcomm_lessons.algorithms.schedules import late_cause
from tests.groupcomm_tools.hostile_daemon import HOSTILE, hostile_daemon, status

NAMES = (HOSTILE, "q", "r")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hostile_daemon(tmp_path_factory.mktemp("hostile")) as where:
        yield where


def assert_seen(text: str) -> None:
    """All of it must be visible, except the ends of its lines."""
    assert not find_hidden(text.replace("\n", "").replace("\t", ""))


COMMANDS = [
    ("status",),
    ("groups",),
    ("members", "g"),
    ("sub", "g", "--count", "1", "--views"),
    ("watch", "g", "--count", "2"),
    ("top", "--count", "1", "--interval-s", "0.05"),
    ("keys", "status"),
]


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_what_a_daemon_and_others_say_does_nothing_to_a_terminal(
    address: str, words: tuple[str, ...], as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*words, *(["--json"] if as_json else []), "--address", address])
    shown = capsys.readouterr()
    assert_seen(shown.out)
    assert_seen(shown.err)
    assert "\\u202e" in shown.out + shown.err, "it is shown all the same"
    if as_json and not shown.err:
        told = strings([json.loads(line) for line in shown.out.splitlines()])
        assert any(HOSTILE in text for text in told), "JSON means what it meant"


def strings(value: Any) -> Iterator[str]:
    """All texts in what JSON has told."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def test_a_message_is_one_line_of_sub_whatever_it_says(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["sub", "g", "--count", "1", "--address", address])
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("AGREED     #x")
    assert line.endswith("\\nAGREED     #boss#a stop")


def test_chat_shows_it_with_escapes(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with open("/dev/null") as nothing:  # noqa: PTH123 - of its descriptor
        keep = sys.stdin
        sys.stdin = nothing
        try:
            main(["chat", "g", "--address", address])
        finally:
            sys.stdin = keep
    assert_seen(capsys.readouterr().out)


def test_what_is_wrong_is_reported_without_them(address: str, tmp_path: Path) -> None:
    messages = io.StringIO()
    keep, sys.stderr = sys.stderr, messages
    try:
        assert main(["sub", HOSTILE, "--address", address]) != 0
        assert main(["doctor", "--config", f"{tmp_path}/{HOSTILE}.toml"]) != 0
    finally:
        sys.stderr = keep
    assert messages.getvalue()
    assert_seen(messages.getvalue())


def test_top_draws_colours_and_none_that_a_name_brings() -> None:
    frame = make_frame(status(), status(), {HOSTILE: 1}, 1.0)
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system="standard")
    console.print(picture(frame, 40))
    assert isinstance(console.file, io.StringIO)
    drawn = console.file.getvalue()
    assert "\x1b[1m" in drawn, "it has its own"
    assert_seen(re.sub(r"\x1b\[[0-9;]*m", "", drawn))
    assert "\x1b[2J" not in drawn


def test_lines_of_the_log_are_lines() -> None:
    text = "client %s does not keep up"
    record = logging.LogRecord("groupcommd", logging.WARNING, "", 0, text, (f"{HOSTILE}\nx",), None)
    line = TextFormatter().format(record)
    assert not find_hidden(line)
    assert line.endswith("z\\nx does not keep up")


def test_pages_show_it_with_escapes() -> None:
    assert_seen(escape(HOSTILE))
    assert escape("<b>\u202e") == "&lt;b&gt;\\u202e"


def test_so_do_the_page_and_the_figure_of_a_trace() -> None:
    diagram = make_diagram(HOSTILE, late_cause(Vector, NAMES))
    text = make_page(HOSTILE, diagram)
    assert_seen(text)
    assert_seen(figure_of(diagram, title=HOSTILE))
    assert_seen(page(HOSTILE, "", HOSTILE))
    (data,) = re.findall(r"<script[^>]*json[^>]*>(.*?)</script>", text, re.DOTALL)
    for found in strings(json.loads(data)):
        assert_seen(found)


def test_a_command_draws_over_its_own_line_and_nobody_else_does() -> None:
    output = io.StringIO()
    keep, sys.stderr = sys.stderr, output
    try:
        with visible_output():
            print("\r3 seeds", end="", file=sys.stderr)
            print("error: x\r3 seeds", file=sys.stderr)
            assert below(sys.stderr) is output
            sys.stderr.writelines(["\x1b", "\n"])
    finally:
        sys.stderr = keep
    assert output.getvalue() == "\r3 seedserror: x\\r3 seeds\n\\u001b\n"
