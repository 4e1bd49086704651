"""The README's blocks work when they are pasted."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.config.config_file import read_config
from tests.groupcomm_tools.shell import finish

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


def test_the_first_program_waits_for_others_and_prints_short_lines(tmp_path: Path) -> None:
    program = block("python", "connection.messages()")
    assert len([line for line in program.splitlines() if line]) <= 12
    path = tmp_path / "first.py"
    path.write_text(program)
    with RunningCluster(1) as daemons:
        environment = {**os.environ, "GROUPCOMM_ADDRESS": daemons.address("a")}
        both = []
        for _ in range(2):
            process = subprocess.Popen(
                [sys.executable, "-u", path],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            both.append(process)
            assert process.stdout is not None
            assert re.fullmatch(r"[12] in chat:( #u\w+#a){1,2}\n", process.stdout.readline())
            assert re.fullmatch(r"#u\w+#a hello to all\n", process.stdout.readline())
        first = both[0]
        assert first.stdout is not None
        assert first.stdout.readline().endswith(" hello to all\n"), "of the second"
        for process in both:
            process.send_signal(signal.SIGINT)
            assert finish(process) == ("", "stopped\n")


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
