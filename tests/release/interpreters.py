"""The Pythons of this machine that a release is checked with."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
"""The versions that a release has to work with."""

PYENV: Final = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"


def find(version: str) -> Path | None:
    """Return a Python of this version, MAJOR.MINOR, that runs; or None.

    A name in PATH need not be one: pyenv has a name for each version that it knows of, and those
    that are not chosen for this folder only say so.
    """
    return next((path for path in candidates(version) if runs(path, version)), None)


def candidates(version: str) -> Iterable[Path]:
    """Yield paths at which this version may be."""
    for place in os.environ.get("PATH", "").split(os.pathsep):
        if named := shutil.which(f"python{version}", path=place):
            yield Path(named)
    for folder in sorted(PYENV.glob(f"{version}.*"), reverse=True):
        yield folder / "bin" / "python"
    if uv := shutil.which("uv"):
        words = [uv, "python", "find", "--no-python-downloads", version]
        found = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
        if found:
            yield Path(found)


def runs(path: Path, version: str) -> bool:
    """Return whether this is a Python of this version that can make virtual environments."""
    text = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([path, "-c", text], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == version
