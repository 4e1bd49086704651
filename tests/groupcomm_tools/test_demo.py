"""The demo, as `make run` runs it, but in this process, which has a warm start for daemons."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from groupcomm_log.diff import compare
from tests.groupcomm_tools.shell import tell

LIMIT_S = 60


def test_the_demo_shows_a_crash_and_one_order_in_spite_of_it(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"first line\nsecond line\n\nthird \xff line\n")
    logs = tmp_path / "logs"
    status, output, messages = tell("demo", "--text", str(text), "--record", str(logs))
    assert (status, messages) == (0, "")
    for said in ("kill -9 charlie", "in a new view", "charlie is back", "saw one agreed order"):
        assert said in output
    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines() if line}
    for level in ("UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL"):
        assert rows[level] == ["3"] * 4
    assert rows["AGREED"] == ["5"] * 4
    assert "charlie lacks the messages sent while it was down" in output
    explained = "died with it: no other" in output
    assert explained == (rows["SAFE"][0] != rows["SAFE"][1])
    compared = compare(logs / "alfa", logs / "bravo", lambda damage: pytest.fail(str(damage)))
    assert compared.compared["AGREED"] == 5
    assert not compared.differences


def test_a_text_that_is_not_there_is_reported(tmp_path: Path) -> None:
    status, output, messages = tell("demo", "--text", str(tmp_path / "no"))
    assert (status, output) == (2, "")
    assert "No such file" in messages


def test_the_project_says_how_to_see_the_page() -> None:
    root = Path(__file__).parents[2]
    assert "\nmake page " in (root / "README.md").read_text()
    assert "\npage: .venv/.run " in (root / "Makefile").read_text()
    assert "demo --keep" in (root / "Makefile").read_text()


@pytest.mark.long
def test_a_demo_that_is_kept_has_pages_and_traffic_until_it_is_stopped(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"one line\n")
    command = [sys.executable, "-m", "groupcomm_tools.cli", "demo", "--text", str(text), "--keep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            told = [""]
            while "configuration is" not in told[-1]:
                told.append(running.stdout.readline())
                assert told[-1], "it has ended"
            found = re.findall(r"http://[\d.:]+/", "".join(told))
            assert len(found) == 3
            for at in found:
                with urlopen(at, timeout=LIMIT_S) as page:
                    assert b"<title>groupcomm" in page.read()
            with urlopen(f"{found[0]}status.json", timeout=LIMIT_S) as status:
                assert json.load(status)["daemons"] == ["alfa", "bravo", "charlie"]
        finally:
            running.send_signal(signal.SIGINT)
        assert running.wait(LIMIT_S) == 130
