"""An outbox: the messages of a sender on its disk, until the daemons have them for good.

::

    outbox = gc.Outbox("orders-outbox")
    async with gc.connect(reconnect=True, exactly_once=outbox) as connection:
        await connection.multicast("orders", b"sell 3 at 100")  # it is on the disk now

So the line of a sender outlasts its program: the next program with the same outbox sends what the
daemons have not delivered. docs/exactly-once.md has what is promised, and the file.

The file has a head, and a frame for each write::

    head   "groupcomm outbox 1\\n", id of the line (16 bytes), CRC-32 of both u32
    frame  length of the body u32, CRC-32 of the body u32, CRC-32 of these 8 bytes u32, body

A frame is written only once the one before is on the disk; so a crash can cut the last one alone,
whose messages no call has returned for.
"""

import fcntl
import os
import secrets
import struct
import threading
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from groupcomm.errors import GroupCommError, InDoubt, LocalProtocolError
from groupcomm.events import LineGranted
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import LINE_BYTES
from groupcomm_client.line import Line, Sent
from groupcomm_log.disk import Disk

NAME: Final = "outbox"
COMPACT_BYTES: Final = 4 * 1024 * 1024
"""A file this large is written anew, without what has been answered, once that is most of it."""

_BLOCK_BYTES: Final = 512  # what a disk writes at once, at least
_MAGIC: Final = b"groupcomm outbox 1\n"
_CRC = struct.Struct("!I")
_FRAME = struct.Struct("!III")
_HEAD_BYTES: Final = len(_MAGIC) + LINE_BYTES + _CRC.size

AfterDoubt: TypeAlias = Literal["raise", "send", "drop"]

_Row: TypeAlias = tuple[int, tuple[str, ...], bytes, ServiceLevel, int, bool]


class OutboxFailed(GroupCommError):
    """Raised if an outbox cannot be read or written; the text says what to do."""


