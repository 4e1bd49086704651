"""`groupcomm simulate --topology` as a user meets it: tables, JSON, the page, exit status."""

import json
from pathlib import Path
from xml.etree import ElementTree

import attrs
import pytest

from groupcomm_tools.cli import main
from groupcomm_tools.commands import simulate_plan
from groupcomm_tools.plan.figures import PlanFigures, figures_of
from groupcomm_tools.plan.measure import Measurement, PlanFailed, measure
from groupcomm_tools.plan.topology import Topology
from tests.groupcomm_tools.test_plan import plan

TOML = """
duration_s = 0.5
[sites.a]
daemons = 2
[sites.b]
daemons = 1
[[links]]
between = ["a", "b"]
delay_ms = 30
bandwidth_mbit = 10
[[loads]]
group = "g"
members = ["a", "b"]
sender = "a"
level = "SAFE"
rate = 20
bytes = 100
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(TOML)
    return path


def test_tables_for_people(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--topology", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if line and not line.startswith(" ")]
    assert titles == ["Delays from multicast to delivery", "Links", "Daemons", "Cost"]
    safe = [line.split() for line in lines if " SAFE " in line]
    assert [words[2:4] for words in safe] == [["a", "a"], ["a", "b"]]
    assert 30 <= float(safe[1][5]) <= float(safe[1][6]) <= float(safe[1][7]) < 100
    assert [line.split("  ")[1] for line in lines if " > " in line] == ["a > b", "b > a"]
    assert sum(line.startswith(("  a 1", "  a 2", "  b 1")) for line in lines) == 3


@pytest.mark.long
def test_json_and_the_page_have_the_same_and_more_sizes(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    command = ["simulate", "--topology", str(file), "--json", "-o", str(page)]
    assert main([*command, "--grow-sites", "3", "--grow-daemons", "4"]) == 0
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert output.err.splitlines()[-1] == f"{page} contains the page"
    assert [way["link"] for way in found["links"]] == ["a > b", "b > a"]
    for way in found["links"]:
        assert sum(way["kinds_kbit_per_s"].values()) == pytest.approx(way["kbit_per_s"], abs=0.01)
        assert way["used"] == pytest.approx(way["kbit_per_s"] / 10_000, abs=1e-4)
    grown = found["growing"]
    assert [each["cost"]["sites"] for each in grown["sites"]] == [3]
    assert [each["cost"]["daemons"] for each in grown["daemons"]] == [4]
    tree = ElementTree.fromstring(page.read_text().removeprefix("<!doctype html>\n"))
    text = " ".join(tree.itertext())
    for words in ("What these sites cost", "With more sites", "With more daemons", "a > b"):
        assert words in text
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}svg"))) == 4
    assert "http" not in page.read_text().replace("http://www.w3.org/2000/svg", "")
    assert page.read_text().count('<p class="hint">') == len(list(tree.iter("section")))


@pytest.mark.long
def test_a_seed_gives_the_same_figures_again(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for seed in ("3", "3"):
        assert main(["simulate", "--topology", str(file), "--seeds", seed, "--json"]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]


@pytest.mark.verification
def test_a_load_that_is_too_much_is_reported_and_ends_with_1(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heavy = TOML.replace("bandwidth_mbit = 10", "bandwidth_mbit = 0.5")
    file.write_text(heavy.replace("bytes = 100", "bytes = 20000"))
    assert main(["simulate", "--topology", str(file)]) == 1
    assert "too much: " in capsys.readouterr().err


def test_unreliable_messages_may_be_missing_and_others_not() -> None:
    found = figures_of(measure(plan()))
    assert found.wrong == ""
    for level, wrong in (("UNRELIABLE", ""), ("FIFO", "3 deliveries did not come")):
        assert with_missing(found, level).wrong.startswith(wrong)


def with_missing(found: PlanFigures, level: str) -> PlanFigures:
    delays = [attrs.evolve(found.delays[0], level=level, missing=3)]
    return attrs.evolve(found, delays=delays)


def test_interrupting_tells_what_is_there_and_ends_with_130(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = iter([measure(plan(rate=1.0))] * 2)

    def until_interrupted(_plan: Topology, _seed: int) -> Measurement:
        try:
            return next(measured)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(simulate_plan, "measure", until_interrupted)
    command = ["simulate", "--topology", str(file), "--json", "--grow-sites", "2,3"]
    assert main([*command, "--grow-daemons", "4"]) == 130
    output = capsys.readouterr()
    assert "stopped; so far:" in output.err
    grown = json.loads(output.out)["growing"]
    assert {what: len(done) for what, done in grown.items()} == {"sites": 1}


def test_a_size_without_a_view_ends_its_series_and_the_rest_is_reported(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = measure(plan(rate=1.0))

    def only_small(wanted: Topology, _seed: int) -> Measurement:
        if len(wanted.names) > 2:
            raise PlanFailed("no view")
        return small

    monkeypatch.setattr(simulate_plan, "measure", only_small)
    command = ["simulate", "--topology", str(file), "--json", "--grow-sites", "2,3,4"]
    assert main([*command, "--grow-daemons", "4"]) == 1
    output = capsys.readouterr()
    assert output.err.count("too much: no view") == 1
    grown = json.loads(output.out)["growing"]
    assert {what: len(done) for what, done in grown.items()} == {"sites": 1, "daemons": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--grow-sites", "2"], "--grow-sites needs --topology"),
        (["-o", "page.html"], "--output needs --topology"),
        (["--topology", "FILE", "--daemons", "3"], "--daemons is for campaigns"),
        (["--topology", "FILE", "--seeds", "1:3"], "--topology is one run"),
        (["--topology", "FILE", "--grow-sites", "few"], "'few' is not of the form N,N"),
        (["--topology", "FILE", "--grow-sites", "999"], "999 sites cannot be planned"),
    ],
)
def test_wrong_usage_is_named_and_ends_with_2(
    arguments: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(file) if word == "FILE" else word for word in arguments]
    assert main(["simulate", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_no_plan_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, message in (("[sites", "Expected"), ("x = 1", "sites is missing")):
        file.write_text(text)
        assert main(["simulate", "--topology", str(file)]) == 2
        error = capsys.readouterr().err
        assert str(file) in error
        assert message in error
    assert main(["simulate", "--topology", str(file.with_name("none"))]) == 2
