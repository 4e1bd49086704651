"""One direction of a client's connection: a reliable byte stream with bounded buffers."""

from collections.abc import Callable

from groupcomm.sim.loop import Loop

CAPACITY_BYTES = 64 * 1024
"""What the writer can write while the reader reads nothing, as with a socket's buffers."""

DELAY_US = 20
"""From a write to the reader's wake-up, on one host."""


class Pipe:
    """Carries bytes from a writer to a reader who may pause.

    Args:
        loop: virtual time.
        read: takes what arrived; called while the reader reads.
        drained: called when a pipe that was full has room again.
        ended: called once the writer has closed it and everything was read.
    """

    __slots__ = (
        "_arrived",
        "_broken",
        "_closing",
        "_drained",
        "_ended",
        "_loop",
        "_read",
        "_reading",
        "_unread",
        "_was_full",
    )

    def __init__(
        self,
        loop: Loop,
        read: Callable[[bytes], None],
        drained: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._read = read
        self._drained = drained
        self._ended = ended
        self._arrived: list[bytes] = []
        self._unread = 0  # bytes written and not read, under way or arrived
        self._reading = True
        self._was_full = False
        self._closing = False
        self._broken = False

    def room(self) -> int:
        """Bytes that can be written now; when there is none, `drained` will be called."""
        if self._closing or self._broken:
            return 0
        room = CAPACITY_BYTES - self._unread
        self._was_full = self._was_full or room <= 0
        return max(room, 0)

    @property
    def is_broken(self) -> bool:
        """Whether the reader is gone, as a writer to a socket finds out."""
        return self._broken

    def write(self, data: bytes) -> None:
        """Send bytes; a frame that is begun while there is room may be longer than it."""
        assert not self._closing, "written to a closed pipe"
        if not self._broken:
            self._unread += len(data)
            self._loop.at(self._loop.now + DELAY_US, self._arrive, data)

    def close(self) -> None:
        """The writer is done: the reader sees the end behind everything written."""
        if not self._closing and not self._broken:
            self._closing = True
            self._loop.at(self._loop.now + DELAY_US, self._arrive, b"")

    def break_off(self) -> None:
        """The reader is gone: what was not read is lost, and nobody is told anything more."""
        self._broken = True
        self._arrived.clear()

    def set_reading(self, reading: bool) -> None:
        """Pause or resume the reader; what waits is read at once."""
        self._reading = reading
        if reading and self._arrived:
            waiting, self._arrived = self._arrived, []
            for data in waiting:
                self._arrive(data)

    def _arrive(self, data: bytes) -> None:
        if self._broken:
            return
        if not self._reading:
            self._arrived.append(data)
        elif data:
            self._unread -= len(data)
            self._read(data)
            if self._was_full and not self._broken:
                self._was_full = False
                self._drained()
        else:
            self._ended()
