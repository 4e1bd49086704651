"""Another user of this host, as whom tests run programs."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

NOBODY: Final = 65534

_BECOME: Final = (
    "import os, pathlib, socket, sys\n"
    f"os.setgroups([]); os.setresgid({NOBODY}, {NOBODY}, {NOBODY})\n"
    f"os.setresuid({NOBODY}, {NOBODY}, {NOBODY})\n"
)


def can_be_nobody() -> bool:
    """Tell whether programs can be run as nobody; say so where they cannot."""
    if os.geteuid() != 0:
        print("left out: only root can be another user")
        return False
    return True


def as_nobody(script: str, *arguments: str | Path) -> str:
    """Run a script of Python as nobody; return its output.

    It has the modules os, pathlib, socket and sys, and may be unable to import others.
    """
    command = [sys.executable, "-I", "-c", _BECOME + script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert not done.returncode, done.stderr
    return done.stdout.strip()


@contextmanager
def open_folder() -> Iterator[Path]:
    """Make a folder that others can reach, unlike those that pytest makes."""
    with tempfile.TemporaryDirectory(prefix="groupcomm-") as text:
        folder = Path(text)
        folder.chmod(0o711)
        yield folder
