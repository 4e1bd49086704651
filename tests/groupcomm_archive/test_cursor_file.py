"""The file of cursors: whole or as before, and an error that names the remedy if it is damaged."""

from pathlib import Path

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm_archive.cursor_file import NAME, CursorFile
from groupcomm_client.history.cursors import CursorEntry
from groupcomm_log.disk import Disk
from groupcomm_log.errors import LogError

ENTRIES = (
    CursorEntry("bills", ("orders",), 0, Position(ViewId(3, "a", 15), 9, 1, 2, -1), "#p#a"),
    CursorEntry('ö"\n', ("a b", "c"), 7, None, ""),
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = CursorFile(tmp_path)
    assert file.read() == ()
    for entries in (ENTRIES, ENTRIES[:1], ()):
        file.write(entries)
        assert file.read() == entries
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert (tmp_path / NAME).stat().st_mode & 0o077 == 0


def test_every_damaged_byte_is_found(tmp_path: Path) -> None:
    file = CursorFile(tmp_path)
    file.write(ENTRIES)
    written = (tmp_path / NAME).read_bytes()
    for at in range(len(written)):
        (tmp_path / NAME).write_bytes(written[:at] + bytes((written[at] ^ 1,)) + written[at + 1 :])
        with pytest.raises(LogError, match=r"cursors\.json"):
            file.read()
        (tmp_path / NAME).write_bytes(written[:at])
        with pytest.raises(LogError, match=r"damaged.*Remove it"):
            file.read()


def test_a_file_of_a_later_release_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b'{"format": 2, "crc": 0}\n')
    with pytest.raises(LogError, match="use the release that wrote it"):
        CursorFile(tmp_path).read()


class FailingDisk(Disk):
    def rename(self, old: Path, new: Path) -> None:
        raise OSError("no space")


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    CursorFile(tmp_path).write(ENTRIES)
    with pytest.raises(OSError, match="no space"):
        CursorFile(tmp_path, FailingDisk()).write(())
    assert CursorFile(tmp_path).read() == ENTRIES
