"""What a process tells, line by line."""

from collections.abc import AsyncIterator

import trio


async def lines_of(stream: trio.abc.ReceiveStream) -> AsyncIterator[bytes]:
    """The lines of a stream without their ends; what stands behind the last end is no line."""
    rest = b""
    async for chunk in stream:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
