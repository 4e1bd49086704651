"""A release: one version, interpreters that run, steps that tell what they saw."""

import stat
from pathlib import Path

import pytest

from tests.release import interpreters
from tests.release.check import NotChecked, Release, Step, StepFailed, run
from tests.release.versions import disagreements, pythons, version
from tests.test_lock import PYTHONS as LOCKED

ROOT = Path(__file__).resolve().parents[2]


def test_one_version_everywhere() -> None:
    assert disagreements() == []


def test_each_place_that_has_another_version_is_named(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "CITATION.cff").write_text('version: "0.0.1"\n')
    (tmp_path / "docs" / "changes.md").write_text("# Changes\n\n## 0.0.2\n")
    assert disagreements(tmp_path) == [
        f"CITATION.cff has version 0.0.1, not {version()}",
        f"docs/changes.md begins with 0.0.2, not {version()}",
    ]


def test_the_package_is_for_the_pythons_that_the_lock_is_checked_for() -> None:
    assert pythons() == list(LOCKED)
    assert set(pythons()) <= set(interpreters.PYTHONS)


def test_a_name_that_only_says_where_a_python_is_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = tmp_path / "python3.11"
    shim.write_text("#!/bin/sh\necho 'python3.11: command not found' >&2\nexit 127\n")
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(interpreters, "PYENV", tmp_path)
    assert list(interpreters.candidates("3.11")) == [shim]
    assert interpreters.find("3.11") is None


def test_a_step_that_fails_does_not_hide_the_next_ones(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> str:
        raise StepFailed("status 1")

    def lack() -> str:
        raise NotChecked("there is no Python 3.99 on this machine")

    results = run(
        [Step("a", "one", fail), Step("a", "two", lack), Step("a", "three", lambda: "3 files")]
    )
    assert [(each.state, each.text) for each in results] == [
        ("failed", "status 1"),
        ("not checked", "there is no Python 3.99 on this machine"),
        ("passed", "3 files"),
    ]
    assert "[3/3] three ... passed" in capsys.readouterr().err


def test_without_a_clean_tree_nothing_else_is_checked() -> None:
    def fail() -> str:
        raise StepFailed("not committed")

    results = run([Step("tree", "everything is committed", fail), Step("docs", "make docs", fail)])
    assert [each.name for each in results] == ["everything is committed"]


def test_a_python_that_is_not_there_is_not_checked(tmp_path: Path) -> None:
    with pytest.raises(NotChecked, match=r"no Python 3\.99"):
        Release(tmp_path).try_on("3.99")
