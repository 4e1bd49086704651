"""A place to read from is of one log alone: not of one recorded anew, nor of a copy."""

import json
import shutil
from pathlib import Path

import pytest

from groupcomm_client.committed.log import CommittedLog
from groupcomm_log.errors import LogError, LogRemoved, LogReplaced
from groupcomm_log.manifest import MANIFEST, MOST_EPOCHS, Manifest, read_manifest
from groupcomm_log.reader import BEGIN, LogReader, find_start, parse_start
from groupcomm_log.schema import MESSAGE, Offset, rows_of
from groupcomm_log.writer import Limits, LogWriter
from tests.groupcomm_log.make import (
    FailingDisk,
    QuickDisk,
    append,
    contents,
    crash,
    live_file,
    open_log,
)


def record(folder: Path, rows: int, *, is_open: bool = False) -> LogWriter:
    """Continue a log by some rows, in an epoch of its own."""
    writer = LogWriter(folder, disk=QuickDisk())
    writer.append(rows_of([{"kind": MESSAGE, "sender": "#a#b"}] * rows))
    if not is_open:
        writer.close()
    return writer


def rows_from(folder: Path, start: Offset) -> list[int]:
    batches = LogReader(folder).batches(start, columns=["row"])
    return [row for batch in batches for row in batch["row"].to_pylist()]


@pytest.mark.parametrize("rows", [1, 10, 30])
def test_a_log_that_was_recorded_anew_is_not_read_from_a_place_of_the_old_one(
    tmp_path: Path, rows: int
) -> None:
    record(tmp_path, 10)
    reader = LogReader(tmp_path)
    end = reader.end()
    committed = CommittedLog(reader, ["g"])
    assert [*committed.read()] == []
    shutil.rmtree(tmp_path)
    record(tmp_path, rows)
    assert rows_from(tmp_path, BEGIN) == [*range(rows)]
    for read in (
        lambda: rows_from(tmp_path, end),
        lambda: [*reader.batches(end)],
        lambda: [*committed.read()],
        lambda: [*CommittedLog(LogReader(tmp_path), ["g"], committed.state).read()],
        lambda: find_start(reader, parse_start(f"row:{end.epoch}:3")),
    ):
        with pytest.raises(LogReplaced, match="is of another log: this one was recorded anew"):
            read()


def test_a_log_that_is_recorded_anew_while_it_is_read_is_not_read_on(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, Limits(seal_bytes=1), disk=QuickDisk())
    for number in range(3):
        append(writer, b"%d" % number)
    writer.close()
    batches = LogReader(tmp_path).batches(columns=["row"])
    assert next(batches)["row"].to_pylist() == [0]
    shutil.rmtree(tmp_path)
    record(tmp_path, 30)
    with pytest.raises(LogReplaced, match="row 1 of epoch"):
        next(batches)


def test_a_copy_that_was_continued_is_not_read_from_what_it_has_not(tmp_path: Path) -> None:
    """The copy is of a closed log: the epoch that was read behind it is not in the copy."""
    log, copy = tmp_path / "log", tmp_path / "copy"
    first = record(log, 5)
    shutil.copytree(log, copy)
    record(log, 5)
    end = LogReader(log).end()
    assert rows_from(copy, Offset(first.epoch, 5)) == []
    shutil.rmtree(log)
    copy.rename(log)
    record(log, 20)
    with pytest.raises(LogReplaced, match="is of another log"):
        rows_from(log, end)
    assert rows_from(log, Offset(first.epoch, 5)) == [*range(5, 25)], "what both have had counts"


def test_a_copy_of_a_log_at_work_is_not_read_from_rows_that_it_has_not(tmp_path: Path) -> None:
    """The copy has a part of the epoch, and another one follows: rows that were read are gone."""
    log, copy = tmp_path / "log", tmp_path / "copy"
    writer = record(log, 5, is_open=True)
    shutil.copytree(log, copy)
    append(writer, b"x", b"y")
    end = LogReader(log).end()
    crash(writer)
    assert rows_from(copy, end) == [], "a disk that has failed gets these rows again"
    record(copy, 20)
    with pytest.raises(LogReplaced, match="ends before row 5, and rows up to 6 were read"):
        rows_from(copy, end)
    reader = LogReader(copy)
    reader.check(end, may_lack=True)
    found = find_start(reader, parse_start(f"row:{end.epoch}:{end.row}"))
    assert rows_from(copy, found) == [*range(5, 25)]


