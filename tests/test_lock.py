"""The packages that `make` installs: their files have known hashes, and there are no others."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parent.parent
LOCK: Final = ROOT / ".ci" / "lock"
PYTHONS: Final = ("3.11", "3.12", "3.13")
TARGETS: Final = {  # the argument of .ci/venv: the files of the lock
    "": "build base",
    "tools": "build base tools",
    "spark": "build base tools spark",
    "test": "build base tools spark test",
    "test,java": "build base tools spark test java",
    "test,fuzz": "build base tools spark test fuzz",
    "test,package": "build base tools spark test package",
    "test,peers": "build base tools spark test peers",
}


@attrs.frozen
class Locked:
    """A package of the lock."""

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        (pin,) = self.requirement.specifier
        assert pin.operator == "=="
        return pin.version

    def is_for(self, python: str) -> bool:
        marker = self.requirement.marker
        return marker is None or marker.evaluate(environment(python))


def environment(python: str) -> dict[str, str]:
    here: dict[str, Any] = dict(default_environment())
    return {**here, "python_version": python, "python_full_version": f"{python}.9"}


def read(*names: str) -> list[Locked]:
    found = []
    for name in names:
        text = (LOCK / f"{name}.txt").read_text().replace("\\\n", " ")
        for line in text.splitlines():
            if not line.startswith("#"):
                requirement, *hashes = re.split(r"\s+--hash=", line.strip())
                found.append(Locked(Requirement(requirement), tuple(hashes)))
    return found


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def wanted(target: str) -> list[Requirement]:
    """Return the requirements of pyproject.toml, extras of extras too."""
    found = project()["project"]["dependencies"] + project()["build-system"]["requires"]
    extras = target.split(",") if target else []
    while extras:
        for text in project()["project"]["optional-dependencies"][extras.pop()]:
            more = Requirement(text)
            if more.name == "groupcomm":
                extras += more.extras
            else:
                found.append(text)
    return [Requirement(text) for text in found]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("target", TARGETS)
def test_the_lock_has_one_release_of_all_that_is_asked_for(target: str, python: str) -> None:
    here = [each for each in read(*TARGETS[target].split()) if each.is_for(python)]
    versions = {each.name: each.version for each in here}
    assert len(versions) == len(here), "no package twice"
    for each in wanted(target):
        if each.marker is None or each.marker.evaluate(environment(python)):
            assert each.specifier.contains(versions[canonicalize_name(each.name)]), str(each)


def test_the_lock_has_what_each_package_asks_for() -> None:
    """They are installed without looking at that again; of those that are installed here."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = {each.name for each in read(*TARGETS["test"].split())}
    looked_at = 0
    for name in sorted(names):
        try:
            texts = requires(name) or []
        except PackageNotFoundError:
            continue
        looked_at += 1
        for each in map(Requirement, texts):
            marker = each.marker
            if marker is None or marker.evaluate({**environment(here), "extra": ""}):
                assert canonicalize_name(each.name) in names, f"{name} needs {each}"
    assert looked_at > 20


def test_each_file_is_known_by_its_hash_and_no_registry_is_named() -> None:
    names = [path.stem for path in sorted(LOCK.iterdir())]
    assert set(names) == {
        "build",
        "base",
        "tools",
        "spark",
        "test",
        "java",
        "fuzz",
        "peers",
        "package",
        "uv",
    }
    for each in read(*names):
        assert each.hashes, each.name
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", text) for text in each.hashes), each.name
        assert each.requirement.url is None
    assert not [path for path in LOCK.iterdir() if re.search("://|--[^h]", path.read_text())]


def test_no_release_with_a_known_hole_is_allowed() -> None:
    """CVE-2026-39892: cryptography 45.0.0 to 46.0.6."""
    asked = next(each for each in wanted("") if each.name == "cryptography")
    assert not [v for v in ("43.0.0", "45.0.0", "46.0.6") if asked.specifier.contains(v)]
    assert asked.specifier.contains("46.0.7")


def test_the_releases_of_python_are_said_everywhere() -> None:
    classifiers = project()["project"]["classifiers"]
    found = [text.rpartition(" ")[2] for text in classifiers if re.search(r":: 3\.\d+$", text)]
    assert tuple(found) == PYTHONS
    said = f"Python {', '.join(PYTHONS[:-1])} or {PYTHONS[-1]}"
    assert said in (ROOT / "README.md").read_text()


# ---- the script that installs ----

UV: Final = """#!/bin/sh
echo "$@" >> calls
[ "$1" = venv ] || exit 0
mkdir -p .venv/bin
echo "#!/bin/sh" > .venv/bin/python
chmod +x .venv/bin/python
"""


def installs(folder: Path, target: str, **environment: str) -> tuple[list[str], str]:
    """Run .ci/venv with an uv that does nothing; return its arguments, and the output."""
    (folder / "bin").mkdir()
    (folder / "bin" / "uv").write_text(UV)
    (folder / "bin" / "uv").chmod(0o755)
    (folder / ".ci").mkdir()
    (folder / ".ci" / "venv").write_text((ROOT / ".ci" / "venv").read_text())
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", str(folder / ".ci" / "venv"), target],
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    calls = (folder / "calls").read_text().splitlines()
    return [call for call in calls if "install" in call], done.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_installed_whose_hash_is_not_known(target: str, tmp_path: Path) -> None:
    *packages, own = installs(tmp_path, target)[0]
    assert own.endswith("--no-deps --no-build-isolation --editable .")
    files = []
    for call in packages:
        assert "--require-hashes --no-deps" in call
        files += re.findall(r"--requirement \.ci/lock/(\w+)\.txt", call)
        isolated = "--no-build-isolation" not in call
        assert not isolated or files == ["build"], "what is built needs nothing else"
    assert files == TARGETS[target].split()


def test_who_wants_other_releases_learns_what_that_means(tmp_path: Path) -> None:
    calls, said = installs(tmp_path, "test", LOCK="no")
    assert len(calls) == 1
    assert calls[0].endswith("--editable .[test]")
    assert "their hashes not looked at" in said
