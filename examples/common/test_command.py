"""How the commands of the examples end."""

import os
import signal
from functools import partial

import pytest
import trio

from examples.common.command import run
from examples.common.stage import ProgramEnded, program
from groupcomm.errors import CannotConnect, ConfigError, GroupCommError


async def fail(error: Exception, depth: int) -> int:
    """Raise an error out of this number of nurseries."""
    if depth == 0:
        raise error
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail, error, depth - 1)
    return 0


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("no"), 2),
        (CannotConnect("no"), 3),
        (GroupCommError("no"), 1),
        (OSError("no"), 1),
    ],
)
@pytest.mark.parametrize("depth", [0, 2])
def test_errors_become_a_line_and_a_status(
    error: Exception, status: int, depth: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("example", partial(fail, error, depth)) == status
    assert capsys.readouterr().err == "example: no\n"


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        run("example", partial(fail, ZeroDivisionError(), 1))
    assert raised.group_contains(ZeroDivisionError, depth=2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = []

    async def wait() -> int:
        try:
            os.kill(os.getpid(), number)
            await trio.sleep_forever()
        finally:
            ended.append(number)
        raise AssertionError

    assert run("example", wait) == 130
    assert ended == [number]
    assert capsys.readouterr().err == "stopped\n"


async def test_a_program_that_ends_too_early_is_reported() -> None:
    async with program("examples.control.programs", "nobody") as started:
        with pytest.raises(ProgramEnded, match="nobody has ended too early, status 2"):
            await started.told()
