"""Two hosts, or two sites, and a witness: each fault and each two leave what docs/votes.md says."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.groupcomm.sim.witness import (
    FAULTS,
    HOSTS,
    ROWS,
    SITES,
    Fault,
    Row,
    Witnessed,
    check_outcome,
    row_of,
)
from tests.verification.mutants.votes import witness_votes_for_both_sides

PAGE = Path(__file__).parents[3] / "docs" / "votes.md"
APART_S = 2.0

BOTH = pytest.mark.parametrize(
    "parts", [HOSTS, pytest.param(SITES, marks=pytest.mark.long)], ids=["hosts", "sites"]
)


def check(parts: Any, faults: Sequence[Fault], apart_s: float = 0.0) -> None:
    """Let faults happen, and compare what they leave with their row."""
    cluster, row = Witnessed(parts), ROWS[row_of(faults)]
    outcome = cluster.outcome(faults, apart_s)
    check_outcome(faults, outcome, row.hosts_s if parts is HOSTS else row.sites_s)
    cluster.check()


@BOTH
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_each_fault_leaves_what_the_page_says(fault: Fault, parts: Any) -> None:
    check(parts, [fault])


@BOTH
@pytest.mark.long
@pytest.mark.parametrize("first", FAULTS, ids=str)
def test_each_two_faults_leave_what_the_page_says(first: Fault, parts: Any) -> None:
    """Both at once, and each some time after the other."""
    for other in FAULTS:
        if other.where != first.where:
            check(parts, [first, other], APART_S)
    for one, other in combinations(FAULTS, 2):
        if one == first and other.where != one.where:
            check(parts, [one, other])


def test_the_page_has_the_table() -> None:
    page = PAGE.read_text()
    assert [row for row in map(text_of, ROWS.values()) if row not in page] == []


def text_of(row: Row) -> str:
    """Return a row of the table, as the page has it."""
    times = [f"{most_s:g} s" if most_s else "-" for most_s in (row.hosts_s, row.sites_s)]
    return f"| {row.faults} | {row.going_on} | {times[0]} | {times[1]} |"


@pytest.mark.verification
def test_a_witness_that_votes_for_both_sides_is_noticed() -> None:
    """Two that hear neither each other nor the witness would both go on."""
    two = [Fault("cut", ("one", "other")), Fault("stopped", ("witness",))]
    check(HOSTS, two)
    with witness_votes_for_both_sides.active(), pytest.raises(AssertionError):
        check(HOSTS, two)
