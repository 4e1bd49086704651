"""The command that writes the figures of the pages: its records, journal, tables and pictures."""

import functools
import itertools
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import attrs
import pytest

from groupcomm.errors import GroupCommError
from tests.verification.campaigns.peers.test_bench import RIGHT
from tests.verification.campaigns.performance import campaign as command
from tests.verification.campaigns.performance import pages, records, text
from tests.verification.campaigns.performance.blocks import PICTURES, blocks
from tests.verification.campaigns.performance.figures import FIGURES
from tests.verification.campaigns.performance.measuring import Session
from tests.verification.campaigns.performance.parts import (
    Found,
    NothingArrived,
    Part,
    Run,
    WrongMessages,
    found_of,
    parts_of,
)
from tests.verification.campaigns.performance.records import Cell, Data, Recorded, cells_of, merged

PAGES = [pages.DOCS / name for name in pages.PAGES]
PICTURE_FILES = [command.FIGURES_FOLDER / f"{name}.svg" for name in FIGURES]


# ---- the pages ----


@functools.cache
def rendered() -> dict[Path, str]:
    return command.render(records.read())


@pytest.mark.parametrize("path", [*PAGES, *PICTURE_FILES], ids=str)
def test_what_is_generated_is_what_the_file_of_figures_renders(path: Path) -> None:
    """After a change: `python -m tests.verification.campaigns performance --render`."""
    assert path.read_text() == rendered()[path]


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_prose_has_no_figure_that_no_command_writes(path: Path) -> None:
    assert pages.figures_in_prose(path.read_text()) == []


def test_figures_measured_once_name_their_day_and_command() -> None:
    """They are few, and on one page."""
    once = (pages.DOCS / "performance.md").read_text().partition(f"\n{pages.ONCE}\n")[2]
    items = once.partition("\n## ")[0].split("\n- ")[1:]
    assert 0 < len(items) < 8
    for item in items:
        day, _, rest = item.partition(",")
        assert len(day.split("-")) == 3, item
        assert "`" in rest or "](" in rest, item


def test_every_block_and_picture_is_on_a_page() -> None:
    used = list(itertools.chain(*(pages.blocks_of(path.read_text()) for path in PAGES)))
    assert set(used) == set(blocks(records.read()))
    assert set(PICTURES) == set(FIGURES)


def test_every_part_is_in_the_file_of_figures() -> None:
    data = records.read()
    assert set(data) == {part.name for part in parts_of(1.0)}
    for part in parts_of(1.0):
        found = {(cell.load, cell.system) for cell in data[part.name].cells}
        assert found <= {(run.load, run.system) for run in part.runs}, part.name


@pytest.mark.parametrize("name", FIGURES)
def test_pictures_are_legible_in_light_and_dark(name: str) -> None:
    """Each has its own ground, and colours for both."""
    picture = (command.FIGURES_FOLDER / f"{name}.svg").read_text()
    root = ET.fromstring(picture)
    assert root.get("aria-label")
    assert "prefers-color-scheme: dark" in picture
    assert 'class="paper"' in picture


def test_figures_in_prose_are_found_and_others_are_not() -> None:
    page = """
It takes 5 ms, or 1.5 times as long, and [40 %](x.md) of `3 s`.

<!-- generated: x -->
| 7 ms |
<!-- end -->

```sh
sleep 5 s
```

Three daemons, AES-256, release 5.0.1 of 2018, [twelve](https://a.b/12 ms).

## Measured once

- 2026-01-01, `bench`: 7 ms

## After

Then 80 bytes.
"""
    assert pages.figures_in_prose(page) == ["5 ms", "1.5 times", "40 %", "80 bytes"]


def test_a_block_that_nobody_renders_is_refused() -> None:
    page = "<!-- generated: gone -->\n<!-- end -->\n"
    with pytest.raises(pages.UnknownBlock, match="gone"):
        pages.fill(page, {})
    again = pages.fill(page, {"gone": lambda: "| a |\n"})
    assert again == "<!-- generated: gone -->\n\n| a |\n\n<!-- end -->\n"
    assert pages.fill(again, {"gone": lambda: "| a |\n"}) == again


# ---- records ----


def part_with(*cells: Cell, measured: str = "2026-11-26") -> Recorded:
    return Recorded(
        measured=measured,
        commit="abc",
        rounds=3,
        duration_s=1.0,
        load_before=0.1,
        machine={"processors": "2"},
        releases={},
        cells=list(cells),
    )


def test_ratios_are_medians_of_the_ratios_of_rounds() -> None:
    """A busy round affects both."""
    rounds = {
        ("100 bytes", "ours"): {0: {"rate": 100.0}, 1: {"rate": 30.0}, 3: {"rate": 90.0}},
        ("100 bytes", "theirs"): {
            0: {"rate": 50.0},
            1: {"rate": 10.0},
            2: {"rate": 40.0},
            3: {"rate": 45.0},
        },
    }
    ours, theirs = cells_of("2026-11-26", "ours", rounds)
    assert (ours.base, theirs.base) == ({"rate": 1.0}, {"rate": 2.0})
    assert theirs.median("rate") == 42.5
    assert theirs.range("rate") == (10.0, 50.0)
    assert theirs.median("p50_ms") is None


def test_a_system_that_could_not_run_keeps_its_figures_with_their_day() -> None:
    old_ours, old_theirs = (
        Cell(load="l", system=system, measured="2026-01-01", rounds={"rate": [1.0]})
        for system in ("ours", "theirs")
    )
    new = Cell(load="l", system="ours", measured="2026-11-26", rounds={"rate": [2.0]})
    old = part_with(old_ours, old_theirs, measured="2026-01-01")
    found = merged(old, part_with(new), {("l", "ours"), ("l", "theirs")})
    assert found.median("l", "ours", "rate") == 2.0
    assert found.median("l", "theirs", "rate") == 1.0
    assert found.older == {"theirs": "2026-01-01"}


