"""The writer of a log: acknowledged rows stay, whatever happens to it and its disk."""

import errno
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm_log.errors import Damage, LogBusy
from groupcomm_log.live import read_frames
from groupcomm_log.names import list_segments
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import GAP, KINDS, MESSAGE, SCHEMA, Offset, rows_of
from groupcomm_log.sealed import read_sealed
from groupcomm_log.writer import Limits
from tests.groupcomm_log.make import (
    FailingDisk,
    QuickDisk,
    append,
    contents,
    crash,
    live_file,
    open_log,
)

BATCHES = st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=5), min_size=1, max_size=6)


def flat(batches: Iterable[list[bytes]]) -> list[bytes]:
    return [*chain.from_iterable(batches)]


def numbered(*data: bytes, epoch: int = 1, start: int = 0) -> list[tuple[int, int, bytes]]:
    return [(epoch, start + at, each) for at, each in enumerate(data)]


@given(batches=BATCHES, seal_at=st.integers(0, 6), cut=st.floats(0, 1))
def test_a_crash_in_any_byte_of_a_write_loses_nothing_that_was_acknowledged(
    batches: list[list[bytes]], seal_at: int, cut: float
) -> None:
    """The last batch is cut off anywhere; the rest was acknowledged, and some of it sealed."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        writer = open_log(folder, disk=QuickDisk())
        *acknowledged, last = batches
        for at, batch in enumerate(acknowledged):
            append(writer, *batch)
            if at == seal_at:
                writer._roll()
                writer.tend()
        before = sum((path.stat().st_size for path in folder.glob("_live-*")), 0)
        append(writer, *last)
        live = live_file(folder)
        whole = live.stat().st_size
        size = before + round(cut * (whole - before))
        with live.open("r+b") as file:
            file.truncate(size)
        crash(writer)

        after = open_log(folder, disk=QuickDisk())
        kept = flat(batches if size == whole else acknowledged)
        assert after.next_row == len(kept)
        assert bool(after.found.damage) == (before < size < whole)
        append(after, b"behind")
        again = [(2, len(kept), b"behind")]
        assert contents(folder) == numbered(*kept) + again
        after.close()
        assert contents(folder) == numbered(*kept) + again
        assert not list(folder.glob("_live-*"))


@given(batches=BATCHES, lost=st.floats(0, 1))
def test_of_a_live_file_that_lost_its_end_the_batches_before_are_read(
    batches: list[list[bytes]], lost: float
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        writer = open_log(folder, disk=QuickDisk())
        ends = [0]
        for batch in batches:
            append(writer, *batch)
            ends.append(live_file(folder).stat().st_size)
        size = round(lost * ends[-1])
        with live_file(folder).open("r+b") as file:
            file.truncate(size)
        crash(writer)
        whole = sum(end <= size for end in ends[1:])
        expected = numbered(*flat(batches[:whole]))
        assert contents(folder) == expected
        open_log(folder, disk=QuickDisk()).close()
        assert contents(folder) == expected


@given(data=st.data(), batches=BATCHES)
def test_a_flipped_bit_in_a_live_file_is_found_and_costs_one_batch(
    data: st.DataObject, batches: list[list[bytes]]
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        writer = open_log(folder, disk=QuickDisk())
        for batch in batches:
            append(writer, *batch)
        crash(writer)
        live = live_file(folder)
        content = bytearray(live.read_bytes())
        bit = data.draw(st.integers(0, 8 * len(content) - 1))
        frames = [frame for frame in read_frames(live) if not isinstance(frame, Damage)]
        content[bit // 8] ^= 1 << bit % 8
        live.write_bytes(content)
        hit = next(frame for frame in frames if frame.at <= bit // 8 < frame.end)

        (damage,) = [each for each in read_frames(live) if isinstance(each, Damage)]
        assert (damage.path, damage.at, damage.size) == (live, hit.at, len(hit.data))
        writer = open_log(folder, disk=QuickDisk())
        assert writer.found.damage == [damage]
        append(writer, b"behind")
        writer.close()
        rows = contents(folder, "epoch", "row", "cause", "data")
        expected = dict(enumerate(flat(batches)))
        for row in range(hit.first, hit.first + hit.count):
            del expected[row]
        found = {row: told for epoch, row, cause, told in rows if epoch == 1 and cause is None}
        assert found == expected
        lost = [row for _, row, cause, _ in rows if cause == "damage"]
        assert lost == ([hit.first] if hit.count and not damage.torn else [])


def test_any_arrow_library_reads_a_live_file(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    append(writer, b"1", b"2")
    append(writer, b"3")
    with pa.ipc.open_stream(live_file(tmp_path).read_bytes()) as stream:
        assert stream.read_all()["data"].to_pylist() == [b"1", b"2", b"3"]
    writer.close()


@pytest.mark.parametrize("size", [1, 1000, 10_000_000])
def test_data_that_does_not_compress_is_written(tmp_path: Path, size: int) -> None:
    data = Random(1).randbytes(size)
    writer = open_log(tmp_path)
    append(writer, data, data)
    assert contents(tmp_path) == numbered(data, data)
    writer.close()


def test_any_parquet_library_reads_the_sealed_files(tmp_path: Path) -> None:
    writer = open_log(tmp_path, Limits(seal_bytes=1))
    append(writer, b"1", b"2")
    append(writer, b"3")
    (first, second) = writer.tend()
    assert first.name.startswith("000001-000000000000000-000000000000001-")
    assert second.name.startswith("000001-000000000000002-000000000000002-")
    writer.append(rows_of([{"kind": "message"}]))
    table = pyarrow.dataset.dataset(tmp_path).to_table()
    assert table["data"].to_pylist() == [b"1", b"2", b"3"]
    assert table.schema.equals(SCHEMA)
    assert all(field.nullable for field in table.schema)
    writer.close()


def test_a_file_may_have_several_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupcomm_log.sealed.GROUP_BYTES", 500)
    rows = [b"%d" % number for number in range(20)]
    writer = open_log(tmp_path)
    for row in rows:
        append(writer, row)
    (path,) = writer.close()
    assert 1 < pq.ParquetFile(path).num_row_groups < 20
    assert contents(tmp_path) == numbered(*rows)


@given(
    rows=st.lists(st.sampled_from(KINDS), min_size=1, max_size=30),
    wanted=st.sets(st.sampled_from(KINDS), min_size=1),
    group_bytes=st.sampled_from([1, 300, 10_000]),
)
def test_rows_of_some_kinds_are_read_whole(
    rows: list[str], wanted: set[str], group_bytes: int
) -> None:
    """Only messages and gaps have data; parts of a file without wanted ones are read without it."""
    kept = [
        {"kind": kind, "data": b"%d" % at if kind in (MESSAGE, GAP) else None}
        for at, kind in enumerate(rows)
    ]
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("groupcomm_log.sealed.GROUP_BYTES", group_bytes)
        writer = open_log(Path(folder), disk=QuickDisk())
        for row in kept:
            writer.append(rows_of([row]))
        writer.close()
        (segment,) = list_segments(Path(folder))
        found = [
            row
            for batch in read_sealed(segment, ["row", "kind", "data"], kinds=wanted)
            for row in batch.to_pylist()
            if row["kind"] in wanted
        ]
    every = [{"row": at, **row} for at, row in enumerate(kept)]
    assert found == [row for row in every if row["kind"] in wanted]


def test_files_are_sealed_by_time(tmp_path: Path) -> None:
    now = [1000.0]
    writer = open_log(tmp_path, Limits(seal_s=10), monotonic=lambda: now[0])
    append(writer, b"1")
    now[0] += 9
    assert writer.tend() == []
    append(writer, b"2")
    now[0] += 1
    assert len(writer.tend()) == 1
    assert contents(tmp_path) == numbered(b"1", b"2")
    writer.close()


def test_only_one_writes_to_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = open_log(tmp_path)
    monkeypatch.setattr("groupcomm_log.lock.PATIENCE_S", 0.0)
    with pytest.raises(LogBusy, match="another recorder writes to it"):
        open_log(tmp_path)
    writer.close()
    open_log(tmp_path).close()


def test_each_start_is_an_epoch_and_rows_go_on(tmp_path: Path) -> None:
    for number in range(3):
        writer = open_log(tmp_path)
        assert append(writer, b"%d" % number) == Offset(number + 1, number)
        writer.close()
    assert contents(tmp_path) == [(1, 0, b"0"), (2, 1, b"1"), (3, 2, b"2")]


# ---- a disk that fails ----


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize(
    "failing", [["write"], ["sync"], ["create"], ["sync", "truncate"], ["write", "truncate"]]
)
@pytest.mark.parametrize("rolled", [False, True])
def test_a_failed_write_can_be_tried_again(
    tmp_path: Path, error: int, failing: list[str], rolled: bool
) -> None:
    disk = FailingDisk(error)
    writer = open_log(tmp_path, disk=disk)
    append(writer, b"1")
    if rolled:
        writer._roll()
    disk.failing = set(failing)
    if failing == ["create"] and not rolled:
        disk.failing = {"write", "create"}
    for _ in range(2):
        with pytest.raises(OSError, match=r"\[Errno"):
            append(writer, b"2")
        assert contents(tmp_path)[:1] == numbered(b"1"), "what was acknowledged is there"
    disk.failing = set()
    append(writer, b"2", b"3")
    append(writer, b"4")
    assert contents(tmp_path) == numbered(b"1", b"2", b"3", b"4")
    writer.close()
    assert contents(tmp_path) == numbered(b"1", b"2", b"3", b"4")
    table = pyarrow.dataset.dataset(tmp_path).to_table()
    assert table["row"].to_pylist() == [0, 1, 2, 3], "none is twice in the files either"


@pytest.mark.parametrize("retried", [False, True])
def test_a_crash_behind_a_failed_sync_doubles_nothing(tmp_path: Path, retried: bool) -> None:
    """The file holds rows that were not acknowledged, and perhaps the next one has them, too."""
    disk = FailingDisk(errno.EIO)
    writer = open_log(tmp_path, disk=disk)
    append(writer, b"1")
    disk.failing = {"sync", "truncate"}
    with pytest.raises(OSError, match="Errno"):
        append(writer, b"2")
    if retried:
        disk.failing = set()
        append(writer, b"2", b"3")
    crash(writer)
    writer = open_log(tmp_path)
    rows = [b"1", b"2", b"3"][: 3 if retried else 2]
    assert writer.next_row == len(rows)
    append(writer, b"behind")
    writer.close()
    assert contents(tmp_path) == [*numbered(*rows), (2, len(rows), b"behind")]
    table = pyarrow.dataset.dataset(tmp_path).to_table()
    assert table["row"].to_pylist() == [*range(len(rows) + 1)]


@pytest.mark.parametrize("call", ["synced_file", "fill", "rename", "remove"])
def test_a_file_that_cannot_be_sealed_is_sealed_later(tmp_path: Path, call: str) -> None:
    disk = FailingDisk()
    writer = open_log(tmp_path, Limits(seal_bytes=1), disk=disk)
    append(writer, b"1")
    disk.failing = {call}
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            writer.tend()
        assert contents(tmp_path) == numbered(b"1")
        assert call == "rename" or not list(tmp_path.glob(".*")), "a part takes no room"
    append(writer, b"2")
    disk.failing = set()
    writer.tend()
    assert contents(tmp_path) == numbered(b"1", b"2")
    assert len(list(tmp_path.glob("*.parquet"))) == 2
    assert not [*tmp_path.glob("_live-*"), *tmp_path.glob(".*")]
    writer.close()


@pytest.mark.parametrize("call", ["synced_file", "rename", "remove"])
def test_a_crash_while_sealing_doubles_nothing(tmp_path: Path, call: str) -> None:
    disk = FailingDisk(failing=[])
    writer = open_log(tmp_path, Limits(seal_bytes=1), disk=disk)
    append(writer, b"1", b"2")
    disk.failing = {call}
    with pytest.raises(OSError, match="Errno"):
        writer.tend()
    crash(writer)
    writer = open_log(tmp_path)
    writer.close()
    assert contents(tmp_path) == numbered(b"1", b"2")
    assert len(list(tmp_path.glob("*.parquet"))) == 1


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Read-only file system"):
        open_log(tmp_path, disk=FailingDisk(errno.EROFS, ["synced_file"]))
    open_log(tmp_path).close()  # the first writer has released the lock


# ---- retention ----


def sealed_rows(folder: Path) -> list[int]:
    return [segment.first.row for segment in LogReader(folder).segments()]


def test_the_oldest_files_go_by_size(tmp_path: Path) -> None:
    writer = open_log(tmp_path, Limits(seal_bytes=1, keep_bytes=30_000))
    for number in range(20):
        append(writer, b"%d" % number)
        writer.tend()
    kept = sealed_rows(tmp_path)
    size = sum(path.stat().st_size for path in tmp_path.glob("*.parquet"))
    assert size <= 30_000 < size + size / len(kept)
    assert kept == [*range(20 - len(kept), 20)]
    assert LogReader(tmp_path).begin().row == kept[0]
    writer.close()


def test_old_files_go_but_for_the_newest(tmp_path: Path) -> None:
    now = [0.0]
    writer = open_log(tmp_path, Limits(seal_bytes=1, keep_s=100), clock=lambda: now[0])
    for _ in range(3):
        append(writer, b"x")
        writer.tend()
    newest = max(path.stat().st_mtime for path in tmp_path.glob("*.parquet"))
    now[0] = newest + 99
    writer.tend()
    assert sealed_rows(tmp_path) == [0, 1, 2]
    now[0] = newest + 100
    writer.tend()
    assert sealed_rows(tmp_path) == [2]
    writer.close()
    writer = open_log(tmp_path)
    assert (writer.epoch, writer.next_row) == (2, 3)
    writer.close()
