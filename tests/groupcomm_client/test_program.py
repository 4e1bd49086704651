"""How programs end that the library runs, and how they read standard input."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import trio
import trio.testing

import groupcomm_client as gc
from groupcomm.errors import Code
from groupcomm_client import standard_input
from groupcomm_client.program import AGAIN

LOST: Final = gc.SessionEnded(Code.CONNECTION_CLOSED, "the connection was lost")


class Case(NamedTuple):
    """An event loop's way to run a program that raises errors."""

    run: Callable[..., Any]
    main: Callable[..., Any]


async def raise_all(*errors: Exception) -> None:
    """Raise each error in a task of its own, one level deeper than the last."""
    async with trio.open_nursery() as nursery:
        if errors[1:]:
            nursery.start_soon(raise_all, *errors[1:])
        raise errors[0]


async def raise_in_asyncio(*errors: Exception) -> None:
    """Raise each error in a task of its own."""

    async def raise_one(error: Exception) -> None:
        raise error

    async with asyncio.TaskGroup() as group:
        for error in errors:
            group.create_task(raise_one(error))


def raise_here(*errors: Exception) -> None:
    """Raise a group of the errors, or the only one."""
    raise errors[0] if len(errors) == 1 else ExceptionGroup("several", errors)


CASES: Final = {
    "trio": Case(gc.run, raise_all),
    "asyncio": Case(gc.aio.run, raise_in_asyncio),
    "threads": Case(gc.blocking.run, raise_here),
}

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@pytest.fixture(autouse=True)
def name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["./somewhere/first.py", "ann"])


@cases
@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (gc.CannotConnect("no daemon"), 3, "no daemon"),
        (gc.ConfigError("no file"), 2, "no file"),
        (gc.LocalProtocolError("no name"), 2, "no name"),
        (gc.GroupCommError("two\nlines"), 1, r"two\nlines"),
        (LOST, 1, f"the connection was lost: {AGAIN}"),
        (gc.SessionEnded(Code.REJECT_NOT_UNIQUE, "the name is in use"), 1, "the name is in use"),
    ],
)
def test_an_error_is_one_line_and_a_status(
    case: Case,
    error: Exception,
    status: int,
    line: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        case.run(case.main, error)
    assert ended.value.code == status
    assert capsys.readouterr() == ("", f"first.py: {line}\n")


@cases
def test_tasks_that_fail_for_the_same_reason_have_one_line(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    again = gc.SessionEnded(Code.CONNECTION_CLOSED, "the connection was lost")
    with pytest.raises(SystemExit, match="1"):
        case.run(case.main, LOST, again)
    assert len(capsys.readouterr().err.splitlines()) == 1


@cases
def test_a_fault_of_the_program_keeps_its_traceback(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ExceptionGroup):
        case.run(case.main, LOST, ZeroDivisionError())
    assert capsys.readouterr() == ("", "")


def test_the_result_is_that_of_the_function() -> None:
    async def double(number: int) -> int:
        return 2 * number

    assert gc.run(double, 4) == gc.aio.run(double, 4) == gc.blocking.run(lambda n: 2 * n, 4) == 8


def interrupt() -> None:
    """Do what ^C does."""
    os.kill(os.getpid(), signal.SIGINT)


def read_until_interrupted(case: Case) -> None:
    """Wait for a line that does not come, in a task of its own, and meet ^C there."""

    async def in_trio() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(to_list, gc.input_lines())
            await trio.testing.wait_all_tasks_blocked()
            interrupt()
            await trio.sleep_forever()

    async def in_asyncio() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(to_list(gc.aio.input_lines()))
            await asyncio.sleep(0)
            interrupt()

    mains: dict[Any, Callable[..., Any]] = {gc.run: in_trio, gc.aio.run: in_asyncio}
    case.run(mains.get(case.run, interrupt))


async def to_list(lines: AsyncIterator[str]) -> list[str]:
    return [line async for line in lines]


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Yield the descriptor that writes to standard input."""
    read_end, write_end = os.pipe()
    with open(read_end) as read_end_file:  # noqa: PTH123 - it has no path
        monkeypatch.setattr(sys, "stdin", read_end_file)
        yield write_end


@cases
def test_an_interrupt_ends_it_at_once_though_it_reads_standard_input(
    case: Case, keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        with pytest.raises(SystemExit) as ended:
            read_until_interrupted(case)
    finally:
        os.close(keyboard)
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "stopped\n")


@pytest.mark.parametrize("module", [gc, gc.aio], ids=["trio", "asyncio"])
@pytest.mark.parametrize(
    ("typed", "lines"),
    [
        ("", []),
        ("one\n", ["one"]),
        ("one\n\n  three\nlast", ["one", "", "  three", "last"]),
        ("grüße\n" * 7, ["grüße"] * 7),
    ],
)
def test_lines_come_without_their_ends(
    module: Any,
    typed: str,
    lines: list[str],
    keyboard: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standard_input, "READ_BYTES", 3)  # letters are cut where a read ends
    os.write(keyboard, typed.encode())
    os.close(keyboard)
    assert module.run(to_list, module.input_lines()) == lines
    path = tmp_path / "typed.txt"
    path.write_text(typed)
    with path.open() as redirected:
        monkeypatch.setattr(sys, "stdin", redirected)
        assert module.run(to_list, module.input_lines()) == lines


@pytest.mark.parametrize("module", [gc, gc.aio], ids=["trio", "asyncio"])
def test_without_standard_input_there_are_no_lines(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert module.run(to_list, module.input_lines()) == []


def test_developers_see_the_traceback() -> None:
    program = """
import groupcomm_client as gc

def main():
    raise gc.LocalProtocolError("no name")

gc.blocking.run(main)
"""
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "in main" in ended.stderr
    assert ended.stderr.endswith("LocalProtocolError: no name\n")
