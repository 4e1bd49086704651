"""Compaction: the same rows in fewer files, for readers that are in the middle of them, too."""

import fcntl
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm_log.compaction import compact
from groupcomm_log.errors import LogBusy, LogDamaged, LogError
from groupcomm_log.names import list_files, list_segments
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import Offset
from groupcomm_log.sealed import check_sealed
from groupcomm_log.writer import Limits, LogWriter
from tests.groupcomm_log.make import FailingDisk, QuickDisk, append, contents, crash, open_log


def write(folder: Path, sizes: list[int], live: int = 0, **options: Any) -> LogWriter:
    """Write files with this many rows each, and a live one."""
    writer = open_log(folder, disk=QuickDisk(), **options)
    for size in sizes:
        for _ in range(size):
            append(writer, b"%d" % writer.next_row)
        writer._roll()
        writer.tend()
    for _ in range(live):
        append(writer, b"live")
    return writer


def quickly(folder: Path, most_bytes: int = 10**9) -> tuple[int, int]:
    done = compact(folder, most_bytes, disk=QuickDisk(), wait=lambda: None)
    return done.before, done.after


def spans(folder: Path) -> list[tuple[int, int]]:
    return [(s.first.row, s.last.row) for s in list_files(folder) if s.last is not None]


def test_files_of_an_epoch_become_one_while_a_recorder_goes_on(tmp_path: Path) -> None:
    write(tmp_path, [2, 1, 3]).close()
    writer = write(tmp_path, [1, 1], live=2)
    before = contents(tmp_path)
    assert quickly(tmp_path) == (5, 2)
    assert spans(tmp_path) == [(0, 5), (6, 7)]
    assert contents(tmp_path) == before
    assert all(check_sealed(each) is None for each in list_segments(tmp_path) if not each.is_live)
    append(writer, b"more")
    writer.close()
    assert contents(tmp_path) == [*before, (2, 10, b"more")]
    assert quickly(tmp_path) == (3, 2)
    assert quickly(tmp_path) == (2, 2)


@given(st.lists(st.lists(st.integers(1, 3), max_size=5), min_size=1, max_size=3), st.integers(0, 9))
def test_any_reader_goes_on_across_it(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[list[int]], at: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    for sizes in epochs:
        crash(write(folder, sizes, live=1))
    reader = LogReader(folder)
    wanted = [tuple(row.values()) for batch in reader.batches() for row in batch.to_pylist()]
    batches = reader.batches()
    found = [next(batches) for _ in range(min(at, 2))]
    quickly(folder)
    found += batches
    assert [tuple(row.values()) for batch in found for row in batch.to_pylist()] == wanted
    for (epoch, row, *_), (*later, _) in pairwise(
        contents(folder, "epoch", "row", "kind")
    ):  # each offset is still one to go on at
        assert next(LogReader(folder).batches(Offset(epoch, row + 1)))["row"][0].as_py() == later[1]


def test_files_that_are_large_already_stay(tmp_path: Path) -> None:
    write(tmp_path, [1] * 5).close()
    size = list_segments(tmp_path)[0].path.stat().st_size
    assert quickly(tmp_path, 2 * size + 10) == (5, 3)
    assert spans(tmp_path) == [(0, 1), (2, 3), (4, 4)]


def test_the_old_files_go_only_after_all_listings_have_the_new_one(tmp_path: Path) -> None:
    write(tmp_path, [2, 2]).close()
    seen: list[tuple[list[tuple[int, int]], int]] = []
    compact(
        tmp_path,
        disk=QuickDisk(),
        wait=lambda: seen.append((spans(tmp_path), len(list_segments(tmp_path)))),
    )
    assert seen == [([(0, 3), (0, 1), (2, 3)], 1)]
    assert spans(tmp_path) == [(0, 3)]


def test_what_a_crash_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    write(tmp_path, [2, 2]).close()
    wanted = contents(tmp_path)
    with pytest.raises(OSError, match="No space"):
        compact(tmp_path, disk=FailingDisk(failing=["remove"]), wait=lambda: None)
    assert len(spans(tmp_path)) == 3
    assert contents(tmp_path) == wanted
    assert quickly(tmp_path) == (1, 1)
    assert spans(tmp_path) == [(0, 3)]


def test_a_live_file_that_was_sealed_and_not_removed_counts_once(tmp_path: Path) -> None:
    """A recorder died between these two; the next one must find the sealed file by its name."""
    writer = write(tmp_path, [2], live=2)
    live = next(tmp_path.glob("_live*"))
    content = live.read_bytes()
    writer.close()
    live.write_bytes(content)
    wanted = contents(tmp_path)
    assert quickly(tmp_path) == (2, 2)
    write(tmp_path, []).close()
    assert contents(tmp_path) == wanted
    assert not live.exists()


def test_damage_is_reported_and_nothing_is_lost(tmp_path: Path) -> None:
    write(tmp_path, [2, 2]).close()
    path = list_segments(tmp_path)[1].path
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(LogDamaged, match="which held rows 2 to 3"):
        quickly(tmp_path)
    assert spans(tmp_path) == [(0, 1), (2, 3)]


def test_retention_counts_from_the_newest_of_the_old_files(tmp_path: Path) -> None:
    write(tmp_path, [1, 1, 1]).close()
    for at, segment in enumerate(list_segments(tmp_path)):
        os.utime(segment.path, (1000 + at, 1000 + at))
    quickly(tmp_path)
    limits = Limits(keep_s=100)
    write(tmp_path, [1], limits=limits, clock=lambda: 1101.0).close()
    assert spans(tmp_path) == [(0, 2), (3, 3)]
    write(tmp_path, [1], limits=limits, clock=lambda: 1102.0).close()
    assert spans(tmp_path) == [(3, 3), (4, 4)]


def test_retention_removes_what_a_crash_of_compaction_left(tmp_path: Path) -> None:
    write(tmp_path, [1, 1]).close()
    with pytest.raises(OSError, match="No space"):
        compact(tmp_path, disk=FailingDisk(failing=["remove"]), wait=lambda: None)
    write(tmp_path, [1], limits=Limits(keep_bytes=1)).close()
    assert spans(tmp_path) == [(2, 2)]
    assert LogReader(tmp_path).begin().row == 2


def test_there_is_one_at_a_time_and_none_of_an_archive(tmp_path: Path) -> None:
    write(tmp_path, [1]).close()
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(LogBusy, match="another compaction is under way"):
        quickly(tmp_path)
    os.close(descriptor)
    (tmp_path / "_groups.json").write_text("{}")
    with pytest.raises(LogError, match=r"_groups.json is no file of a recorder's log"):
        quickly(tmp_path)
