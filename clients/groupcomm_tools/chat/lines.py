"""Lines of a terminal, a pipe or a file, as they come; nobody blocks in a thread for them."""

import os
from typing import Final

import trio

from groupcomm.config.core import MAX_MESSAGE_BYTES
from groupcomm.errors import LocalProtocolError

READ_BYTES: Final = 65_536


class InputLines:
    """What a file descriptor gives, line by line; only one task may ask.

    Args:
        descriptor: of the input; it is neither closed nor made non-blocking.
        most_bytes: of one line; a longer one is dropped as a whole.

    Attributes:
        number: of the line that was given last, from 1.
    """

    def __init__(self, descriptor: int, most_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self.number = 0
        self._descriptor = descriptor
        self._most_bytes = most_bytes
        self._waiting = bytearray()
        self._searched = 0  # bytes of it that hold no end of a line
        self._dropping = False  # the line that comes is too long already
        self._ended = False
        self._watchable = True

    async def next(self) -> bytes | None:
        """The next line without its end, whatever its bytes are; None at the end of the input.

        Raises:
            LocalProtocolError: a line was too long and is dropped; the next call goes on behind it.
            OSError: the input cannot be read.
        """
        while True:
            end = self._waiting.find(b"\n", self._searched)
            if end >= 0:
                return self._take(end, end + 1)
            self._searched = len(self._waiting)
            if self._searched > self._most_bytes:
                self._dropping = True
                self._waiting.clear()
                self._searched = 0
            if self._ended:
                if not (self._waiting or self._dropping):
                    return None
                return self._take(len(self._waiting), len(self._waiting))
            data = await self._read()
            self._ended = not data
            self._waiting += data

    def _take(self, end: int, following: int) -> bytes:
        line = bytes(self._waiting[:end])
        del self._waiting[:following]
        self._searched = 0
        self.number += 1
        too_long, self._dropping = self._dropping or end > self._most_bytes, False
        if too_long:
            raise LocalProtocolError(
                f"it has more than {self._most_bytes} bytes and was dropped; split it, or send"
                " it in parts"
            )
        return line.removesuffix(b"\r")

    async def _read(self) -> bytes:
        """What has come, one byte at least; nothing (b"") at the end."""
        if self._watchable:
            try:
                await trio.lowlevel.wait_readable(self._descriptor)
            except PermissionError:
                self._watchable = False  # a file on disk, which always gives something
        else:
            await trio.lowlevel.checkpoint()
        return os.read(self._descriptor, READ_BYTES)
