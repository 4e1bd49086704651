"""Everything that docs/sources.md names runs."""

import importlib
import importlib.util
import re

import pytest

from examples.ordering.answers.sheets import ANSWERS
from examples.ordering.book import DOCS
from examples.ordering.chapter import STORIES
from groupcomm_lessons.algorithms.catalogue import ALGORITHMS
from groupcomm_lessons.comparison import ComparisonLoad, compare
from groupcomm_tools.cli import main as groupcomm

TEXT = (DOCS / "sources.md").read_text()
ENTRIES = sorted(set(re.findall(r"(story|answer|algorithm|module) `([^`]+)`", TEXT)))

COMMANDS = sorted(set(re.findall(r"`((?:python -m|groupcomm) [^`A-Z]+)`", TEXT)))


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
            assert importlib.import_module(f"groupcomm_lessons.algorithms.{name}").__doc__
        case _:
            raise AssertionError(f"no entry is called {kind}")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_what_it_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command without options is asked only for its help: a run takes daemons, and minutes."""
    program, _, rest = command.removeprefix("python -m ").partition(" ")
    arguments = rest.split()
    if command.startswith("groupcomm"):
        main = groupcomm
    else:
        folder = importlib.util.find_spec(program)
        assert folder is not None
        packed = folder.submodule_search_locations is not None
        main = importlib.import_module(f"{program}.__main__" if packed else program).main
    if not any(argument.startswith("--") for argument in arguments):
        arguments.append("--help")
    try:
        status: object = main(arguments)
    except SystemExit as end:
        status = end.code
    assert status == 0
    assert len(capsys.readouterr().out) > 100


def test_nothing_is_left_out() -> None:
    """All have a source but plain fan-out and exercises that ask for new algorithms."""
    named = {kind: {name for each, name in ENTRIES if each == kind} for kind, _ in ENTRIES}
    assert set(STORIES) - named["story"] == {"effect-first", "two-orders"}
    assert set(ALGORITHMS) - named["algorithm"] == {"fan-out"}
    assert set(ANSWERS) - named["answer"] == {"1.1", "1.2", "2.4", "2.5"}


def test_its_links_lead_somewhere() -> None:
    for page in re.findall(r"\]\(([a-z-]+\.md)[#)]", TEXT):
        assert (DOCS / page).exists()
