"""An outbox: what it holds after crashes, on full and damaged disks, and what is sent then."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupcomm.errors import InDoubt, LocalProtocolError
from groupcomm.events import LineGranted
from groupcomm.level import ServiceLevel
from groupcomm_client import outbox as module
from groupcomm_client.line import BEFORE_FIRST, Sent
from groupcomm_client.outbox import Outbox, OutboxFailed, OutboxFile, StoredLine
from groupcomm_log.disk import Disk

TABLE, OTHER = b"t" * 16, b"o" * 16


class Quick(Disk):
    """A disk that is not waited for."""

    def sync(self, descriptor: int) -> None:
        """Do nothing."""

    def sync_folder(self, folder: Path) -> None:
        """Do nothing."""


def message(number: int, size: int = 3) -> Sent:
    data = b"%d" % number + bytes(size)
    return Sent(BEFORE_FIRST + number, ("g", "h"), data, ServiceLevel.SAFE, 7, True, False)


def numbers(line: StoredLine) -> list[int]:
    return [sent.number - BEFORE_FIRST for sent in line.kept]


def stored(folder: Path, count: int, **options: Any) -> tuple[OutboxFile, StoredLine]:
    """An open outbox with messages 1 to `count`, each stored by itself."""
    outbox = OutboxFile(folder, **options)
    line = outbox.open()
    line.begin(LineGranted(last=0, table=TABLE, forgotten=0))
    for number in range(1, count + 1):
        outbox.store(line, [message(number)])
        line.add(message(number))
    return outbox, line


def test_the_next_program_has_what_has_no_answer(tmp_path: Path) -> None:
    outbox, line = stored(tmp_path / "out", 5)
    line.answer(BEFORE_FIRST + 2)
    outbox.store(line, [message(6)])
    outbox.close()  # the program ends
    after = OutboxFile(tmp_path / "out")
    again = after.open()
    assert numbers(again) == [3, 4, 5, 6]
    assert (again.id, again.last, again.known_table, after.stored) == (
        line.id,
        BEFORE_FIRST + 6,
        (TABLE, 0),
        6,
    )
    first = again.kept[0]
    assert (first.groups, first.data, first.level) == (("g", "h"), b"3\0\0\0", ServiceLevel.SAFE)
    assert (first.type, first.self_discard) == (7, True)


def test_an_orderly_end_leaves_nothing_that_was_answered(tmp_path: Path) -> None:
    outbox, line = stored(tmp_path, 50, disk=Quick())
    line.answer(BEFORE_FIRST + 50)
    outbox.finish(line)
    assert (tmp_path / module.NAME).stat().st_size < 150
    again = OutboxFile(tmp_path).open()
    assert (numbers(again), again.last) == ([], BEFORE_FIRST + 50)


@given(cut=st.integers(1, 60))
@settings(max_examples=20)
def test_a_crash_cuts_only_what_no_call_has_returned_for(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("out")
    outbox, _ = stored(folder, 4, disk=Quick())
    outbox.close()
    path = folder / module.NAME
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    after = OutboxFile(folder)
    again = after.open()
    assert numbers(again) == list(range(1, len(numbers(again)) + 1))
    assert len(numbers(again)) >= 4 - (cut + 39) // 40
    after.store(again, [message(9)])
    after.close()
    assert numbers(OutboxFile(folder).open()) == [*numbers(again), 9]


def test_blocks_that_were_not_written_are_cut(tmp_path: Path) -> None:
    outbox, _ = stored(tmp_path, 3)
    outbox.close()
    with (tmp_path / module.NAME).open("ab") as file:
        file.write(bytes(1000))
    assert numbers(OutboxFile(tmp_path).open()) == [1, 2, 3]


@given(at=st.floats(0, 0.9), bit=st.integers(0, 7))
@settings(max_examples=30)
def test_damage_is_an_error_that_names_the_place_and_changes_nothing(
    at: float, bit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("out")
    outbox, _ = stored(folder, 20, disk=Quick())
    outbox.close()
    path = folder / module.NAME
    damaged = bytearray(path.read_bytes())
    damaged[int(at * len(damaged))] ^= 1 << bit
    path.write_bytes(damaged)
    with pytest.raises(OutboxFailed, match=r"damaged at byte \d+|no outbox of this release"):
        OutboxFile(folder).open()
    assert path.read_bytes() == damaged
    with pytest.raises(OutboxFailed, match="damaged"):  # it is not locked any more
        OutboxFile(folder).open()


def test_two_programs_do_not_share_one(tmp_path: Path) -> None:
    outbox, line = stored(tmp_path, 1)
    with pytest.raises(OutboxFailed, match="another program uses it"):
        OutboxFile(tmp_path).open()
    outbox.finish(line)
    assert numbers(OutboxFile(tmp_path).open()) == [1]


class FullDisk(Disk):
    """A disk with room for so many bytes, whose syncs may fail."""

    def __init__(self) -> None:
        self.room = 10_000
        self.syncs = True

    def write(self, descriptor: int, data: memoryview, at: int) -> None:
        if len(data) > self.room:
            os.pwrite(descriptor, data[: self.room], at)
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(descriptor, data, at)

    def sync(self, descriptor: int) -> None:
        if not self.syncs:
            raise OSError(errno.EIO, "Input/output error")
        super().sync(descriptor)


def test_a_full_disk_refuses_a_message_and_loses_none(tmp_path: Path) -> None:
    disk = FullDisk()
    outbox, line = stored(tmp_path, 3, disk=disk)
    disk.room = 20
    with pytest.raises(OutboxFailed, match=r"No space left on device.*was not sent"):
        outbox.store(line, [message(4, 500)])
    disk.room = 10_000
    outbox.store(line, [message(4)])
    outbox.close()
    assert numbers(OutboxFile(tmp_path).open()) == [1, 2, 3, 4]


def test_a_disk_that_does_not_sync_stores_nothing_more(tmp_path: Path) -> None:
    disk = FullDisk()
    outbox, line = stored(tmp_path, 1, disk=disk)
    disk.syncs = False
    for _ in range(2):
        with pytest.raises(OutboxFailed, match="Input/output error"):
            outbox.store(line, [message(2)])
        disk.syncs = True  # a later sync says nothing about what was lost


def test_the_file_is_written_anew_without_what_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMPACT_BYTES", 3000)
    outbox, line = stored(tmp_path, 1, disk=Quick())
    for number in range(2, 200):
        line.answer(BEFORE_FIRST + number - 2)
        outbox.store(line, [message(number)])
        line.add(message(number))
    outbox.close()
    assert (tmp_path / module.NAME).stat().st_size < 4000
    assert numbers(OutboxFile(tmp_path).open())[-2:] == [198, 199]


def test_what_nobody_knows_is_decided_by_the_program(tmp_path: Path) -> None:
    outbox, _ = stored(tmp_path, 3)
    outbox.close()
    lost = LineGranted(last=0, table=OTHER, forgotten=0)
    first = OutboxFile(tmp_path)
    with pytest.raises(InDoubt, match="3 messages"):
        first.open().begin(lost)
    first.close()
    second = OutboxFile(tmp_path, in_doubt="send")
    line = second.open()
    assert line.begin(lost) == list(line.kept)
    assert numbers(line) == [1, 2, 3]
    second.close()
    third = OutboxFile(tmp_path, in_doubt="drop")
    line = third.open()
    assert numbers(line) == [1, 2, 3]
    again = LineGranted(last=0, table=TABLE, forgotten=0)
    assert line.begin(again) == []
    with pytest.raises(LocalProtocolError, match="in_doubt"):
        Outbox(tmp_path, in_doubt="no")  # type: ignore[arg-type]