def test_a_load_that_is_gone_goes_with_its_system_measured_anew() -> None:
    old = Cell(load="gone", system="ours", measured="2026-01-01", rounds={"rate": [1.0]})
    new = Cell(load="l", system="ours", measured="2026-11-26", rounds={"rate": [2.0]})
    planned = {("gone", "ours"), ("l", "ours")}
    assert merged(part_with(old), part_with(new), planned).loads == ["l"]


def test_a_system_that_is_measured_no_more_is_dropped() -> None:
    old = Cell(load="l", system="gone", measured="2026-01-01", rounds={"rate": [1.0]})
    new = Cell(load="l", system="ours", measured="2026-11-26", rounds={"rate": [2.0]})
    assert merged(part_with(old), part_with(new), {("l", "ours")}).systems == ["ours"]


def test_the_file_of_figures_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    cell = Cell(load="l", system="s", measured="2026-11-26", rounds={"rate": [1.0, 2.5]})
    data = Data({"a": part_with(cell, cell), "b": part_with(cell)})
    records.write(data, path)
    assert records.read(path) == data


def test_a_part_that_was_never_measured_is_said_to_be_so() -> None:
    found = blocks(Data())
    assert found["levels"]() == "The part `levels` is not measured yet."
    assert "not yet" in found["when"]()


# ---- measuring ----


def run_of(system: str, *found: Found | Exception, missing: str = "") -> Run:
    answers = iter(found)

    async def measure() -> Found:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Run(load="l", system=system, measure=measure, missing=lambda: missing)


def session_of(folder: Path, *runs: Run, rounds: int = 2) -> Session:
    part = Part(name="p", title="t", base="ours", runs=runs)
    return Session(parts=[part], rounds=rounds, duration_s=1.0, journal=folder / "journal.jsonl")


async def test_a_system_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    session = session_of(
        tmp_path,
        run_of("ours", {"rate": 1.0}, {"rate": 2.0}),
        run_of("broken", {"rate": 1.0}, GroupCommError("its server has ended")),
        run_of("absent", missing="not installed"),
        run_of("wrong", WrongMessages("lost"), {"rate": 1.0}),
        run_of("slow", NothingArrived("nothing arrived"), {"rate": 0.5}),
    )
    session.resume()
    await session.run()
    assert session.failed == {
        ("p", "broken"): "its server has ended",
        ("p", "absent"): "not installed",
    }
    assert session.wrong == ["p: wrong, l, round 1"]
    part = session.recorded(Data())["p"]
    assert part.systems == ["ours", "wrong", "slow"]
    assert part.cells[2].base == {"rate": 4.0}, "of the round that both have"
    assert part.median("l", "ours", "rate") == 1.5


async def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    first = session_of(tmp_path, run_of("ours", {"rate": 1.0}, KeyboardInterruptStandIn()))
    first.resume()
    with pytest.raises(KeyboardInterruptStandIn):
        await first.run()
    again = session_of(tmp_path, run_of("ours", {"rate": 3.0}))
    assert again.resume() == 1
    await again.run()
    assert again.recorded(Data())["p"].cells[0].rounds == {"rate": [1.0, 3.0]}
    other = session_of(tmp_path, run_of("ours", {"rate": 3.0}), rounds=1)
    assert other.resume() == 0, "a run with other options begins anew"


class KeyboardInterruptStandIn(Exception):
    """Ends a session as ^C does."""


async def test_an_exact_part_runs_once(tmp_path: Path) -> None:
    session = session_of(tmp_path, run_of("ours", {"steps": 3.0}), rounds=3)
    session.parts = [attrs.evolve(session.parts[0], exact=True)]
    session.resume()
    await session.run()
    assert session.recorded(Data())["p"].rounds == 1


def test_wrong_messages_are_no_figures() -> None:
    figures = attrs.evolve(RIGHT, lost=1)
    with pytest.raises(WrongMessages):
        found_of(figures)
    assert found_of(attrs.evolve(figures, lost=0))["rate"] == 1000.0
    with pytest.raises(NothingArrived):
        found_of(attrs.evolve(figures, lost=0, msgs_per_s_each=0.0))


# ---- the command ----


def test_options_choose_parts_and_wrong_ones_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.run.read("", ["--only", "levels", "total"]).only == ["levels", "total"]
    with pytest.raises(SystemExit) as ended:
        command.run.read("", ["--only", "levels", "gone"])
    assert ended.value.code == 2
    assert "invalid choice: 'gone'" in capsys.readouterr().err


def test_amounts_and_ratios_have_few_digits() -> None:
    assert [text.amount(value) for value in (557_123.0, 43.21, 0.9876, 0.0, None)] == [
        "557,000",
        "43.2",
        "0.988",
        "0",
        "-",
    ]
    assert [text.ratio(value) for value in (16.96, 1.0, 0.0451, None)] == [
        "17",
        "1.0",
        "0.045",
        "-",
    ]
    assert text.sentence(["a", "b", "c"]) == "a, b and c"


def test_the_figures_are_those_of_right_runs() -> None:
    """No figure on the pages is zero: a run that delivered nothing measured nothing."""
    shape = json.loads(records.PATH.read_text())
    for name, part in shape.items():
        for cell in part["cells"]:
            for rate in cell["rounds"].get("rate", [1.0]):
                assert rate > 0, (name, cell["system"])
