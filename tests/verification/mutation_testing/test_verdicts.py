"""The likeliest checks come first; verdicts are kept; explanations are about code that exists."""

import ast
from math import inf
from pathlib import Path

import pytest

from tests.verification.mutation_testing.checks import Check, Outcome
from tests.verification.mutation_testing.explained import COSTS_ONLY, EQUIVALENT
from tests.verification.mutation_testing.operators import Mutation, mutate
from tests.verification.mutation_testing.patching import LoadedFunctions
from tests.verification.mutation_testing.reach import Reached
from tests.verification.mutation_testing.verdicts import (
    Judge,
    Verdict,
    digest,
    read,
    survivors,
    write,
)

pytestmark = [
    pytest.mark.verification,
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
"""Later releases of Python warn of forks in a process with threads."""

MODULE = "groupcomm/order/horizons.py"


def mutation() -> Mutation:
    """Return some mutation."""
    return mutate(MODULE, Path(MODULE).read_text(), 5)[0]


def check(name: str, outcome: Outcome | None = None) -> Check:
    """Return a check with a fixed outcome."""
    return Check(name, lambda following: outcome or Outcome(is_failed=False))


def judge(*checks: Check, misses: str = "", most_s: float = inf) -> Judge:
    """Return a judge over checks of which each costs more than the one before it."""
    bit = 1 << mutation().statement_line
    reached = {
        each.name: Reached("", 0.1 * place, "", {} if each.name == misses else {MODULE: bit})
        for place, each in enumerate(checks, 1)
    }
    return Judge(list(checks), reached, LoadedFunctions([MODULE]), most_s)


def test_checks_that_do_not_reach_the_statement_are_left_out() -> None:
    some = judge(check("cheap"), check("blind"), check("dear"), misses="blind")
    assert [each.name for each in some.chosen(mutation())] == ["cheap", "dear"]


def test_tests_of_the_package_come_first_and_what_has_found_something_before_them() -> None:
    own = check("tests/groupcomm/order/test_x.py::test_y")
    fails = check("seed 1", Outcome(is_failed=True))
    some = judge(check("other"), own, fails)
    assert [each.name for each in some.chosen(mutation())] == [own.name, "other", "seed 1"]
    [(_, verdict)] = some.judge([mutation()], 1)
    assert (verdict.is_found, verdict.by, verdict.reached) == (True, "seed 1", 3)
    assert some.chosen(mutation())[0].name == "seed 1"


def test_a_mutation_that_no_check_notices_survives() -> None:
    some = judge(check("test"), check("seed 2", Outcome(is_failed=False, trace_hash="other")))
    [(_, verdict)] = some.judge([mutation()], 1)
    assert (verdict.is_found, verdict.by, verdict.altered) == (False, "", 1)


def test_checks_that_are_too_dear_are_not_asked_and_that_is_said() -> None:
    fails = check("dear", Outcome(is_failed=True))
    [(_, verdict)] = judge(check("cheap"), fails, most_s=0.0).judge([mutation()], 1)
    assert (verdict.is_found, verdict.by) == (False, "not found by 0 of 2 checks")


def test_a_mutation_that_no_check_reaches_survives() -> None:
    [(_, verdict)] = judge(check("blind"), misses="blind").judge([mutation()], 1)
    assert verdict == Verdict(digest(MODULE), is_found=False, by="", reached=0, altered=0)


def test_a_mutation_that_cannot_be_made_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(self: LoadedFunctions, module: str, tree: ast.Module) -> None:
        raise ValueError("other free variables")

    some = judge(check("test", Outcome(is_failed=True)))
    monkeypatch.setattr(LoadedFunctions, "replace", replace)
    [(_, verdict)] = some.judge([mutation()], 1)
    assert not verdict.is_found
    assert verdict.by == "cannot be made: error ValueError: other free variables"


def test_verdicts_are_kept_and_the_last_one_counts(tmp_path: Path) -> None:
    path, judged = tmp_path / "verdicts.jsonl", mutation()
    assert read(path) == {}
    write(path, judged, Verdict(digest(MODULE), is_found=False, by="", reached=3, altered=1))
    assert survivors(path) == {judged.key}
    last = Verdict(digest(MODULE), is_found=True, by="a test", reached=4, altered=0)
    write(path, judged, last)
    assert read(path) == {(MODULE, digest(MODULE), judged.number): last}
    assert survivors(path) == set()


def is_there(key: str) -> bool:
    """Return whether the function of an explanation still has the text that is changed."""
    place, _, change = key.partition(": ")
    module, _, function = place.partition(" ")
    text = change.partition(": ")[2].partition("  ->  ")[0]
    nodes: list[ast.AST] = [ast.parse(Path(module).read_text())]
    for name in function.split("."):
        inner = [each for node in nodes for each in ast.walk(node)]
        nodes = [each for each in inner if getattr(each, "name", None) == name]
    return any(text in ast.unparse(node) for node in nodes)


def test_what_is_explained_is_there() -> None:
    assert is_there(mutation().key)
    assert not is_there(mutation().key.replace("Blocks", "Bricks"))
    assert [key for key in (*EQUIVALENT, *COSTS_ONLY) if not is_there(key)] == []
