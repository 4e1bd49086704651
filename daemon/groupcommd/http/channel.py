"""The channel between a daemon and its HTTP process: frames over a pair of sockets.

A frame is a line of JSON with a word, an argument and the size of the body, and then the body.
"""

import json
import socket
from typing import Final, NamedTuple

import trio

READ_BYTES: Final = 65_536
MAX_LINE_BYTES: Final = 4096
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""More than the status of a daemon with all sessions that it may have."""


class Frame(NamedTuple):
    """One frame.

    Attributes:
        word: what is asked for, or told.
        argument: the name of the object in question; "" if there is only one.
        body: usually JSON.
    """

    word: str
    argument: str = ""
    body: bytes = b""


class Channel:
    """One end of a channel. One task receives at a time; any may send.

    Args:
        socket_: the connected socket of this end, which becomes non-blocking.
    """

    def __init__(self, socket_: socket.socket) -> None:
        socket_.setblocking(False)
        self._socket = socket_
        self._sending = trio.Lock()
        self._read = bytearray()

    async def send(self, word: str, argument: str = "", body: bytes = b"") -> None:
        """Send a frame; wait until the system has accepted all of it.

        Raises:
            OSError: the other end is closed.
        """
        line = json.dumps([word, argument, len(body)]).encode()
        left = memoryview(line + b"\n" + body)
        async with self._sending:
            while left:
                try:
                    left = left[self._socket.send(left) :]
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(self._socket)

    async def receive(self) -> Frame | None:
        """Return the next frame; None if the other end is closed.

        Raises:
            ValueError, OSError: the other end does not keep to the format, or has broken off.
        """
        while (end := self._read.find(b"\n")) < 0:
            if len(self._read) > MAX_LINE_BYTES:
                raise ValueError("a frame of the HTTP process has no line")
            if not await self._read_more():
                return None
        word, argument, size = json.loads(self._read[:end])
        if not 0 <= size <= MAX_BODY_BYTES:
            raise ValueError(f"a frame of the HTTP process has {size} bytes")
        del self._read[: end + 1]
        while len(self._read) < size:
            if not await self._read_more():
                return None
        body = bytes(self._read[:size])
        del self._read[:size]
        return Frame(str(word), str(argument), body)

    async def _read_more(self) -> bool:
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                data = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                continue
            self._read += data
            return bool(data)
