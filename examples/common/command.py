"""The common part of the examples' commands: parsers, messages and exit statuses."""

import argparse
import signal
import sys
from collections.abc import Awaitable, Callable

import trio

from groupcomm.errors import GroupCommError
from groupcomm_client.program import STOPPED, exit_status


def new_parser(
    name: str, description: str | None, epilog: str | None = None
) -> argparse.ArgumentParser:
    """Return a parser without options for ``python -m examples.NAME``; its texts keep their
    lines.
    """
    return argparse.ArgumentParser(
        prog=f"python -m examples.{name}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run(name: str, main: Callable[[], Awaitable[int]]) -> int:
    """Run a command; return its exit status. Errors go to standard error."""
    try:
        status = trio.run(_until_stopped, main)
    except (Exception, BaseExceptionGroup) as error:
        cause = only_cause(error)
        if not isinstance(cause, GroupCommError | OSError):
            raise
        print(f"{name}: {cause}", file=sys.stderr)
        return exit_status(cause)
    if status == STOPPED:
        print("stopped", file=sys.stderr)
    return status


async def _until_stopped(main: Callable[[], Awaitable[int]]) -> int:
    """Run a program until it ends; at ^C or SIGTERM end it and its children in order."""
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
    """Return the error inside groups of one error each; keep a group of several errors."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
