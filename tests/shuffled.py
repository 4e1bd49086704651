"""A plugin of pytest: the tests in a random order. ``pytest -p tests.shuffled --order-seed 7``."""

from random import Random

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the seed."""
    parser.addoption("--order-seed", type=int, default=0, help="of the order of tests (0)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the files, and the tests of each: what shares a setup stays together."""
    rng = Random(config.getoption("order_seed"))
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    groups = list(files.values())
    rng.shuffle(groups)
    for group in groups:
        rng.shuffle(group)
    items[:] = [item for group in groups for item in group]
