"""The end of a program: an error of groupcomm becomes one line, and an exit status.

A program without further provision ends with a traceback when its daemon does, and trio shows it
for each task. `run` of `groupcomm_client`, `groupcomm_client.aio` and `groupcomm_client.blocking`
runs a main function as the statement ``with as_program()`` does.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from groupcomm.errors import (
    CannotConnect,
    Code,
    ConfigError,
    GroupCommError,
    LocalProtocolError,
    SessionEnded,
)
from groupcomm.host.line_writer import write_last
from groupcomm.visible import visible

FAILED: Final = 1
USAGE: Final = 2
CANNOT_CONNECT: Final = 3
STOPPED: Final = 130
"""The exit statuses of programs and commands: docs/reference/commands.md."""

AGAIN: Final = (
    "run it again once there is a daemon; with connect(reconnect=True) it goes on by itself"
)
"""The remedy for a program whose session was lost."""


@contextmanager
def as_program() -> Iterator[None]:
    """End the program in order if an error of groupcomm, or ^C, ends the block.

    The error is one line on standard error, with the name of the program in front. Errors that
    tasks have raised together have a line each, if they differ. With ``python -X dev`` the
    traceback is shown instead. Errors of other classes pass unchanged: they are faults of the
    program.

    Raises:
        SystemExit: with the status for the error, or `STOPPED`.
    """
    try:
        yield
    except (Exception, BaseExceptionGroup, KeyboardInterrupt) as raised:
        errors = list(_single_errors(raised))
        if any(isinstance(each, KeyboardInterrupt) for each in errors):
            texts, status = ["stopped"], STOPPED
        else:
            texts, status = list(map(_line, errors)), exit_status(errors[0])
        ours = all(isinstance(each, GroupCommError | KeyboardInterrupt) for each in errors)
        if not ours or (sys.flags.dev_mode and status != STOPPED):
            raise
        write_last("\n".join(dict.fromkeys(texts)))
        raise SystemExit(status) from None


def exit_status(error: BaseException) -> int:
    """Return the exit status of a program that an error has ended."""
    if isinstance(error, ConfigError | LocalProtocolError):
        return USAGE
    return CANNOT_CONNECT if isinstance(error, CannotConnect) else FAILED


def _single_errors(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group and of the groups in it, or the error itself."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for each in error.exceptions:
        yield from _single_errors(each)


def _line(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, SessionEnded) and error.code == Code.CONNECTION_CLOSED:
        text += f": {AGAIN}"
    return f"{Path(sys.argv[0]).name}: {visible(text)}"
