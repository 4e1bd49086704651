"""The draws of the tests are the same each time, whatever ran before them."""

import importlib.util
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st


def draw() -> list[list[int]]:
    """Return the examples of a property."""
    drawn = []

    @given(st.lists(st.integers(), min_size=10))
    def hold(numbers: list[int]) -> None:
        drawn.append(numbers)

    hold()
    return drawn


def test_examples_do_not_depend_on_the_modules_that_are_imported(tmp_path: Path) -> None:
    first = draw()
    path = tmp_path / "constants.py"
    path.write_text(f"NUMBERS = {[10**6 + number for number in range(500)]}\n")
    spec = importlib.util.spec_from_file_location("constants", path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["constants"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    second = draw()
    del sys.modules["constants"]
    assert second == first
