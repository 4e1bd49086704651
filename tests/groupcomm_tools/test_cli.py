"""The `groupcomm` command imports the module of a subcommand only when it is run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from groupcomm_tools import commands
from groupcomm_tools.cli import COMMANDS, main, make_parser


def test_every_module_with_an_example_is_a_command() -> None:
    folder = Path(commands.__file__).parent
    named = {path.stem for path in folder.glob("*.py") if "\nEXAMPLE: Final" in path.read_text()}
    assert named == set(COMMANDS)


def test_the_help_lists_all_commands_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = re.findall(r"^  (\w+) {2}", capsys.readouterr().out, re.MULTILINE)
    assert listed == list(COMMANDS)


def test_a_command_that_does_not_exist_is_refused_with_the_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["xyz"]) == 2
    message = capsys.readouterr().err
    assert "there is no 'xyz'" in message
    assert all(name in message for name in COMMANDS)


def test_every_command_has_a_parser_with_its_description() -> None:
    assert make_parser().format_help() == make_parser([]).format_help()


HEAVY = ("asyncio", "pyarrow", "pyspark", "groupcomm.sim", "groupcomm_lessons")
"""No small command needs any of them."""

OFFLINE = ("keygen", "certs", "tokens", "identity", "keys")
OF_SESSIONS = ("pub", "sub", "watch", "status", "groups", "members", "latency", "top")


def imported_by(*names: str) -> set[str]:
    """Return the modules that a new process has imported for the parsers of these commands."""
    code = (
        "import sys; from groupcomm_tools.cli import make_parser\n"
        f"make_parser({names!r}); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_commands_without_a_session_import_no_event_loop() -> None:
    assert not imported_by(*OFFLINE).intersection((*HEAVY, "trio"))


def test_commands_of_one_session_import_no_event_loop_no_daemon_and_no_cryptography() -> None:
    found = imported_by(*OF_SESSIONS)
    assert not found.intersection((*HEAVY, "trio", "groupcommd", "cryptography"))


def test_the_help_imports_no_command() -> None:
    assert not {name for name in imported_by() if name.startswith("groupcomm_tools.commands.")}


@pytest.mark.parametrize("lack", [MemoryError(), RuntimeError("can't start new thread")])
def test_a_command_without_memory_or_threads_says_what_to_allow_it(
    lack: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_: object) -> int:
        raise lack

    monkeypatch.setattr("groupcomm_tools.commands.keygen.run", run)
    assert main(["keygen", "x"]) == 1
    assert capsys.readouterr().err.startswith("groupcomm: out of memory: the command ends; allow")
