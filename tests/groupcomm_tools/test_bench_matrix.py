"""The matrix: its rows, their report, and the page, which must stand by itself."""

import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import ConfigError
from groupcomm_tools.bench.events import Disturbance, Event, EventTimes
from groupcomm_tools.bench.figures import Figures
from groupcomm_tools.bench.matrix import Result, Row, chosen, rows_of, run_matrix
from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.bench.report import PARTS, lines_of, page_of
from groupcomm_tools.pages.bar_chart import WIDE, Bar, Chart, Line, amount, draw
from groupcomm_tools.pages.html_page import html
from tests.groupcomm_tools.shell import Told, tell

SVG = "{http://www.w3.org/2000/svg}"
ROWS = rows_of(2.0)


def run(*options: str) -> Told:
    return tell("bench", *options)


def figures(plan: Plan, *, rate: float = 1000.0, delay_us: float = 500.0, lost: int = 0) -> Figures:
    return Figures(
        plan=plan,
        msgs_per_s_each=rate,
        mb_per_s_each=rate * plan.size / 1e6,
        msgs_per_s_fastest=rate,
        delay_p50_us=delay_us,
        delay_p95_us=delay_us * 2,
        delay_p99_us=delay_us * 3,
        delay_p999_us=delay_us * 4,
        delay_max_us=delay_us * 5,
        lost=lost,
        duplicated=0,
        misordered=0,
        wrong=0,
        cpu_daemons=0.5,
        cpu_senders=0.25,
        cpu_receivers=1.0,
        cpu_s_per_million=500 / rate,
        jain=1.0,
    )


def result(row: Row) -> Result:
    """Two rounds, the second with twice the figures."""
    found = Result(row=row)
    for number in range(2):
        scale = number + 1.0
        if isinstance(row.what, Event):
            found.events[number] = EventTimes(view_ms=300 * scale, merged_ms=500 * scale)
        else:
            told = figures(row.what, rate=1000 * scale, delay_us=500 * scale)
            found.runs[number] = told
        if row.floor:
            found.floors[number] = [250 * scale] * 3
    return found


def parsed(results: list[Result]) -> ET.Element:
    text = html(page_of(results, ["two processors <here> & now"]))
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    return ET.fromstring(text.removeprefix("<!doctype html>\n"))


# ---- rows ----


def test_rows_have_names_of_their_own_and_a_place_on_the_page() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert {row.section for row in ROWS} == {part.key for part in PARTS}
    for row in ROWS:
        assert not row.beside or row.beside in names
        assert not isinstance(row.what, Plan) or row.what.duration_s == 2.0
        assert not row.floor or (isinstance(row.what, Plan) and row.what.is_timed)


def test_rows_are_chosen_by_patterns_in_their_order() -> None:
    found = [row.name for row in chosen(ROWS, "event-kill-*, three-100")]
    assert found == ["three-100", "event-kill-local", "event-kill-lan"]
    with pytest.raises(ConfigError, match="no row matches 'nothing-\\*'; the rows are three-100"):
        chosen(ROWS, "three-100,nothing-*")


def test_rows_are_compared_round_by_round() -> None:
    sealed, plain = (result(row) for row in chosen(ROWS, "encrypted-1400-100,plain-1400-100"))
    plain.runs[1] = figures(Plan(), rate=8000)
    told = plain.as_json([sealed, plain])
    assert (told["beside"], told["ratio"]) == ("encrypted-1400-100", 2.5)  # the figures of 1 and 4
    assert told["msgs_per_s_each"] == 8000
    assert told["each_round"] == [1000, 8000]
    assert "ratio" not in plain.as_json([plain])
    (delay,) = (result(row) for row in chosen(ROWS, "delay-three-safe"))
    told = delay.as_json([delay])
    assert (told["floor_ratio"], told["delay_p50_us"], told["floor_p50_us"]) == (2.0, 750, 375)
    (event,) = (result(row) for row in chosen(ROWS, "event-leave-lan"))
    told = event.as_json([event])
    assert (told["view_ms"], told["merged_ms"], told["preset"]) == (450, 750, "lan")


@pytest.mark.long
async def test_a_row_that_fails_is_reported_and_the_others_are_run() -> None:
    broken = Row(
        name="broken", section="event", line="", what=Event(kind=Disturbance.KILL, preset="?")
    )
    good = chosen(rows_of(0.2), "one-unix-100")
    results = [Result(row=row) for row in (broken, *good)]
    said: list[str] = []
    await run_matrix(results, 1, said.append)
    assert [each.is_right for each in results] == [False, True]
    (failure,) = results[0].failures
    assert "preset" in failure
    assert said[0].startswith("1 of 2 (round 1 of 1): broken; about ")
    assert said[1] == f"broken failed: {failure.removeprefix('round 1: ')}"
    assert said[2].startswith("2 of 2")


# ---- the page ----


def test_the_page_has_every_row_in_a_table_and_every_bar_in_a_picture() -> None:
    results = [result(row) for row in ROWS]
    root = parsed(results)
    assert len(root.findall(".//tbody/tr")) == len(ROWS)
    assert len(root.findall(f".//{SVG}svg")) == len(PARTS) == len(root.findall(".//section"))
    panels = {part.key: len(part.measures) for part in PARTS}
    bars = sum(panels[row.section] * (1 + row.floor) for row in ROWS)
    assert len(root.findall(f".//{SVG}rect/{SVG}title")) == bars
    assert len(root.findall(f".//{SVG}path[@class='whisker']")) == bars
    assert not root.findall(".//tr[@class='wrong']")
    texts = {element.text for element in root.iter()}
    assert {row.line for row in ROWS} <= texts
    assert "two processors <here> & now" in texts


