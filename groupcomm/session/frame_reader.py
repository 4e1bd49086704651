"""Frames out of a stream of bytes that comes in any pieces."""

import struct
from collections.abc import Iterator

from groupcomm.errors import BadDatagram

_LENGTH = struct.Struct("!I")


class FrameReader:
    """Cuts a stream of bytes into frames, whatever pieces it comes in.

    Attributes:
        limit: greatest length of a frame; a longer one is refused before it is buffered.
    """

    __slots__ = ("_needed", "_rest", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._rest = bytearray()
        self._needed = 0  # bytes that complete the frame at the head of `_rest`

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take the next bytes; yield the frames that they complete, each from its kind on.

        Raises:
            BadDatagram: a length is 0 or above `limit`, told after the good frames before it; the
                stream cannot be followed from there.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return
            data = bytes(self._rest)
            self._rest.clear()
        start = 0
        size = len(data)
        self._needed = 4
        while size - start >= 4:
            (length,) = _LENGTH.unpack_from(data, start)
            if not 1 <= length <= self.limit:
                raise BadDatagram("long", f"a frame of {length} bytes; {self.limit} are allowed")
            end = start + 4 + length
            if end > size:
                self._needed = 4 + length
                break
            yield data[start + 4 : end]
            start = end
        self._rest += data[start:]
