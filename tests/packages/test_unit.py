"""The units of systemd, checked by systemd itself."""

import subprocess
from pathlib import Path

import pytest

from groupcomm_tools.cli import make_parser
from tests.packages.test_service import UNIT

ARCHIVE_UNIT = UNIT.with_name("groupcomm-archive@.service")


def test_the_archive_understands_how_it_is_started() -> None:
    (line,) = (each for each in ARCHIVE_UNIT.read_text().splitlines() if "ExecStart=" in each)
    command, *words = line.partition("=")[2].replace("%i", "plant").split()
    assert command == "/usr/bin/groupcomm"
    given = {"$GROUPS": ["orders", "plant.*"], "$OPTIONS": ["--keep-s", "604800"]}
    options = make_parser().parse_args([one for word in words for one in given.get(word, [word])])
    assert (options.groups, str(options.store)) == (
        [("orders",), ("plant.*",)],
        "/var/lib/groupcomm-archive/plant",
    )


@pytest.mark.parametrize("unit", [UNIT, ARCHIVE_UNIT], ids=lambda unit: str(unit.name))
def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path, unit: Path) -> None:
    copy = tmp_path / unit.name.replace("@", "@alfa")
    text = unit.read_text().replace("/usr/bin/groupcommd", "/bin/true")  # none is installed there
    copy.write_text(text.replace("/usr/bin/groupcomm", "/bin/true"))
    verdict = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (verdict.returncode, verdict.stdout, verdict.stderr) == (0, "", "")
