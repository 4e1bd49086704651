"""No package grows without a commit that says so; tests/budget.py has the rules."""

from pathlib import Path

import pytest

from tests import budget
from tests.budget import lines_of_packages, over, package_of, read_budget, spare


def test_no_package_is_larger_than_its_budget() -> None:
    told = "; if it has to be, raise its number in tests/budget.toml and say why in the commit"
    assert not over(lines_of_packages(), read_budget()), told


def test_a_package_that_has_shrunk_has_a_smaller_budget() -> None:
    assert not spare(lines_of_packages(), read_budget()), "python -m tests.budget --write"


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("groupcomm/ring/ring.py", "groupcomm/ring"),
        ("groupcomm/level.py", "groupcomm"),
        ("daemon/groupcommd/http/page.py", "daemon/groupcommd"),
        ("tests/verification/soak/soak.py", "tests/verification/soak"),
        ("tests/groupcomm/ring/test_ring.py", "tests/groupcomm"),
        ("examples/chat/chat.py", "examples"),
        ("docs/protocol/ring.md", "docs"),
        ("docs/conf.py", "docs"),
        ("README.md", "docs"),
        ("examples/chat/README.md", None),
        ("Makefile", None),
    ],
)
def test_a_file_belongs_to_a_package(path: str, package: str | None) -> None:
    assert package_of(Path(path)) == package


def test_more_lines_than_allowed_and_packages_without_a_budget_are_named() -> None:
    assert over({"a": 11, "b": 5, "c": 1}, {"a": 10, "b": 5}) == [
        "a has 11 lines, and may have 10",
        "c has 1 lines, and may have 0",
    ]
    assert spare({"a": 900, "b": 4990}, {"a": 1000, "b": 5000, "gone": 1}) == [
        "a has 900 lines: lower its budget of 1000",
        "gone has 0 lines: lower its budget of 1",
    ]


def test_what_there_is_can_be_made_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(budget, "FILE", tmp_path / "budget.toml")
    assert budget.main(["--write"]) == 0
    assert read_budget() == lines_of_packages()
    assert budget.main([]) == 0
    assert " groupcomm/ring\n" in capsys.readouterr().out
