"""A moment of questions at real daemons, and the campaign's verdicts."""

from typing import Any

import attrs
import pytest

from groupcomm_tools.bench.plan import Plan
from tests.groupcomm_tools.test_bench_matrix import figures
from tests.verification.campaigns.junk import Round
from tests.verification.campaigns.rude_programs import PHASES, check
from tests.verification.campaigns.runner import play
from tests.verification.campaigns.test_junk import QUIET


def played(p99_ms: float, **changes: Any) -> Round:
    """Return a round with such delays while the program is rude, and 1 ms otherwise."""
    quiet = attrs.evolve(QUIET, figures=attrs.evolve(QUIET.figures, delay_p99_us=1000.0))
    worse = attrs.evolve(QUIET, figures=attrs.evolve(QUIET.figures, delay_p99_us=p99_ms * 1000))
    return {"quiet": quiet, "rude": attrs.evolve(worse, **changes), "burner": quiet}


def test_the_median_of_the_rounds_counts() -> None:
    found = check("QUERY", [played(1.0), played(1.9), played(9.0)])
    assert (found["ratio_p99"], found["ratios_p99"]) == (1.9, [1.0, 1.9, 9.0])
    assert found["violations"] == []


@pytest.mark.parametrize(
    ("rounds", "what"),
    [
        ([played(2.1)], "QUERY: p99 is 2.10 times that beside the burner: above 2.0"),
        ([played(1.0), played(1.0, views=1)], "QUERY: rude: 1 views were installed"),
        (
            [played(1.0, figures=attrs.evolve(figures(Plan(), lost=1), delay_p99_us=1000.0))],
            "QUERY: rude: messages were lost, doubled or out of order",
        ),
    ],
)
def test_what_is_wrong_is_said(rounds: list[Round], what: str) -> None:
    assert check("QUERY", rounds)["violations"] == [what]


@pytest.mark.long
def test_a_moment_of_questions_costs_nobody_a_message() -> None:
    options = ["--kinds", "QUERY", "--connections", "3", "--duration-s", "0.5", "--rounds", "1"]
    result = play("rude_programs", *options)
    phases = result["figures"]["kinds"]["QUERY"]["phases"]
    assert phases.keys() == set(PHASES)
    assert not [each for each in result["violations"] if "messages" in each]
    assert phases["rude"]["told"]["opened"] >= 3
    assert phases["rude"]["told"]["sent_bytes"] > 1000
