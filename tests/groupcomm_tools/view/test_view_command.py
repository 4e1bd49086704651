"""`groupcomm view`: its pages, its reports and refusals."""

import json
from pathlib import Path

import pytest

from groupcomm.trace.events import Send, TraceEvent
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_tools.cli import main
from groupcomm_tools.view.build import make_diagram
from groupcomm_tools.view.page import columns, make_page
from tests.groupcomm_lessons.algorithms.schedules import late_cause
from tests.groupcomm_tools.view.traces import buggy, lines


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.jsonl"
    path.write_bytes(lines(late_cause(FanOut)))
    return path


def test_a_page_is_written_and_reported(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(trace)]) == 0
    assert capsys.readouterr().out == (
        "run.html: 2 messages on 3 lines, 0 violations; open it in a browser\n"
    )
    page = Path("run.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "http" not in page.replace("http-equiv", "")
    assert main(["view", str(trace), "-o", "other.html", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "page": "other.html",
        "bytes": Path("other.html").stat().st_size,
        "messages": 2,
        "deliveries": 6,
        "lines": 3,
        "violations": 0,
        "orders_not_kept": ["causal", "total"],
    }


def test_a_figure_is_written_for_documents(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(trace), "-o", "run.svg", "--logical", "--ticks"]) == 0
    assert "run.svg: 2 messages" in capsys.readouterr().out
    assert Path("run.svg").read_text().startswith("<svg ")
    assert main(["view", str(trace), "--ticks"]) == 2
    assert "are for figures" in capsys.readouterr().err


def test_a_folder_is_one_trace(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", "."]) == 0
    assert capsys.readouterr().out.startswith(f"{trace.parent.name}.html: 2 messages")


def test_violations_do_not_make_it_fail(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace.write_bytes(lines(buggy()))
    assert main(["view", str(trace), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["violations"] > 0


def test_a_broken_line_is_named(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = trace.read_bytes().splitlines(keepends=True)
    trace.write_bytes(b"".join(whole[:4]) + b'{"e":"give","t":1,"p":""}\n')
    assert main(["view", str(trace)]) == 1
    assert capsys.readouterr().err.startswith(f"groupcomm: {trace}:5: not an event of this trace: ")
    assert not Path("run.html").exists()


def test_what_cannot_be_read_or_written_is_named(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", "nothing.jsonl"]) == 2
    assert "nothing.jsonl" in capsys.readouterr().err
    Path("empty").mkdir()
    assert main(["view", "empty"]) == 1
    assert "empty: the folder has no traces" in capsys.readouterr().err
    assert main(["view", str(trace), "-o", "nowhere/page.html"]) == 1
    assert "nowhere/page.html" in capsys.readouterr().err
    assert main(["view", str(trace), "-o", "page.png"]) == 2
    assert "name a file that ends in .html" in capsys.readouterr().err


def test_the_signs_are_explained_in_sight(trace: Path) -> None:
    assert main(["view", str(trace), "-o", "page.html"]) == 0
    page = Path("page.html").read_text()
    assert '<details id="signs" open>' in page
    assert page.index("drawOthers(), scene.views ? drawBandNames()") > page.index("drawMessages(),")


def test_nothing_happened(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace.write_bytes(b"")
    assert main(["view", str(trace)]) == 0
    assert "0 messages on 0 lines" in capsys.readouterr().out


def test_large_numbers_keep_their_digits() -> None:
    """Browsers have floating point numbers only."""
    sends: list[TraceEvent] = [
        Send(1, "#ann#alfa/1", number, 4, ("g",), 0, discard=False, ordered=False)
        for number in (2**53 - 1, 2**64 - 1)
    ]
    found = columns("run", make_diagram("run", sends))
    assert found["messages"]["number"] == [2**53 - 1, str(2**64 - 1)]


def test_no_text_of_a_trace_ends_the_script() -> None:
    group = "</script><!--"
    sends: list[TraceEvent] = [
        Send(1, "#ann#alfa/1", 1, 4, (group,), 0, discard=False, ordered=False)
    ]
    page = make_page(group, make_diagram("run", sends))
    assert group not in page
    assert page.count("</script>") == 2
