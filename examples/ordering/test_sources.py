"""Everything that docs/sources.md names runs."""

import importlib
import re

import pytest

from examples.ordering.answers.sheets import ANSWERS
from examples.ordering.book import DOCS
from examples.ordering.chapter import STORIES
from groupcomm.algorithms.catalogue import ALGORITHMS
from groupcomm.sim.comparison import ComparisonLoad, compare

TEXT = (DOCS / "sources.md").read_text()
ENTRIES = sorted(set(re.findall(r"(story|answer|algorithm|module) `([^`]+)`", TEXT)))


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_an_entry_runs(kind: str, name: str) -> None:
    match kind:
        case "story":
            assert list(STORIES[name].run().events)
        case "answer":
            assert list(ANSWERS[name].tell())
        case "algorithm":
            (row,) = compare([ALGORITHMS[name]], ComparisonLoad(processes=3, messages=20))
            assert not row.is_wrong
        case "module":
            assert importlib.import_module(f"groupcomm.algorithms.{name}").__doc__


def test_nothing_is_left_out() -> None:
    """All have a source but plain fan-out and exercises that ask for new algorithms."""
    named = {kind: {name for each, name in ENTRIES if each == kind} for kind, _ in ENTRIES}
    assert set(STORIES) - named["story"] == {"effect-first", "two-orders"}
    assert set(ALGORITHMS) - named["algorithm"] == {"fan-out"}
    assert set(ANSWERS) - named["answer"] == {"1.1", "1.2", "2.4", "2.5"}


def test_its_links_lead_somewhere() -> None:
    for page in re.findall(r"\]\(([a-z-]+\.md)\)", TEXT):
        assert (DOCS / page).exists()
