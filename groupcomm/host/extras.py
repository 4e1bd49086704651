"""Extras: the packages to install for a command that needs more than the package itself.

A hint names the packages and not ``groupcomm[extra]``: that works for an installation from a
folder, a wheel or an index alike.
"""

import importlib.util
import re
import shutil
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Final

_MARKER: Final = re.compile(r"""extra\s*==\s*['"](\w+)['"]""")


def requirements(extra: str, requires: Sequence[str] | None = None) -> list[str]:
    """Return the packages of an extra, with their versions.

    Args:
        extra: the name of the extra.
        requires: the requirements of the package, as its metadata lists them; None for the
            installed one.
    """
    known = metadata.requires("groupcomm") or () if requires is None else requires
    parts = (text.partition(";") for text in known)
    return [wanted.strip() for wanted, _, marker in parts if extra in _MARKER.findall(marker)]


def install_hint(extra: str) -> str:
    """Return a command that installs an extra for this Python, which may have no pip of its own."""
    packages = " ".join(f"'{each}'" for each in requirements(extra))
    if importlib.util.find_spec("pip") is not None:
        return f"{sys.executable} -m pip install {packages}"
    if shutil.which("uv") is not None:
        return f"uv pip install --python {sys.executable} {packages}"
    return f"pip --python {sys.executable} install {packages}"
