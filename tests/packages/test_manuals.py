"""Manual pages and completions: complete, and accepted by the shells themselves."""

import subprocess
from pathlib import Path

import pytest

from groupcomm_tools.cli import COMMANDS


def test_each_command_has_a_page_with_its_example_and_the_first_page_names_it(share: Path) -> None:
    first = (share / "man/man1/groupcomm.1").read_text().replace("\\-", "-")
    for name in COMMANDS:
        assert f"groupcomm {name}" in first
        page = (share / f"man/man1/groupcomm-{name}.1").read_text().replace("\\-", "-")
        assert page.startswith(f'.TH GROUPCOMM-{name.upper()} "1"')
        assert f"groupcomm-{name} - " in page.partition(".SH SYNOPSIS")[0]
        assert "exit status: 0 done" in page
        assert f"groupcomm {name}" in page.partition("example:")[2]
    assert "groupcomm-VERB(1) describes a verb" in first


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
