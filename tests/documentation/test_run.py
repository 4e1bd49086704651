"""The runner: blocks share a folder and variables, and what does not fit is named by its line."""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.documentation import run
from tests.documentation.blocks import PageError, read_blocks
from tests.documentation.run import ROOT, PageRun, run_page
from tests.documentation.shell import Terminals

ECHO = "import sys\nfor line in sys.stdin:\n    print('got', line.strip())"


@pytest.fixture
def terminals() -> Iterator[Terminals]:
    with TemporaryDirectory() as folder:
        yield Terminals(Path(folder), Path(sys.prefix), ROOT)


def play(terminals: Terminals, *blocks: tuple[str, str, str]) -> PageRun:
    """Run blocks, each a mark ("" for none), a language and a text."""
    lines = [
        f"<!-- {mark} -->\n```{language}\n{text}\n```\n"
        if mark
        else f"```{language}\n{text}\n```\n"
        for mark, language, text in blocks
    ]
    page_run = PageRun(terminals)
    page_run.run(read_blocks("a.md", "\n".join(lines)))
    return page_run


def test_blocks_share_folder_files_and_variables(terminals: Terminals) -> None:
    page_run = play(
        terminals,
        ("", "sh", "mkdir sub; cd sub; export NAME=ann"),
        (
            "file: b.py",
            "python",
            "import os; print(os.environ['NAME'], os.path.basename(os.getcwd()))",
        ),
        ("", "sh", "python b.py"),
        ("output", "text", "ann sub"),
        ("", "python", "print(1 + 1)"),
        ("output", "text", "2"),
    )
    assert page_run.ran == 3
    assert len(page_run.times_s) == 6


def test_the_folder_stands_for_a_clone(terminals: Terminals) -> None:
    play(
        terminals,
        ("", "sh", ". .venv/bin/activate; ls examples/chat/README.md; which groupcomm"),
        ("output", "text", "examples/chat/README.md\n.../bin/groupcomm"),
    )


def test_variables_of_the_user_do_not_lead_to_the_users_daemon(
    terminals: Terminals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROUPCOMM_ADDRESS", "/run/somewhere.sock")
    play(terminals, ("", "sh", "echo ${GROUPCOMM_ADDRESS:-none}"), ("output", "text", "none"))


def test_a_background_program_is_waited_for_typed_to_and_stopped(terminals: Terminals) -> None:
    play(
        terminals,
        ("file: echo.py", "python", ECHO),
        ("background: e", "sh", "python echo.py"),
        ("input: e", "text", "one\ntwo"),
        ("output: e", "text", "got one"),
        ("output: e", "text", "got two"),
        ("stop: e", "sh", "ps -ef | grep -c '[e]cho.py' || true"),
        ("output", "text", "0"),
    )


def test_what_a_page_leaves_running_is_ended(terminals: Terminals) -> None:
    with pytest.raises(PageError):
        play(
            terminals,
            ("background", "sh", "echo $$; exec sleep 1000"),
            (
                "",
                "sh",
                "until [ -s ../private/output-1 ]; do sleep 0.01; done; cp ../private/output-1 pid",
            ),
            ("", "sh", "false"),
        )
    pid = int((terminals.clone / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_block_waits_until_a_command_succeeds(terminals: Terminals) -> None:
    play(
        terminals,
        ("background", "sh", "sleep 0.1; touch there; exec sleep 1000"),
        ("until: test -e there", "sh", "ls there"),
    )


def test_an_expected_status_is_no_failure(terminals: Terminals) -> None:
    play(terminals, ("status: 3", "sh", "exit 3"))
    with pytest.raises(PageError, match=r"^a.md:2: ended with status 0, not 3"):
        play(terminals, ("status: 3", "sh", "true"))


@pytest.mark.parametrize(
    ("blocks", "error"),
    [
        ([("", "sh", "echo one\nfalse\necho two")], "a.md:1: ended with status 1, not 0\none\n$"),
        (
            [("", "sh", "echo a"), ("output", "text", "b")],
            "a.md:6: the block of a.md:1 did not print",
        ),
        ([("output", "text", "b")], "a.md:2: no block before this one has printed"),
        ([("stop: x", "sh", "true")], "a.md:2: the program 'x' does not run"),
        ([("input: x", "text", "true")], "a.md:2: the program 'x' does not run"),
        (
            [("background", "sh", "exit 4"), ("output", "text", "b")],
            "a.md:7: the block of a.md:2 did",
        ),
        (
            [("background", "sh", "sleep 9"), ("background", "sh", "ls")],
            "a.md:7: a program without",
        ),
    ],
)
def test_what_a_page_says_wrongly_is_named(
    terminals: Terminals, blocks: list[tuple[str, str, str]], error: str
) -> None:
    with pytest.raises(PageError, match=error):
        play(terminals, *blocks)


def test_a_background_program_that_fails_is_named(terminals: Terminals) -> None:
    with pytest.raises(PageError, match=r"^a.md:2: ended with status 4, not 0"):
        play(
            terminals,
            ("background", "sh", "echo failing; exit 4"),
            ("output", "text", "failing"),
            ("until: ! ps -ef | grep '[e]cho failing'", "sh", "sleep 0.2"),
        )


def test_waiting_ends(terminals: Terminals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "WAIT_S", 0.1)
    with pytest.raises(PageError, match=r"^a.md:2: in 0.1 s this did not succeed: false"):
        play(terminals, ("until: false", "sh", "true"))
    with pytest.raises(PageError, match=r"^a.md:1: not over in 0.1 s"):
        PageRun(terminals, 0.1).run(read_blocks("a.md", "```sh\nsleep 1000\n```\n"))
    with pytest.raises(PageError, match=r"^a.md:7: the block of a.md:2 did not print"):
        play(terminals, ("background", "sh", "sleep 1000"), ("output", "text", "x"))


def test_pages_use_the_same_port_at_once(tmp_path: Path) -> None:
    """Each page of a machine has a network of its own, or waits for its turn."""
    page = tmp_path / "a.md"
    listen = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 4803)); s.listen()"
    page.write_text(
        f"```python\n{listen}\nprint('listens')\n```\n<!-- output -->\n```text\nlistens\n```\n"
    )
    with ThreadPoolExecutor() as threads:
        done = list(threads.map(run_page, [page] * 3, [Path(sys.prefix)] * 3))
    assert [(each.returncode, each.stdout) for each in done] == [(0, "1 blocks run\n")] * 3


def test_pages_take_turns_where_the_system_allows_no_namespaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "own_namespaces", tuple)
    page = tmp_path / "a.md"
    alone = tmp_path / "alone"
    text = f"mkdir {alone}\nsleep 0.1\nrmdir {alone}"
    page.write_text(f"```sh\n{text}\n```\n")
    with ThreadPoolExecutor() as threads:
        done = list(threads.map(run_page, [page] * 3, [Path(sys.prefix)] * 3))
    assert [(each.returncode, each.stdout) for each in done] == [(0, "1 blocks run\n")] * 3


def test_a_page_that_fails_says_where(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("```sh\nfalse\n```\n")
    done = run_page(page, Path(sys.prefix))
    assert done.returncode == 1
    assert done.stdout.startswith(f"{page}:1: ended with status 1")
