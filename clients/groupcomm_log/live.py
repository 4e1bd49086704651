"""The live file: an Arrow IPC stream in which every batch is checked.

Any Arrow library reads it as a stream. It consists of Arrow messages (a schema, then batches); each
has a text among its metadata::

    groupcomm-log crc32:9f86d081 at:0000000000001024 bytes:0000000000004096
        rows:0000000000000100000+0000001000 mark:d081884c

crc32 is the checksum of the whole message with zeros in its place (as in UDP), `at` the offset of
the message in the file, `rows` the first row and their number, `mark` the CRC-32 of the text from
`at` to here. So a reader finds a torn end, a changed bit anywhere, the rows that it costs, and the
next whole batch.
"""

import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from groupcomm_log.errors import Damage
from groupcomm_log.schema import SCHEMA

_MARK: Final = re.compile(
    rb"groupcomm-log crc32:([0-9a-f]{8})"
    rb"( at:(\d{16}) bytes:(\d{16}) rows:(\d{19})\+(\d{10})) mark:([0-9a-f]{8})"
)
_NO_CRC: Final = b"00000000"
_KEY: Final = "groupcomm"
_HEAD: Final = b"\xff\xff\xff\xff"  # each message begins with it; then its metadata's length
_HEAD_BYTES: Final = 8
_END_BYTES: Final = 8  # bytes that the writer adds at its end
_LZ4_SHARE: Final = 200  # incompressible data grow by less than this part
_SPARE_BYTES: Final = 16384  # for the text, the end bytes, and the lengths of compressed buffers

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
"""Most columns repeat: compression halves the written bytes, at no cost but that of the data."""
_MOST_METADATA_BYTES: Final = 65536
_SEARCH_BYTES: Final = 1 << 20

_BARE_BYTES: Final = len(SCHEMA.serialize())


@dataclass(frozen=True)
class Frame:
    """A whole, checked message.

    Attributes:
        at: its offset in the file.
        data: all of its bytes.
        first: number of its first row.
        count: number of rows; 0 for the schema.
    """

    at: int
    data: bytes
    first: int
    count: int

    @property
    def end(self) -> int:
        """Return the offset of the next message."""
        return self.at + len(self.data)

    def batch(self) -> pa.RecordBatch:
        """Return the rows."""
        return pa.ipc.read_record_batch(pa.ipc.read_message(pa.py_buffer(self.data)), SCHEMA)


# ---- writing ----


def encode_schema() -> memoryview:
    """Return the first message of a file."""
    schema = SCHEMA.with_metadata({_KEY: _mark(0, 0, 0)})
    memory = pa.allocate_buffer(_BARE_BYTES + _SPARE_BYTES)
    sink = pa.FixedSizeBufferWriter(memory)
    pa.ipc.new_stream(sink, schema).close()
    return _checked(memoryview(memory).cast("B")[: sink.tell() - _END_BYTES])


def encode_batch(batch: pa.RecordBatch, *, at: int, first: int) -> memoryview:
    """Return the message of a batch with at least one row, for this offset of the file."""
    size = pa.ipc.get_record_batch_size(batch)
    memory = pa.allocate_buffer(size + size // _LZ4_SHARE + _BARE_BYTES + _SPARE_BYTES)
    sink = pa.FixedSizeBufferWriter(memory)
    stream = pa.ipc.new_stream(sink, SCHEMA, options=_OPTIONS)
    stream.write_batch(batch, custom_metadata={_KEY: _mark(at, first, batch.num_rows)})
    stream.close()
    return _checked(memoryview(memory).cast("B")[_BARE_BYTES : sink.tell() - _END_BYTES])


def _mark(at: int, first: int, count: int) -> str:
    rows = f"rows:{first:019d}+{count:010d}"
    return f"groupcomm-log crc32:00000000 at:{at:016d} bytes:{0:016d} {rows} mark:00000000"


def _checked(message: memoryview) -> memoryview:
    """Return the message with its length and its checksums filled in."""
    mark = _MARK.search(message, 0, _MOST_METADATA_BYTES)
    assert mark is not None
    crc, text, size, text_crc = (slice(*mark.span(group)) for group in (1, 2, 4, 7))
    message[size] = b"%016d" % len(message)
    message[text_crc] = b"%08x" % zlib.crc32(message[text])
    message[crc] = b"%08x" % zlib.crc32(message)
    return message


# ---- reading ----


def read_frames(path: Path, at: int = 0) -> Iterator[Frame | Damage]:
    """Yield the messages of a file from an offset on, and the damage between them.

    A message that another process is writing looks like a torn end.

    Args:
        path: path of the file.
        at: 0, or the end of a frame.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while at < size:
            found = _frame_at(file, at, size)
            if isinstance(found, Frame):
                yield found
                at = found.end
                continue
            rows, why, whole = found
            following = _next_frame(file, at + 1, size)
            until = size if following is None else following
            yield Damage(path, at, until - at, rows, why, torn=following is None and not whole)
            at = until


_Bad = tuple[tuple[int, int] | None, str, bool]
"""The rows that a message seems to have held, its fault, and whether it has its full length."""


def _frame_at(file: BinaryIO, at: int, size: int) -> Frame | _Bad:
    """Return the message at this offset of the file, or its fault."""
    head = os.pread(file.fileno(), _HEAD_BYTES, at)
    if len(head) < _HEAD_BYTES:
        return None, "too short for a batch", False
    length = int.from_bytes(head[4:], "little")
    if head[:4] != _HEAD or length > _MOST_METADATA_BYTES:
        return None, "no batch begins here", False
    mark = _MARK.search(os.pread(file.fileno(), length, at + _HEAD_BYTES))
    if mark is None or zlib.crc32(mark[2]) != int(mark[7], 16):
        return None, "a batch without its checksum", False
    first, count = int(mark[5]), int(mark[6])
    rows = (first, first + count - 1) if count else None
    if int(mark[3]) != at:
        return None, "a batch that belongs elsewhere", False
    if at + int(mark[4]) > size:
        return rows, "the batch is cut off", False
    data = os.pread(file.fileno(), int(mark[4]), at)
    if _crc(data, _HEAD_BYTES + mark.start(1)) != int(mark[1], 16):
        return rows, "the checksum is wrong", True
    return Frame(at, data, first, count)


def _crc(data: bytes, crc_at: int) -> int:
    view = memoryview(data)
    crc = zlib.crc32(_NO_CRC, zlib.crc32(view[:crc_at]))
    return zlib.crc32(view[crc_at + len(_NO_CRC) :], crc)


def _next_frame(file: BinaryIO, start: int, size: int) -> int | None:
    """Return the offset of the next whole message, at or after an offset; None without one."""
    overlap = _MARK_BYTES
    for at in range(start, size, _SEARCH_BYTES):
        for mark in _MARK.finditer(os.pread(file.fileno(), _SEARCH_BYTES + overlap, at)):
            stands = int(mark[3])
            if start <= stands < size and isinstance(_frame_at(file, stands, size), Frame):
                return stands
    return None


_MARK_BYTES: Final = len(_mark(0, 0, 0))
