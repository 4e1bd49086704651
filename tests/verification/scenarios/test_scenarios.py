"""The transcripts of scenarios hold; and errors name mistakes in their texts exactly."""

from pathlib import Path

import pytest

from tests.verification.scenarios import ScenarioError, run_scenario

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.txt"))
DOCS = FOLDER.parents[2] / "docs" / "scenarios.md"


LONG = {
    *("04-thousands-of-holes", "09-merge-under-load", "12-credits-after-churn", "13-memory"),
    *("24-packets-that-never-arrive", "25-more-rings-than-fit"),
}
"""They repeat for many views, daemons or messages, or long silence, what unit tests and
tests/memory show for little."""

PLAYED = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.long] if path.stem in LONG else [])
    for path in FILES
]


@pytest.mark.parametrize("path", PLAYED)
def test_what_is_written_happens_and_no_property_is_violated(path: Path) -> None:
    text = path.read_text()
    outcome = run_scenario(text, path.name)
    assert list(outcome.problems) == []
    assert outcome.text.splitlines() == text.splitlines()


def test_the_documentation_lists_all_of_them() -> None:
    listed = DOCS.read_text()
    assert [path.name for path in FILES if f"`{path.name}`" not in listed] == []


HEAD = "# a test\ndaemons a b c\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("daemons a\n----\n", "x.txt:1: expected a comment that names the subject"),
        ("# no commands\n", "x.txt:1: expected commands, but the file ends"),
        (HEAD, "x.txt:2: expected '----', but the file ends"),
        (HEAD + "\n----\n", "x.txt:3: expected '----' before the empty line"),
        ("# none\nrun 1s\n----\n", "x.txt:2: expected daemons first, as in 'daemons a b c'"),
        ("# gap\ndaemons a c\n----\n", "x.txt:2: expected the next daemon's letter, '|'"),
        (HEAD + "jump a\n----\n", "x.txt:3: expected a command (daemons, show, run, await"),
        (HEAD + "run fast\n----\n", "x.txt:3: expected a time such as 20ms or 2s, not 'fast'"),
        (HEAD + "run\n----\n", "x.txt:3: expected a time such as 20ms or 2s, but the line ends"),
        (HEAD + "run 1s 2s\n----\n", "x.txt:3: expected the end of the line, not '2s'"),
        (HEAD + "crash d\n----\n", "x.txt:3: expected a daemon (a to c), not 'd'"),
        (HEAD + "cut a:b\n----\n", "x.txt:3: expected a path such as a>b, a-b or *>b, not 'a:b'"),
        (HEAD + "lose 2 tokens a>b\n----\n", "x.txt:3: expected any, or of data, unreliable"),
        (HEAD + "lose some token a>b\n----\n", "x.txt:3: expected all, odd, or a number"),
        (HEAD + "connect anna\n----\n", "x.txt:3: expected a user and a daemon, such as anna@a"),
        (HEAD + "send anna room loud: x\n----\n", "x.txt:3: expected unreliable or reliable or"),
        (HEAD + "send anna room safe\n----\n", "x.txt:3: expected ': ' and a text, but the line"),
        (HEAD + "clock a 1d\n----\n", "x.txt:3: expected a time with a sign, such as +1d"),
        (HEAD + "show wounds\n----\n", "x.txt:3: expected views or groups or"),
    ],
)
def test_a_mistake_is_reported_with_its_place_before_any_run(text: str, complaint: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        run_scenario(text, "x.txt")
    assert str(caught.value).startswith(complaint)


def test_what_is_waited_for_in_vain_and_what_cannot_be_done_is_a_problem() -> None:
    outcome = run_scenario(HEAD + "await a b within 50ms\n----\n", "x.txt")
    assert outcome.problems == ("x.txt:3: no view of a b after 50 ms",)
    outcome = run_scenario(HEAD + "crash c\nconnect cleo@c\n----\n", "x.txt")
    assert outcome.problems == ("x.txt:4: c is down",)


def test_rewriting_changes_what_stands_below_the_marks_and_nothing_else() -> None:
    wrong = HEAD + "# crash it\ncrash c\n----\nc: flies\n\n# the end\nrun 1s\n----\n\n# bye\n"
    right = run_scenario(wrong, "x.txt").text
    assert right.splitlines()[:5] == wrong.splitlines()[:5]
    assert "flies" not in right
    assert "c:\n  starts\n  view a b c\n  is killed\n\n# the end\nrun 1s\n----\n" in right
    assert right.endswith("\n\n# bye\n")
    assert run_scenario(right, "x.txt").text == right
