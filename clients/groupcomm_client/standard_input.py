"""Standard input, line by line, beside a connection.

Waiting for a line in a thread, as `trio.wrap_file` and asyncio's executors do, cannot be cancelled:
such a program ends only when somebody types Enter, whatever else has happened, ^C included. Here
the event loop waits.
"""

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

READ_BYTES: Final = 65_536


async def read_lines(
    readable: Callable[[int], Awaitable[object]], checkpoint: Callable[[], Awaitable[object]]
) -> AsyncIterator[str]:
    """Yield the lines of standard input, without their ends, as they come.

    Args:
        readable: waits until a file descriptor is readable; raises PermissionError if it is one of
            a file on a disk, which always is.
        checkpoint: lets other tasks run.
    """
    if sys.stdin is None:  # the shell has closed it: the same as no lines
        return
    descriptor, rest = sys.stdin.fileno(), b""
    while True:
        try:
            await readable(descriptor)
        except PermissionError:
            await checkpoint()
        read = os.read(descriptor, READ_BYTES)
        *lines, rest = (rest + read).split(b"\n")
        if not read and rest:
            lines = [rest]
        for line in lines:
            yield line.decode(sys.stdin.encoding, sys.stdin.errors or "strict")
        if not read:
            return
