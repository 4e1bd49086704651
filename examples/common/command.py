"""What the commands of the examples share: how they tell of themselves, and how they end."""

import argparse
import signal
import sys
from collections.abc import Awaitable, Callable

import trio

from groupcomm.errors import CannotConnect, ConfigError, GroupCommError

FAILED, USAGE, CANNOT_CONNECT, STOPPED = 1, 2, 3, 130


def new_parser(
    name: str, description: str | None, epilog: str | None = None
) -> argparse.ArgumentParser:
    """A parser without options, of ``python -m examples.NAME``; its texts keep their lines."""
    return argparse.ArgumentParser(
        prog=f"python -m examples.{name}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run(name: str, main: Callable[[], Awaitable[int]]) -> int:
    """Run a command; its exit status. What is wrong is told on standard error."""
    try:
        status = trio.run(_until_stopped, main)
    except (Exception, BaseExceptionGroup) as error:
        cause = only_cause(error)
        if not isinstance(cause, GroupCommError | OSError):
            raise
        print(f"{name}: {cause}", file=sys.stderr)
        return status_of(cause)
    if status == STOPPED:
        print("stopped", file=sys.stderr)
    return status


async def _until_stopped(main: Callable[[], Awaitable[int]]) -> int:
    """Run it, or end it in order at ^C and SIGTERM: what it has started ends with it."""
    status = STOPPED
    async with trio.open_nursery() as nursery:

        async def watch(task_status: trio.TaskStatus[None]) -> None:
            with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                task_status.started()
                async for _ in signals:
                    nursery.cancel_scope.cancel()

        await nursery.start(watch)
        status = await main()
        nursery.cancel_scope.cancel()
    return status


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
