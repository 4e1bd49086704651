"""The tables of docs/security.md: each cell is there, and each test that they name."""

import re
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from tests.verification.simulation.attackers.roles import ENTITLED, ROLES

TESTS: Final = Path(__file__).parents[1]
PAGE: Final = (TESTS.parent / "docs" / "security.md").read_text()
GOALS: Final = (
    "read what programs send",
    "forge a message",
    "speak as another daemon",
    "speak as another user",
    "split or stop the ring",
    "fill memory or descriptors",
    "delay others",
    "learn who is there",
)


def table(head: str) -> list[list[str]]:
    """Return the cells of the first table below a head, row by row."""
    lines = PAGE[PAGE.index(f"\n{head}\n") :].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|---"))
    rows = []
    for line in lines[start + 1 :]:
        if not line.startswith("| "):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def missing(text: str) -> list[str]:
    """Return the tests that a text names and that there are not."""
    found = []
    for path, name in re.findall(r"`([\w/]+\.py)::(\w+)`", text):
        file = TESTS / path
        pattern = rf"^(async )?def {name}\("
        if not file.is_file() or not re.search(pattern, file.read_text(), re.MULTILINE):
            found.append(f"{path}::{name}")
    return found


def test_what_each_role_can_do_is_reported_for_each_goal() -> None:
    rows = table("## Who can do what")
    assert [(goal, role) for goal, role, _ in rows] == [
        (goal, f"`{role}`") for goal, role in product(GOALS, ROLES) if role not in ENTITLED
    ]
    said = next(line for line in PAGE.splitlines() if line.startswith("`joiner`"))
    assert all(f"`{role}`" in said for role in ENTITLED)
    assert missing(said) == []
    for goal, role, text in rows:
        assert text.startswith(("can", "cannot")), (goal, role)
        assert "::" in text or not text.startswith("cannot"), f"{goal}, {role}: shown by no test"


@pytest.mark.parametrize("head", ["## Who can do what", "### Further attacks that were tried"])
def test_each_test_that_is_named_is_there(head: str) -> None:
    text = "\n".join(cell for row in table(head) for cell in row)
    assert "::" in text
    assert missing(text) == []


def test_a_test_that_is_not_there_is_noticed() -> None:
    here = "groupcommd/test_security_tables.py"
    assert missing(f"`{here}::test_a_test_that_is_not_there_is_noticed`") == []
    assert missing(f"`{here}::test_of_nothing`, `no/test_x.py::test_x`") == [
        f"{here}::test_of_nothing",
        "no/test_x.py::test_x",
    ]


def test_each_file_that_shows_a_claim_is_there() -> None:
    rows = table("## What was tested")
    assert len(rows) > 30
    for _, shown in rows:
        for name in re.findall(r"`([^`]+)`", shown):
            path = TESTS / re.sub(r"^s/", "groupcomm/security/", name)
            assert path.exists(), name
