"""The operators of mutation testing: each changes one place, and nothing else."""

import ast
from pathlib import Path

import pytest

from tests.verification.mutation_testing.__main__ import modules_of
from tests.verification.mutation_testing.operators import count_of, mutate

pytestmark = pytest.mark.verification

SOURCE = '''
LIMIT = 3

def f(a: int = 1) -> bool:
    """A text with 1 < 2."""
    assert a > 0
    g.x = a
    if not a < 5 and g:
        return max(a, 2) == a + 1
    for each in [b for b in g if b]:
        each.go()
    assert_all(a)
    zip(a, g, strict=True)
    raise ValueError(f"{a + 1} is wrong")

def assert_all(a: int) -> None:
    assert_other(a + 1)
    g(a + 1)
'''


def mutated() -> list[tuple[str, str]]:
    """Return operator and text of all mutations of the example."""
    found = []
    for number in range(count_of(SOURCE)):
        mutation, tree = mutate("m.py", SOURCE, number)
        compile(tree, "m.py", "exec")
        assert ast.unparse(tree) != ast.unparse(ast.parse(SOURCE))
        found.append((mutation.operator, mutation.text))
    return found


def test_each_place_is_changed_once() -> None:
    assert mutated() == [
        ("assignment dropped", "g.x = a"),
        ("condition negated", "not a < 5 and g"),
        ("and, or", "not a < 5 and g  ->  not a < 5 or g"),
        ("not", "not a < 5  ->  not not a < 5"),
        ("comparison", "a < 5  ->  a <= 5"),
        ("constant", "5  ->  6"),
        ("comparison", "max(a, 2) == a + 1  ->  max(a, 2) != a + 1"),
        ("min, max, any, all", "max(a, 2)  ->  min(a, 2)"),
        ("constant", "2  ->  3"),
        ("arithmetic", "a + 1  ->  a - 1"),
        ("constant", "1  ->  2"),
        ("statement dropped", "each.go()"),
        ("statement dropped", "zip(a, g, strict=True)"),
    ]


def test_no_change_is_no_change() -> None:
    _, tree = mutate("m.py", SOURCE, -1)
    assert ast.unparse(tree) == ast.unparse(ast.parse(SOURCE))


@pytest.mark.parametrize("module", modules_of(["groupcomm/order"]))
def test_modules_of_the_protocol_can_be_mutated(module: str) -> None:
    source = Path(module).read_text()
    assert count_of(source) > 5
    mutation, tree = mutate(module, source, count_of(source) - 1)
    assert str(mutation).startswith(f"{module}:{mutation.line} ")
    assert ast.unparse(tree) != ast.unparse(ast.parse(source))