def test_a_log_of_an_earlier_release_is_read_and_continued(tmp_path: Path) -> None:
    for rows in (2, 3):
        writer = open_log(tmp_path, disk=QuickDisk())
        append(writer, *[b"x"] * rows)
        writer.close()
    for manifest in ('{"format": 1, "kept_from": 0}', None):
        path = tmp_path / MANIFEST
        path.unlink() if manifest is None else path.write_text(manifest)
        assert rows_from(tmp_path, Offset(1, 1)) == [1, 2, 3, 4]
        with pytest.raises(LogReplaced, match="row 1 of epoch 3 is of another log"):
            rows_from(tmp_path, Offset(3, 1))
    later = record(tmp_path, 1)
    assert rows_from(tmp_path, Offset(1, 1)) == [1, 2, 3, 4, 5]
    assert read_manifest(tmp_path) == Manifest(0, (1, 2, later.epoch))


def test_rows_that_retention_has_removed_are_told_at_the_start(tmp_path: Path) -> None:
    starts = []
    for _ in range(2):
        writer = LogWriter(tmp_path, Limits(seal_bytes=1, keep_bytes=1), disk=QuickDisk())
        starts.append(append(writer, b"x"))
        append(writer, b"y")
        writer.close()
    assert contents(tmp_path, "row") == [(3,)]
    for start in starts:
        with pytest.raises(LogRemoved, match=rf"rows {start.row} to 2 were removed before"):
            rows_from(tmp_path, start)
        assert rows_from(tmp_path, LogReader(tmp_path).next_existing(start)) == [3]
    assert rows_from(tmp_path, starts[1]._replace(row=3)) == [3]


def test_an_epoch_that_a_power_failure_took_whole_is_of_the_log(tmp_path: Path) -> None:
    """It is in the manifest before its first row is: so a reader that saw rows of it is told."""
    first = record(tmp_path, 3)
    lost = record(tmp_path, 2, is_open=True)
    end = LogReader(tmp_path).end()
    assert end == (lost.epoch, 5)
    live_file(tmp_path).write_bytes(b"")
    crash(lost)
    assert LogReader(tmp_path).end() == (first.epoch, 3)
    record(tmp_path, 4)
    assert rows_from(tmp_path, Offset(lost.epoch, 3)) == [3, 4, 5, 6]
    with pytest.raises(LogReplaced, match="ends before row 3, and rows up to 4 were read"):
        rows_from(tmp_path, end)


def test_no_place_is_in_an_epoch_without_rows(tmp_path: Path) -> None:
    """Its recorder ended before it had written any, and no later one has that epoch."""
    disk = FailingDisk(failing=["write"])
    writer = LogWriter(tmp_path, disk=disk)
    with pytest.raises(OSError, match="No space left"):
        append(writer, b"x")
    reader = LogReader(tmp_path)
    assert live_file(tmp_path).exists()
    assert (reader.begin(), reader.end()) == (BEGIN, BEGIN)
    crash(writer)
    record(tmp_path, 1)
    assert reader.begin().epoch > writer.epoch


def test_an_epoch_that_cannot_be_noted_gets_no_row(tmp_path: Path) -> None:
    disk = FailingDisk()
    writer = LogWriter(tmp_path, disk=disk)
    for call in ("synced_file", "rename"):
        disk.failing = {call}
        with pytest.raises(OSError, match="No space left"):
            append(writer, b"x")
        assert LogReader(tmp_path).segments() == []
    disk.failing = set()
    append(writer, b"x")
    assert read_manifest(tmp_path) == Manifest(0, (writer.epoch,))
    writer.close()


def test_a_manifest_lists_so_many_epochs(tmp_path: Path) -> None:
    manifest = Manifest(7, tuple(range(MOST_EPOCHS))).with_epochs(5000)
    assert manifest == Manifest(7, (*range(1, MOST_EPOCHS), 5000))
    path = tmp_path / MANIFEST
    path.write_bytes(manifest.encode())
    assert read_manifest(tmp_path) == manifest
    for damaged in ("[]", "1", "{}", json.dumps({"kept_from": "x"}), "{"):
        path.write_text(damaged)
        for use in (lambda: LogWriter(tmp_path), lambda: read_manifest(tmp_path)):
            with pytest.raises(LogError, match="no recorder wrote this file; restore it"):
                use()
