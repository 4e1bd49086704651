"""Known bugs are found by exploration alone; the campaign `exploration --bugs` hunts all."""

from pathlib import Path

import pytest

from tests.verification.campaigns.exploration import HUNTS, hunt
from tests.verification.explore.script import read_path
from tests.verification.mutants.catalogue import MUTANTS, find_mutant

pytestmark = pytest.mark.verification

FOUND_AT_ONCE = (
    "ghost-in-group",
    "held-far-unheard",
    "once-per-group",
    "ties-by-arrival",
    "undeliverable-when-taken",
    "unsubscribed-while-a-join-is-under-way",
)
MOST_STATES = 300


def test_each_bug_that_is_hunted_exists() -> None:
    assert HUNTS.keys() <= {bug.name for bug in MUTANTS}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] * (at > 2)) for at, n in enumerate(FOUND_AT_ONCE)],
)
def test_a_known_bug_is_found_and_its_path_replays(name: str, tmp_path: Path) -> None:
    assert hunt(name, MOST_STATES, tmp_path)["found"]
    text = (tmp_path / f"{name}.txt").read_text()
    assert text.startswith(f"# {name}: ")
    with find_mutant(name).active():
        assert list(read_path(text).replay())


def test_a_method_that_was_replaced_is_still_the_same_in_a_copy(tmp_path: Path) -> None:
    """Its function has another name than its attribute: the copy looked for it by that name."""
    row = hunt("delivery-before-announcements", 5, tmp_path)
    assert row["tried"]
