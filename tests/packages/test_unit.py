"""The unit of systemd, checked by systemd itself."""

import subprocess
from pathlib import Path

from tests.packages.test_service import UNIT


def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    copy = tmp_path / "groupcommd@alfa.service"
    text = UNIT.read_text().replace("/usr/bin/groupcommd", "/bin/true")  # none is installed there
    copy.write_text(text)
    verdict = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (verdict.returncode, verdict.stdout, verdict.stderr) == (0, "", "")
