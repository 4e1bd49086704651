"""Functions that are loaded get other code, and note the statements that they run."""

from collections.abc import Iterator
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from groupcomm.engine.protection import IdentityProtection
from groupcomm.order import chain, horizons
from tests.verification.mutation_testing.operators import count_of, mutate
from tests.verification.mutation_testing.patching import LoadedFunctions

pytestmark = pytest.mark.verification

HORIZONS, CHAIN = "groupcomm/order/horizons.py", "groupcomm/order/chain.py"
PROTECTION = "groupcomm/engine/protection.py"


@pytest.fixture
def functions() -> Iterator[LoadedFunctions]:
    """Yield the functions of some modules, which get their own code back."""
    loaded = LoadedFunctions([HORIZONS, CHAIN, PROTECTION])
    yield loaded
    for module in (HORIZONS, CHAIN, PROTECTION):
        loaded.replace(module, mutate(module, Path(module).read_text(), -1)[1])


def number_of(module: str, function: str, operator: str) -> int:
    """Return the number of the first mutation of a function by an operator."""
    source = Path(module).read_text()
    for number in range(count_of(source)):
        mutation, _ = mutate(module, source, number)
        if (mutation.function, mutation.operator) == (function, operator):
            return number
    raise AssertionError(f"no {operator} in {function}")


def test_a_bound_method_has_the_code_of_the_mutation(functions: LoadedFunctions) -> None:
    raise_to = horizons.Frontiers(1, clock=0).raise_to
    assert not raise_to(0, 0)
    number = number_of(HORIZONS, "Frontiers.raise_to", "comparison")
    functions.replace(HORIZONS, mutate(HORIZONS, Path(HORIZONS).read_text(), number)[1])
    assert raise_to(0, 0), "a value that is no higher is taken for higher"


def test_statements_that_are_run_are_noted_and_others_are_not(functions: LoadedFunctions) -> None:
    hits = functions.watch(HORIZONS)
    frontiers = horizons.Frontiers(1, clock=0)
    lines = Path(HORIZONS).read_text().splitlines()
    raised = next(n for n, line in enumerate(lines, 1) if "def raise_to" in line) + 5
    frontiers.raise_to(0, 0)
    assert (lines[raised - 1].strip(), hits[raised], hits[raised - 1]) == (
        "self.values[ring] = value",
        0,
        1,
    )
    frontiers.raise_to(0, 1)
    assert hits[raised] == 1


def test_what_is_noted_does_not_change_results(functions: LoadedFunctions) -> None:
    functions.watch(CHAIN)
    made = chain.Chain(3, 7)
    assert (made.daemon, made.last, made.full) == (3, 7, 0)


def test_a_call_of_the_class_above_can_be_dropped(functions: LoadedFunctions) -> None:
    """Without any ``super()`` left such a function could not be replaced."""
    source = Path(PROTECTION).read_text()
    mutated = (mutate(PROTECTION, source, number) for number in range(count_of(source)))
    found = next(text for place, text in mutated if place.text == "super().begin_step(now)")
    functions.replace(PROTECTION, found)
    idle = SimpleNamespace(due=inf, next_at=inf)
    some = SimpleNamespace(_sealer=idle, _exchange=idle, _erase_at=inf, now=0.0)
    IdentityProtection.begin_step(cast(IdentityProtection, some), 5.0)
    assert some.now == 0.0, "the class above would have set it"
