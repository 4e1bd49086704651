"""What the README says beside what tests/documentation runs of it."""

import re
import subprocess
import sys
from pathlib import Path

from groupcommd.config.config_file import read_config

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def block(language: str, holds: str) -> str:
    """The only block in a language that holds a text."""
    (found,) = [str(text) for name, text in BLOCKS if name == language and holds in text]
    return found


def test_all_blocks_are_fenced_and_name_their_language() -> None:
    assert {name for name, _ in BLOCKS} == {"sh", "python", "text"}
    fenced = "".join(text for _, text in BLOCKS)
    indented = [line for line in README.splitlines() if line.startswith("    ")]
    assert all(line in fenced for line in indented)


def test_the_first_program_is_short() -> None:
    program = block("python", "connection.messages()")
    assert len([line for line in program.splitlines() if line]) <= 12


def test_the_block_for_two_hosts_can_be_pasted(tmp_path: Path) -> None:
    text = block("sh", "cat > plant.toml").replace(
        ".venv/bin/groupcomm", f"{sys.executable} -m groupcomm_tools.cli"
    )
    subprocess.run(["bash", "-ec", text], cwd=tmp_path, check=True, capture_output=True)
    for name, host in (("press", "10.0.0.1"), ("oven", "10.0.0.2")):
        config = read_config(tmp_path / "plant.toml", name=name, state_dir=tmp_path / name)
        assert config.addresses[name].host == host
        assert config.core.suite == 1
        assert config.tcp is None


def test_no_secret_and_no_output_of_these_commands_is_given_to_git(tmp_path: Path) -> None:
    written = ("plant.key", "plant.toml", "first.py", "t.jsonl", "t.html", "press.identity")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    for name in written:
        (tmp_path / name).touch()
    done = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["??", ".gitignore"]


def test_the_table_has_all_examples_and_their_pages_say_how_to_call_python() -> None:
    for page in sorted((ROOT / "examples").glob("*/README.md")):
        assert f"examples/{page.parent.name}/README.md" in README
        for line in page.read_text().splitlines():
            if re.match(r"(\S*/)?(python|groupcomm) ", line):
                assert line.startswith(".venv/bin/"), f"{page}: {line}"
