"""A release: one version, interpreters that run, steps that tell what they saw."""

import json
import re
import stat
from pathlib import Path
from runpy import run_path

import pytest

from tests.release import interpreters
from tests.release.check import NotChecked, Release, Step, StepFailed, run
from tests.release.versions import disagreements, pythons, version
from tests.test_lock import PYTHONS as LOCKED

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


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


# ---- the service that builds it ----


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_is_pinned_with_the_rights_that_it_names(path: Path) -> None:
    text = path.read_text()
    used = re.findall(r"uses: (\S+)(.*)", text)
    assert used
    for action, release in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", release), action
    assert re.search(r"^permissions:\n  contents: read\n", text, re.MULTILINE)
    assert not re.search(r"run:.*\$\{\{", text), "what others may write is no part of a command"
    for target in re.findall(r"run: make (\S+)", text):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target


def test_the_bill_of_a_release_has_each_package_with_the_hashes_of_its_files() -> None:
    bill = json.loads(json.dumps(run_path(str(ROOT / ".ci/sbom.py"))["bill"](["base", "tools"])))
    assert bill["metadata"]["component"]["version"] == version()
    text = "".join((ROOT / ".ci/lock" / f"{name}.txt").read_text() for name in ("base", "tools"))
    parts = {each["name"]: each for each in bill["components"]}
    assert parts.keys() == set(re.findall(r"^([\w-]+)==", text, re.MULTILINE)) > {"trio", "rich"}
    digests = [
        each["hashes"][0]["content"]
        for part in parts.values()
        for each in part["externalReferences"]
    ]
    assert digests == re.findall("sha256:([0-9a-f]{64})", text)


def test_addresses_of_the_project_are_those_of_the_repository_that_builds_it() -> None:
    urls = run_path(str(ROOT / ".ci/readme.py"))["urls"]
    assert urls({}) == {}
    service = {"GITHUB_SERVER_URL": "https://example.org", "GITHUB_REPOSITORY": "plant/groupcomm"}
    found = urls(service)
    assert found["Source"] == "https://example.org/plant/groupcomm"
    for address in found.values():
        _, blob, path = address.partition("/blob/main/")
        assert not blob or (ROOT / path).exists()
