"""Every cell of docs/faults.md names something that exists, and nothing that exists is missing."""

import argparse
import functools
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from groupcomm.sim.faults.faults import FAULT_NAMES
from tests.verification.campaigns.chaos.campaign import ALL_IN_TURN
from tests.verification.campaigns.chaos.host_disasters import CLOCKS
from tests.verification.campaigns.chaos.sites import SITES_IN_TURN
from tests.verification.simulation import runs

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "faults.md"
NAME = re.compile("`([^`]+)`")
REASON = " — "
"""What stands before the reason for which nothing is there, or more is not."""

DISASTERS = {disaster.__name__ for disaster in (*ALL_IN_TURN, *SITES_IN_TURN, *CLOCKS)}


def rows() -> Iterator[list[str]]:
    """Yield the cells of each row of each table, without its heads."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] != "fault" and set(line) != set("|-"):
            yield cells


@functools.cache
def sources() -> str:
    """Return all sources of tests, in which the names of tests are looked up."""
    return "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


@functools.cache
def options() -> frozenset[str]:
    parser = argparse.ArgumentParser()
    runs.add_options(parser)
    return frozenset(text for action in parser._actions for text in action.option_strings)


def exists(name: str) -> bool:
    if name.startswith("test_"):
        return f"def {name}(" in sources()
    if name.startswith("tests."):
        return importlib.util.find_spec(name) is not None
    if name.startswith("make "):
        return f"\n{name.removeprefix('make ')}:" in (ROOT / "Makefile").read_text()
    scenario = ROOT / "tests" / "verification" / "scenarios" / f"{name}.txt"
    return name in {*FAULT_NAMES, *options(), *DISASTERS} or scenario.exists()


def test_each_cell_names_what_exists_or_says_why_there_is_nothing() -> None:
    for fault, simulated, real, promise in rows():
        assert promise, fault
        for cell in (simulated, real):
            names = NAME.findall(f" {cell}".partition(REASON)[0])
            assert names or f" {cell}".partition(REASON)[2], f"{fault}: {cell!r} is no reason"
            assert [name for name in names if not exists(name)] == [], fault


def test_each_fault_and_each_disaster_has_a_row() -> None:
    simulated = {name for row in rows() for name in NAME.findall(row[1])}
    real = {name for row in rows() for name in NAME.findall(row[2])}
    assert set(FAULT_NAMES) - simulated == set()
    assert DISASTERS - real == set()


def test_what_does_not_exist_is_found() -> None:
    assert not exists("test_of_nothing_at_all")
    assert not exists("tests.verification.campaigns.nothing")
    assert not exists("make nothing")
    assert not exists("no-such-fault")
    assert exists("make chaos")