def test_unreliable_messages_may_be_lost() -> None:
    results = [result(row) for row in chosen(ROWS, "level-*")]
    unreliable = next(each for each in results if each.row.name == "level-unreliable")
    assert isinstance(unreliable.row.what, Plan)
    unreliable.runs[1] = figures(unreliable.row.what, lost=3)
    verdict = page_of(results, []).verdict
    assert verdict.startswith("All rows are right: ")
    assert verdict.endswith(" 3 UNRELIABLE messages were lost, as they may be.")
    assert not page_of(results, []).wrong


def test_a_row_that_is_wrong_is_red_and_named_first() -> None:
    results = [result(row) for row in chosen(ROWS, "three-100,three-1000,event-kill-lan")]
    results[1].runs[1] = figures(Plan(size=1000), lost=7)
    results[2].events.clear()
    results[2].failures.append("round 1: daemon bravo does not start")
    root = parsed(results)
    (verdict,) = root.findall(".//p[@class='verdict wrong']")
    assert verdict.text == "Wrong: three-1000, event-kill-lan"
    rows = root.findall(".//tr[@class='wrong']")
    assert [list(row.itertext())[-1] for row in rows] == [
        "7 lost",
        "round 1: daemon bravo does not start",
    ]
    assert len(root.findall(f".//{SVG}rect[@class='wrong']")) == 4
    assert [line.split("WRONG: ")[1:] for line in lines_of(results)] == [
        [],
        ["7 lost"],
        ["round 1: daemon bravo does not start"],
    ]


@given(values=st.lists(st.just(0.0) | st.floats(1e-9, 1e9), min_size=1, max_size=6))
def test_bars_are_as_long_as_their_values(values: list[float]) -> None:
    bars = [Bar(value=value, low=value, high=value, text="x") for value in values]
    lines = [Line(label="a & b", cells=[[bar]]) for bar in bars]
    root = ET.fromstring(draw(Chart(title="<t>", panels=["y"], lines=lines)))
    lengths = [float(rect.attrib["width"]) for rect in root.iter(f"{SVG}rect")]
    longest, least = max(values), min((value for value in values if value), default=0.0)
    full = lengths[values.index(longest)]
    if longest > WIDE * least:  # each decade has the same length, from that of the least value on
        first, last = math.floor(math.log10(least)), math.ceil(math.log10(longest) - 1e-9)
        of = {v: (math.log10(v) - first) / (last - first) if v else 0.0 for v in values}
        assert len(root.findall(f"{SVG}line")) == last - first + 1
    else:
        of = {value: value / longest if longest else 0.0 for value in values}
        assert len(root.findall(f"{SVG}line")) <= 6
    for value, length in zip(values, lengths, strict=True):
        whole = full / of[longest] if of[longest] else 0.0
        assert length == pytest.approx(max(1.0, whole * of[value]), abs=1.5)


def test_an_axis_of_100_bytes_and_4_megabytes_is_logarithmic() -> None:
    bars = [Bar(value=value, low=value, high=value, text="x") for value in (100.0, 4e6)]
    lines = [Line(label="a", cells=[[bar]]) for bar in bars]
    root = ET.fromstring(draw(Chart(title="t", panels=["bytes"], lines=lines)))
    short, long = (float(rect.attrib["width"]) for rect in root.iter(f"{SVG}rect"))
    assert short == 1.0
    assert long > 100
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "bytes (each step is ten times more)" in texts
    assert {"100", "1,000", "10,000,000"} <= set(texts)


def test_amounts_keep_three_digits() -> None:
    written = [amount(value) for value in (0, 0.01234, 0.5, 1.234, 56.78, 287_123.4)]
    assert written == ["0", "0.0123", "0.500", "1.23", "56.8", "287,123"]


# ---- the command ----


@pytest.mark.long
def test_it_runs_rows_and_writes_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    rows = "one-tcp-100,event-partition-local"
    options = ("--matrix", "--rows", rows, "--rounds", "1", "--duration-s", "0.2")
    status, output, messages = run(*options, "--json", "--output", str(page))
    assert status == 0, messages
    found = json.loads(output)
    assert "processors" in found["machine"]
    run_row, event_row = found["rows"]
    assert (run_row["name"], run_row["unix"], run_row["lost"]) == ("one-tcp-100", False, 0)
    assert run_row["msgs_per_s_each"] > 0, run_row
    assert event_row["view_ms"] > 0
    assert event_row["merged_ms"] > 0
    assert "2 of 2 (round 1 of 1): event-partition-local; about" in messages
    root = ET.fromstring(page.read_text().removeprefix("<!doctype html>\n"))
    assert len(root.findall(".//tbody/tr")) == 2


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--matrix", "--size", "500"), "--size is for a single run; the rows of --matrix have"),
        (("--matrix", "--rounds", "0"), "--rounds: it is 0, and must be at least 1"),
        (("--matrix", "--rows", "no"), "no row matches 'no'"),
        (("--matrix", "--duration-s", "-1"), "--duration-s: it is -1, and must be above 0"),
        (("--rows", "three-100"), "--rows needs --matrix"),
        (("--output", "x.html"), "--output needs --matrix"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: tuple[str, ...], why: str) -> None:
    status, output, messages = run(*options)
    assert (status, output) == (2, "")
    assert why in messages
