"""Sends a daemon one kind of frame, as fast as it is read, from many connections; a process.

Runs with KIND, of rude_frames.py, the path of a unix socket and a number of CONNECTIONS, until the
end of its input. It reads its answers, and opens connections again that the daemon has ended.
Prints {"opening"} once it has begun, and {"sent_bytes", "opened"} at the end.
"""

import json
import selectors
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress

from tests.groupcomm.sim.rude_frames import ATTACKS

READ_BYTES = 1 << 18


class Connection:
    """One connection, as often as it has to be opened."""

    def __init__(
        self, path: str, stream: Iterator[bytes], selector: selectors.BaseSelector
    ) -> None:
        self._path = path
        self._stream = stream
        self._selector = selector
        self._socket: socket.socket | None = None
        self._unsent = b""
        self._greeted = False
        self.sent_bytes = self.opened = 0

    def open(self) -> None:
        """Connect, and say hello."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            made.connect(self._path)
        except OSError:
            made.close()
            return
        self.opened += 1
        self._socket, self._greeted, self._unsent = made, False, next(self._stream)
        self._selector.register(made, selectors.EVENT_READ | selectors.EVENT_WRITE, self)

    def act(self, events: int) -> None:
        """Read and write as much as goes."""
        assert self._socket is not None
        try:
            if events & selectors.EVENT_READ:
                with suppress(BlockingIOError):
                    if not self._socket.recv(READ_BYTES):
                        raise ConnectionResetError
                    self._greeted = True
            if events & selectors.EVENT_WRITE:
                self._write()
        except OSError:
            self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None

    def _write(self) -> None:
        assert self._socket is not None
        if not self._unsent and self._greeted:
            self._unsent = next(self._stream)
        with suppress(BlockingIOError):
            sent = self._socket.send(self._unsent) if self._unsent else 0
            self.sent_bytes += sent
            self._unsent = self._unsent[sent:]

    @property
    def is_open(self) -> bool:
        """Return whether there is a connection."""
        return self._socket is not None


def main() -> int:
    kind, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    selector = selectors.DefaultSelector()
    connections = [Connection(path, ATTACKS[kind](at), selector) for at in range(count)]
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    print(json.dumps({"opening": count}), flush=True)
    ended = False
    while not ended:
        for connection in connections:
            if not connection.is_open:
                connection.open()
        for key, events in selector.select(0.01):
            ended |= key.data is None
            if key.data is not None:
                key.data.act(events)
    told = {
        "sent_bytes": sum(each.sent_bytes for each in connections),
        "opened": sum(each.opened for each in connections),
    }
    print(json.dumps(told), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
