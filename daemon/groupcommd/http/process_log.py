"""The log of the HTTP process: its lines go to the daemon, which has the only log."""

import json
import logging
from collections import deque
from typing import Final

import trio

from groupcommd.http.channel import Channel

MAX_LINES: Final = 100
"""Lines that wait; what comes then is lost."""


class ChannelHandler(logging.Handler):
    """A handler that sends lines through the channel."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[bytes] = deque()
        self._news = trio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line."""
        if len(self._lines) < MAX_LINES:
            told = {"level": record.levelno, "text": self.format(record)}
            self._lines.append(json.dumps(told).encode())
            self._news.set()

    async def run(self, channel: Channel) -> None:
        """Send lines for ever."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            await self.send(channel)

    async def send(self, channel: Channel) -> None:
        """Send the lines that wait."""
        while self._lines:
            await channel.send("log", "", self._lines.popleft())
