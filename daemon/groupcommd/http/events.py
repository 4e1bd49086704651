"""Server-sent events: the page's data, sent to all that watch, each second and for each view.

With many streams an event comes less often, and no more is written in a second. An event is
made once, and written to all streams in small batches within the time of HTTP. No task waits
for a stream: one that does not read misses events, and is closed after a while.
"""

from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import Final

import trio

from groupcommd.http.connection import HttpConnection, chunk
from groupcommd.http.gate import Refusal
from groupcommd.http.work_share import WorkShare

INTERVAL_S: Final = 1.0
"""The time between two events if nothing happens and few watch."""

WRITES_PER_S: Final = 200
"""The number of streams that are written to in a second, if nothing happens."""

AT_LEAST_S: Final = 0.1
"""The least time between two events."""

STALLED_S: Final = 10.0
"""A stream that has not read for this long is closed."""

BATCH: Final = 8
"""The streams that are written to in one piece of work."""

MAX_STREAMS: Final = 1024


def event(data: bytes) -> bytes:
    """Return data without newlines as an event."""
    return b"data: %b\n\n" % data


class Stream:
    """One stream: the rest of an event that its socket has not accepted yet.

    Attributes:
        principal: the principal that watches.
    """

    def __init__(self, connection: HttpConnection, principal: str) -> None:
        self.principal = principal
        self._connection = connection
        self._rest = b""
        self._stalled_at = 0.0

    def end(self) -> None:
        """Close the connection."""
        self._connection.scope.cancel()

    def push(self, framed: bytes, now: float) -> None:
        """Write an event, or the rest of an earlier one in its place."""
        data = self._rest or framed
        try:
            sent = self._connection.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._connection.scope.cancel()
            return
        if sent == len(data):
            self._rest = b""
        elif self._rest and not sent:
            if now >= self._stalled_at + STALLED_S:
                self._connection.scope.cancel()
        else:
            self._rest, self._stalled_at = data[sent:], now


class EventStreams:
    """All streams of a daemon.

    Args:
        share: limits the time of HTTP.
        data: returns the data of an event; raises Refusal if there are none.
    """

    def __init__(self, share: WorkShare, data: Callable[[], Awaitable[bytes]]) -> None:
        self._share = share
        self._data = data
        self._streams: dict[HttpConnection, Stream] = {}
        self._watched = trio.Event()
        self._news = trio.Event()

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def is_full(self) -> bool:
        """Return whether there are as many as there may be."""
        return len(self._streams) >= MAX_STREAMS

    @property
    def principals(self) -> frozenset[str]:
        """Return the principals that watch."""
        return frozenset(stream.principal for stream in self._streams.values())

    def end(self, principal: str) -> None:
        """Close the streams of a principal."""
        for stream in self._streams.values():
            if stream.principal == principal:
                stream.end()

    def tell(self) -> None:
        """Send an event soon, as something has happened."""
        self._news.set()

    async def serve(self, connection: HttpConnection, principal: str) -> None:
        """Send events to a connection until it ends; any bytes that it sends count as its end."""
        self._streams[connection] = Stream(connection, principal)
        self._watched.set()
        try:
            await connection.read()
        finally:
            del self._streams[connection]

    async def run(self) -> None:
        """Send events for ever."""
        while True:
            if not self._streams:
                self._watched = trio.Event()
                await self._watched.wait()
            await trio.sleep(AT_LEAST_S)
            interval_s = max(INTERVAL_S, len(self._streams) / WRITES_PER_S)
            with trio.move_on_after(interval_s - AT_LEAST_S):
                await self._news.wait()
            is_news = self._news.is_set()
            self._news = trio.Event()
            try:
                framed = chunk(event(await self._data()))
            except Refusal:
                continue  # the daemon's loop does not run: the page sees no change
            for batch in _batches(list(self._streams.values())):
                await self._push(batch, framed, is_news=is_news)

    async def _push(self, batch: list[Stream], framed: bytes, *, is_news: bool) -> None:
        """Write an event to some streams; one about news does not wait for its turn."""
        now = trio.current_time()
        if is_news:
            with self._share.urgent():
                for stream in batch:
                    stream.push(framed, now)
            await trio.lowlevel.checkpoint()
            return
        async with self._share:
            for stream in batch:
                stream.push(framed, now)


def _batches(streams: list[Stream]) -> Iterator[list[Stream]]:
    left = iter(streams)
    while batch := list(islice(left, BATCH)):
        yield batch
