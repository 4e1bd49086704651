"""The Debian packages: their contents run on the system's own Python."""

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from packages.deb import HOME, PYTHON, build


def shown(*words: str | Path) -> str:
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def errors(*words: str | Path) -> str:
    return subprocess.run(words, check=False, stderr=subprocess.PIPE, text=True).stderr


@pytest.mark.long
def test_it_brings_all_it_needs_and_runs(tmp_path: Path) -> None:
    package, archive = build(tmp_path)
    assert shown("dpkg-deb", "--field", package, "Version") == f"{version('groupcomm')}-1\n"
    names = shown("dpkg-deb", "--contents", package)
    for name in (
        "./lib/systemd/system/groupcommd@.service",
        "./usr/share/man/man8/groupcommd.8.gz",
        "./usr/share/fish/vendor_completions.d/groupcomm.fish",
        "./etc/groupcomm/cluster.toml",
    ):
        assert name in names
    assert "tests" not in {part for line in names.splitlines() for part in line.split("/")}
    of_archive = shown("dpkg-deb", "--contents", archive)
    assert "./lib/systemd/system/groupcomm-archive@.service" in of_archive
    root = tmp_path / "root"
    shown("dpkg-deb", "--extract", package, root)
    library = root / "usr/lib/python3/dist-packages"
    for path in library.iterdir():  # as if it were installed
        path.write_text(path.read_text().replace(f"/{HOME}/", f"{root / HOME}/"))
    program = (
        f"import sys; sys.path.insert(0, '{library}')\n"
        "import groupcomm_client.aio, groupcomm_tools.cli, groupcomm.level\n"
        "import groupcomm_client as gc; print(gc.ServiceLevel.SAFE.name, gc.connect.__module__)"
    )
    said = shown(f"/usr/bin/python{PYTHON}", "-I", "-c", program)
    assert said == "SAFE groupcomm_client.trio_loop\n"
    python, home = root / HOME / "bin/python3", root / HOME / "bin"
    assert f"groupcomm {version('groupcomm')}" in shown(
        python, "-I", home / "groupcomm", "--version"
    )
    checks: list[str | Path] = [python, "-I", home / "groupcomm", "log", "check", tmp_path]
    assert "pyarrow is missing" in errors(*checks)
    shown("dpkg-deb", "--extract", archive, root)
    assert "there is no log" in errors(*checks)
    shown(python, "-I", "-c", "import rich, groupcomm_tools.top.draw")
    config = root / "etc/groupcomm/cluster.toml"
    key = shown(python, "-I", home / "groupcomm", "keygen", tmp_path / "key")
    text = config.read_text().replace("/var/lib/groupcomm/plant.key", str(tmp_path / "key"))
    config.write_text(text)
    checked = shown(
        *(python, "-I", home / "groupcommd", "--check", "--name", "alfa", "--config", config)
    )
    assert '"alfa"' in checked, key
