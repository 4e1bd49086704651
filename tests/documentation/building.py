"""Builds the site as `make docs` does."""

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def build_site(folder: Path) -> Path:
    """Build the site below a folder, and return the folder of its front page.

    Raises:
        AssertionError: Sphinx has warned of something.
    """
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "--fail-on-warning"]
    command += ["--keep-going", "-d", str(folder / "doctrees"), "docs", str(folder / "html")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"
