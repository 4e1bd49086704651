"""Builds the site as `make docs` does, or reads all its pages only."""

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def build_site(folder: Path, builder: str = "html") -> Path:
    """Build the site below a folder, and return the folder of its front page.

    Args:
        folder: the folder.
        builder: of Sphinx; ``dummy`` reads all pages and resolves all links, and writes nothing.

    Raises:
        AssertionError: Sphinx has warned of something.
    """
    command = [sys.executable, "-m", "sphinx", "-b", builder, "-q", "--fail-on-warning"]
    command += ["--keep-going", "-d", str(folder / "doctrees"), "docs", str(folder / "html")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"
