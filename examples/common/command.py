"""What the commands of the examples share: how they end."""

import sys
from collections.abc import Awaitable, Callable

import trio

from groupcomm.errors import CannotConnect, ConfigError, GroupCommError

FAILED, USAGE, CANNOT_CONNECT, STOPPED = 1, 2, 3, 130


def run(name: str, main: Callable[[], Awaitable[int]]) -> int:
    """Run a command; its exit status. What is wrong is told on standard error."""
    try:
        return trio.run(main)
    except BaseException as error:
        cause = only_cause(error)
        if isinstance(cause, KeyboardInterrupt):
            print("stopped", file=sys.stderr)
            return STOPPED
        if not isinstance(cause, GroupCommError | OSError):
            raise
        print(f"{name}: {cause}", file=sys.stderr)
        return status_of(cause)


def only_cause(error: BaseException) -> BaseException:
    """What stands in groups of one error each; what several tasks cause together stays a group."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def status_of(error: BaseException) -> int:
    """The exit status of a command that has failed so."""
    if isinstance(error, ConfigError):
        return USAGE
    return CANNOT_CONNECT if isinstance(error, CannotConnect) else FAILED
