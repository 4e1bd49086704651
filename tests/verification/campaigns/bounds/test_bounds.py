"""Small rows: the crowds do what the rows say. Whether that is quick, a whole campaign says."""

from typing import Any

import pytest

from tests.verification.campaigns.bounds.campaign import missed
from tests.verification.campaigns.bounds.rows import ROWS
from tests.verification.campaigns.runner import play

pytestmark = pytest.mark.verification

SCALE = 0.01
LEAST: dict[str, dict[str, float]] = {
    "joins": {"joined": 10},
    "crash": {"joined": 66, "ended": 16},
    "groups": {"joined": 1000, "ended": 1},
    "churn": {"joined": 10, "churned": 10},
    "spread-joins": {"joined": 3, "received": 3},
    "free-senders": {"admitted": 3, "sent": 100_000},
    "message": {"joined": 100, "received": 500},
    "closing": {"joined": 50},
}
"""What the crowd of a row counts at least at this scale."""


@pytest.mark.parametrize(
    "row", [pytest.param(name, marks=[pytest.mark.long] * (name != "crash")) for name in ROWS]
)
def test_a_row_does_what_it_says(row: str) -> None:
    result = play("bounds", "--rows", row, "--scale", f"{SCALE}")
    (found,) = result["figures"]["rows"][row]
    assert found["row"] == row
    assert found["load"]["messages"] > 0
    assert tuple(found["bars"]["messages_missed"]) == (0, 0)
    for name, least in LEAST[row].items():
        assert found["counts"].get(name, 0) >= least, found
    for name in found["bars"].keys() & {"not_received", "names_a_member_to_n"}:
        assert name not in found["missed"]


def run_of(p99_ms: float) -> dict[str, Any]:
    return {"row": "joins", "bars": {"p99_ms": (p99_ms, 20.0), "views_lost": (0, 0)}}


def test_the_median_of_the_rounds_counts() -> None:
    assert missed([run_of(1.0), run_of(20.0), run_of(500.0)]) == []
    assert missed([run_of(1.0), run_of(21.0), run_of(500.0)]) == ["joins: p99_ms is 21: above 20"]
