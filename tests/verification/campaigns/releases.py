"""Earlier releases, built from the history of this repository, in environments of their own.

A release is a file in tests/releases that names a commit. Its wheel is built in a temporary folder
from `git archive`, and unpacked into a virtual environment whose other packages are those of this
one, which the lock has named.
"""

import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).parents[3]
RELEASES: Final = ROOT / "tests" / "releases"

_DAEMON: Final = (
    "import runpy, sys; sys.argv[1:4] = []; runpy.run_module('groupcommd', run_name='__main__')"
)
"""Runs a daemon of the environment, whatever Python the rest of the command line names."""


class HistoryMissing(Exception):
    """The commit is not here, as in a shallow clone; the text says how to get it."""


@attrs.frozen(kw_only=True)
class Release:
    """A release whose daemons and programs can be started.

    Attributes:
        name: its name.
        python: its Python.
        highest: the highest version of the protocol that it speaks.
        prefix: begins the command line of a daemon (`LocalDaemon`); empty for this release.
    """

    name: str
    python: str
    highest: int
    prefix: Sequence[str] = ()


def earlier_release(name: str, folder: Path) -> Release:
    """Build a release, and install it into a virtual environment.

    Args:
        name: the name of its file in tests/releases.
        folder: an empty folder for it.

    Raises:
        HistoryMissing: this is no clone of the repository, or a shallow one.
    """
    found = tomllib.loads((RELEASES / f"{name}.toml").read_text())
    source, wheels, environment = folder / "source", folder / "wheels", folder / "venv"
    _unpack_commit(found["commit"], source)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = wheels.glob("*.whl")
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    ask = [str(python), "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # Files of this folder that name others, as that of the editable release, do not count there.
    (packages / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Release(
        name=name,
        python=str(python),
        highest=found["highest"],
        prefix=(str(python), "-I", "-c", _DAEMON),
    )


def _unpack_commit(commit: str, folder: Path) -> None:
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=False
    )
    if done.returncode:
        raise HistoryMissing(
            f"commit {commit[:12]} is not in this clone ({done.stderr.decode().strip()}): get it"
            " with: git fetch --unshallow"
        )
    folder.mkdir(exist_ok=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=done.stdout, check=True)