class _Frame(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What one write has added.

    `stored`: the number of all messages that were ever stored. `answered`: up to this number all
    have their answers. `table`, `forgotten`: what the last session was told. `rows`: messages.
    """

    stored: int
    answered: int
    table: bytes
    forgotten: int
    rows: tuple[_Row, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Frame).decode


class Outbox:
    """The outbox of one sender, for `connect(reconnect=True, exactly_once=Outbox(folder))`.

    Args:
        folder: its folder, which is made if it is not there. One program uses it at a time.
        in_doubt: what happens to messages that may have been delivered or not, as the daemons
            cannot know it any more: "raise" has `connect` and all calls raise `InDoubt`; "send"
            sends them again, which may double them; "drop" does not, which may lose them.

    Raises:
        LocalProtocolError: `in_doubt` is none of these.

    Attributes:
        file: its file.
    """

    def __init__(self, folder: str | os.PathLike[str], *, in_doubt: AfterDoubt = "raise") -> None:
        if in_doubt not in ("raise", "send", "drop"):
            raise LocalProtocolError(f"in_doubt is {in_doubt!r}; write 'raise', 'send' or 'drop'")
        self.file = OutboxFile(Path(folder), in_doubt)

    @property
    def stored(self) -> int:
        """Return how many messages were stored in it, by all programs, once it is connected."""
        return self.file.stored


class OutboxFile:
    """The file of an outbox.

    Args:
        folder: its folder.
        in_doubt: see `Outbox`.
        disk: its disk; the real one if None.

    Attributes:
        stored: see `Outbox`.
    """

    def __init__(
        self, folder: Path, in_doubt: AfterDoubt = "raise", disk: Disk | None = None
    ) -> None:
        self.stored = 0
        self._folder, self._after_doubt = folder, in_doubt
        self._disk = disk or Disk()
        self._lock = -1  # the descriptor of the folder, which is locked
        self._size = 0
        self._failed = ""
        self._noted = (b"", 0)
        self._writing = threading.Lock()

    @property
    def _path(self) -> Path:
        return self._folder / NAME

    # ---- its program begins and ends ----

    def open(self) -> "StoredLine":
        """Lock it, and return its line with the messages without an answer.

        Raises:
            OutboxFailed: another program uses it, it is damaged, or it cannot be read.
        """
        try:
            self._disk.make_folder(self._folder.absolute())
            self._lock = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise OutboxFailed(f"outbox {self._folder}: another program uses it") from None
        except OSError as error:
            self.close()
            raise OutboxFailed(f"outbox {self._folder}: {error}") from error
        try:
            return self._read()
        except OSError as error:
            self.close()
            raise OutboxFailed(f"outbox {self._path} cannot be read: {error}") from error
        except OutboxFailed:
            self.close()
            raise

    def finish(self, line: "StoredLine") -> None:
        """Note what has been answered, and let another program use it."""
        if self._lock >= 0 and not self._failed:
            with suppress(OSError):  # then the next program asks the daemons
                self._rewrite(line)
        self.close()

    def close(self) -> None:
        """Let another program use it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _read(self) -> "StoredLine":
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            line = StoredLine(self, secrets.token_bytes(LINE_BYTES), self._after_doubt)
            self._rewrite(line)
            return line
        head = data[:_HEAD_BYTES]
        if len(head) < _HEAD_BYTES or _CRC.pack(zlib.crc32(head[:-4])) != head[-4:]:
            raise self._damaged(0)
        line_id = head[len(_MAGIC) : -4]
        if not head.startswith(_MAGIC):
            raise OutboxFailed(f"{self._path} is no outbox of this release; name another folder")
        line = StoredLine(self, line_id, self._after_doubt)
        self._size = self._restore(line, data)
        self._noted = line.known_table
        if self._size < len(data):
            with self._disk.opened(self._path) as file:
                self._disk.truncate(file, self._size)
                self._disk.sync(file)
        return line

    def _restore(self, line: "StoredLine", data: bytes) -> int:
        """Take over all frames; return where the last whole one ends."""
        at = _HEAD_BYTES
        while at < len(data):
            end = self._end_of_frame(data, at)
            if end is None:
                return at
            try:
                frame = _decode(data[at + _FRAME.size : end])
            except msgspec.MsgspecError:
                raise self._damaged(at) from None
            self.stored = frame.stored
            line.restore(frame.table, frame.forgotten, [Sent(*row, False) for row in frame.rows])
            line.answer(frame.answered)
            line.last = max(line.last, frame.answered)
            at = end
        return at

    def _end_of_frame(self, data: bytes, at: int) -> int | None:
        """Return where a frame ends; None if it was cut by a crash while it was written."""
        head = data[at : at + _FRAME.size]
        if len(head) < _FRAME.size:
            return None
        size, of_body, of_head = _FRAME.unpack(head)
        end: int = at + _FRAME.size + size
        if zlib.crc32(head[:8]) == of_head:
            if end > len(data):
                return None
            if zlib.crc32(data[at + _FRAME.size : end]) == of_body:
                return end
        block = max(at, len(data) - (len(data) % _BLOCK_BYTES or _BLOCK_BYTES))
        is_last = zlib.crc32(head[:8]) != of_head or end == len(data)
        if is_last and not any(data[block:]):
            return None  # the size of the file was on the disk before all of its blocks
        raise self._damaged(at)

    def _damaged(self, at: int) -> OutboxFailed:
        return OutboxFailed(
            f"outbox {self._path} is damaged at byte {at}: what stands there may never have been"
            f" sent. Nothing was changed: restore the file from a copy; or keep one, cut it there"
            f" with truncate -s {at}, and send by hand what it had behind"
        )

    # ---- what it stores ----

    def store(self, line: "StoredLine", messages: list[Sent]) -> None:
        """Store messages; return once the disk has them.

        Raises:
            OutboxFailed: it does not; the messages are not stored, and not to be sent.
        """
        with self._writing:
            if self._failed:
                raise OutboxFailed(self._failed)
            if not messages and self._noted == line.known_table:
                return
            self.stored += len(messages)
            try:
                if self._size > COMPACT_BYTES and self._size > 2 * line.size:
                    self._rewrite(line, messages)
                else:
                    self._append(line, messages)
            except OSError as error:
                self.stored -= len(messages)
                raise OutboxFailed(self._failed or self._text_of(error)) from error
            self._noted = line.known_table

    def _text_of(self, error: OSError) -> str:
        return (
            f"outbox {self._path} cannot be written: {error}. The message was not sent, and all"
            " earlier ones are safe: make room, and send it again"
        )

    def _append(self, line: "StoredLine", messages: list[Sent]) -> None:
        frame = self._frame(line, messages)
        with self._disk.opened(self._path) as file:
            try:
                self._disk.write(file, memoryview(frame), self._size)
            except OSError:
                self._disk.truncate(file, self._size)
                raise
            try:
                self._disk.sync(file)
            except OSError as error:  # nobody knows what the disk has now
                self._failed = (
                    f"outbox {self._path}: {error}. The disk may be broken; whether the last"
                    " messages are stored is known once the outbox is opened again"
                )
                raise
        self._size += len(frame)

    def _rewrite(self, line: "StoredLine", messages: list[Sent] | None = None) -> None:
        """Write the file anew: what has no answer, and these messages."""
        head = _MAGIC + line.id
        frame = self._frame(line, [*line.kept, *(messages or ())])
        data = head + _CRC.pack(zlib.crc32(head)) + frame
        self._disk.replace(self._path, data)
        self._size = len(data)

    def _frame(self, line: "StoredLine", messages: list[Sent]) -> bytes:
        rows = tuple(
            (m.number, m.groups, m.data, m.level, m.type, m.self_discard) for m in messages
        )
        body = _encode(_Frame(self.stored, line.answered, *line.known_table, rows))
        head = _FRAME.pack(len(body), zlib.crc32(body), 0)[:8]
        return head + _CRC.pack(zlib.crc32(head)) + body


class StoredLine(Line):
    """A line whose messages are in an outbox.

    Attributes:
        outbox: its file.
    """

    __slots__ = ("_after_doubt", "outbox")

    def __init__(self, outbox: OutboxFile, line_id: bytes, after_doubt: AfterDoubt) -> None:
        super().__init__()
        self.id, self.outbox, self._after_doubt = line_id, outbox, after_doubt

    def restore(self, table: bytes, forgotten: int, messages: list[Sent]) -> None:
        """Take over what the outbox has."""
        self._table = (table, forgotten) if table else None
        for sent in messages:
            self.add(sent)

    def begin(self, granted: LineGranted) -> list[Sent]:
        """Begin a session; see `Line.begin`."""
        try:
            again = super().begin(granted)
        except InDoubt:
            if self._after_doubt == "raise":
                raise
            if self._after_doubt == "drop":
                self.answer(self.last)
            self._table = None
            again = super().begin(granted)
        try:
            self.outbox.store(self, [])  # before anything is sent that this table is to know
        except OutboxFailed as error:
            raise InDoubt(len(self.kept), str(error)) from error
        return again
