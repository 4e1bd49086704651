"""What the README says works when it is pasted."""

import os
import subprocess
import sys
from pathlib import Path

from groupcomm.host.key_file import write_key_file
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.config_file import read_config

README = (Path(__file__).parents[2] / "README.md").read_text()


def block(after: str, begins: str) -> str:
    """The indented block behind some text that begins with a line."""
    lines = README[README.index(after) :].splitlines()
    start = next(at for at, line in enumerate(lines) if line == f"    {begins}")
    taken: list[str] = []
    for line in lines[start:]:
        if line and not line.startswith("    "):
            break
        taken.append(line[4:])
    return "\n".join(taken).strip() + "\n"


def test_the_first_program_prints_its_view_and_its_message(tmp_path: Path) -> None:
    program = block("## A first program", "import trio")
    assert len([line for line in program.splitlines() if line]) <= 12
    path = tmp_path / "first.py"
    path.write_text(program)
    with RunningCluster(1) as daemons:
        environment = {**os.environ, "GROUPCOMM_ADDRESS": daemons.address("a")}
        done = subprocess.run(
            [sys.executable, path],
            env=environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("view of chat after JOIN #u")
    assert "hello to all" in done.stdout


def test_the_configuration_for_two_hosts_is_right(tmp_path: Path) -> None:
    write_key_file(tmp_path / "plant.key")
    path = tmp_path / "plant.toml"
    path.write_text(block("## Two hosts", 'cluster = "plant"'))
    text = path.read_text().replace("plant.key", str(tmp_path / "plant.key"))
    path.write_text(text)
    for name, host in (("press", "10.0.0.1"), ("oven", "10.0.0.2")):
        config = read_config(path, name=name, state_dir=tmp_path / name)
        assert config.addresses[name].host == host
        assert config.core.suite == 1
        assert config.tcp is None
