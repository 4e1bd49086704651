"""Manual pages and completions: complete, and accepted by the shells themselves."""

import subprocess
from pathlib import Path

import pytest

from groupcomm_tools.cli import COMMANDS


def test_the_manual_page_has_every_command_and_its_example(share: Path) -> None:
    page = (share / "man/man1/groupcomm.1").read_text().replace("\\-", "-")
    for name in COMMANDS:
        assert f"groupcomm {name}" in page
    assert "groupcomm keygen plant.key" in page


def test_the_daemon_has_a_page_for_administrators(share: Path) -> None:
    page = (share / "man/man8/groupcommd.8").read_text().replace("\\-", "-")
    assert '"8"' in page.splitlines()[0]
    for option in ("--config", "--state-dir", "--check", "--json-log"):
        assert option in page


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["groupcomm", "sta"], {"status"}),
        (["groupcomm", "status", "--js"], {"--json"}),
        (["groupcommd", "--state"], {"--state-dir"}),
    ],
)
def test_bash_completes(share: Path, words: list[str], expected: set[str]) -> None:
    name = words[0]
    script = (
        f"source {share}/bash-completion/completions/{name}\n"
        f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}\n"
        f"function=$(complete -p {name} | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
        f"$function {name} {words[-1]} {words[-2]}\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    shown = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True
    )
    assert {word.strip() for word in shown.stdout.split()} == expected
