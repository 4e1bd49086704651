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
        self._rest = bytearray()  # the begin of a frame, from its length on
        self._needed = 4  # bytes of it up to the end of its length, then of the whole frame

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take the next bytes; yield the frames that they complete, each from its kind on.

        Raises:
            BadDatagram: a length is 0 or above `limit`, told after the good frames before it; the
                stream cannot be followed from there.
        """
        start = 0
        size = len(data)
        rest = self._rest
        while rest:  # only the frame that begins there is put together, others are cut out of data
            taken = min(self._needed - len(rest), size - start)
            rest += data[start : start + taken]
            start += taken
            if len(rest) < self._needed:
                return
            if self._needed == 4:
                self._needed += self._length(rest, 0)
            else:
                frame = bytes(memoryview(rest)[4:])
                rest.clear()
                self._needed = 4
                yield frame
        while size - start >= 4:
            end = start + 4 + self._length(data, start)
            if end > size:
                self._needed = end - start
                break
            yield data[start + 4 : end]
            start = end
        self._rest += data[start:]

    def _length(self, data: bytes | bytearray, start: int) -> int:
        (length,) = _LENGTH.unpack_from(data, start)
        if not 1 <= length <= self.limit:
            raise BadDatagram("long", f"a frame of {length} bytes; {self.limit} are allowed")
        return int(length)
