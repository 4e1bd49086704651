"""Many runs of the campaign are counted as one."""

from pathlib import Path
from typing import Any

from tests.verification.campaigns.chaos.totals import Totals


def figures(disasters: int, **more: Any) -> dict[str, Any]:
    names = ("events", "deliveries", "operations", "violations")
    return {
        **dict.fromkeys(names, 1), "asked": 12, "disasters": disasters, "seconds": 60.0,
        "kinds": {"hold": disasters}, "failures": [], **more,
    }  # fmt: skip


def test_a_run_goes_on_behind_the_rounds_of_its_seed(tmp_path: Path) -> None:
    path = tmp_path / "totals.jsonl"
    one, other = Totals(path, {"seed": 1, "sites": 1}), Totals(path, {"seed": 2, "sites": 1})
    assert one.done() == (0, 0)
    one.add(figures(12))
    one.add(figures(3, failures=["round 2: did not converge"]))
    assert (one.done(), other.done()) == ((2, 24), (0, 0))
    other.add(figures(9))
    assert other.done() == (1, 12)
    found = one.summary()
    assert (found["rounds"], found["disasters"], found["kinds"]) == (3, 24, {"hold": 24})
    assert (found["failures"], found["s_per_disaster"]) == (["round 2: did not converge"], 7.5)
