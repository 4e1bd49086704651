"""Tests that need a tool of the system run where there is one; the head of the report says so."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from packages.deb import PYTHON
from packages.manuals import write_all

NEEDS: Final = {
    "test_deb.py": ("dpkg-deb", f"/usr/bin/python{PYTHON}"),
    "test_fish.py": ("fish",),
    "test_unit.py": ("systemd-analyze",),
    "test_zsh.py": ("zsh",),
}
MISSING: Final = {
    name: gone
    for name, tools in NEEDS.items()
    if (gone := [tool for tool in tools if shutil.which(tool) is None])
}

collect_ignore = list(MISSING)


def pytest_report_header() -> list[str]:
    """Say which files are left out, and why."""
    folder = Path(__file__).parent.name
    return [
        f"tests/{folder}/{name} left out: {' and '.join(gone)} missing"
        for name, gone in MISSING.items()
    ]


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("share")
    written = write_all(folder)
    assert all(path.stat().st_size > 0 for path in written)
    return folder
