"""The file of an archive's cursors, in the folder of its log.

It always holds the new entries or the old ones, as JSON that people can read: a line with a
checksum, and a line for each cursor.
"""

import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from groupcomm.clocks.stamp import format_position, parse_position
from groupcomm_client.history.cursors import CursorEntry
from groupcomm_log.disk import Disk
from groupcomm_log.errors import LogError

NAME: Final = "cursors.json"

FORMAT: Final = 1


class _Head(msgspec.Struct):
    format: int
    crc: int


class _Row(msgspec.Struct):
    name: str
    groups: tuple[str, ...]
    generation: int
    position: str | None
    by: str


class CursorFile:
    """The file; its calls block."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        """Begin with a folder, which exists.

        Args:
            folder: the folder of the log.
            disk: its disk; the real one if None.
        """
        self._path = folder / NAME
        self._disk = disk or Disk()

    def read(self) -> tuple[CursorEntry, ...]:
        """Return the entries that were written last; none if there is no file.

        Raises:
            LogError: the file is damaged, or a later release has written it.
            OSError: it cannot be read.
        """
        try:
            head, _, body = self._path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return ()
        try:
            found = msgspec.json.decode(head, type=_Head)
            if found.format > FORMAT:
                raise LogError(
                    f"{self._path} has format {found.format}, and this release reads and writes"
                    f" format {FORMAT}: use the release that wrote it, or a later one"
                )
            if found.format != FORMAT:
                raise ValueError(f"there is no format {found.format}")
            if found.crc != zlib.crc32(body):
                raise ValueError("its checksum does not match")
            rows = [msgspec.json.decode(line, type=_Row) for line in body.splitlines()]
            return tuple(
                CursorEntry(
                    *(row.name, row.groups, row.generation),
                    None if row.position is None else parse_position(row.position),
                    row.by,
                )
                for row in rows
            )
        except (ValueError, msgspec.MsgspecError) as error:
            raise LogError(
                f"{self._path} is damaged: {error}. Remove it: then the archive gets the cursors of"
                " the other archives; without others, cursors are lost, and programs begin as with"
                " new ones"
            ) from None

    def write(self, entries: Iterable[CursorEntry]) -> None:
        """Write entries in place of the old ones; they are on disk then.

        Raises:
            OSError: they are not; the file is as before, or complete.
        """
        lines = [
            json.dumps(
                {
                    "name": entry.name,
                    "groups": entry.groups,
                    "generation": entry.generation,
                    "position": entry.position and format_position(entry.position),
                    "by": entry.by,
                },
                ensure_ascii=False,
            )
            for entry in entries
        ]
        body = "\n".join(lines).encode()
        head = json.dumps({"format": FORMAT, "crc": zlib.crc32(body)}).encode()
        self._disk.replace(self._path, head + b"\n" + body)
