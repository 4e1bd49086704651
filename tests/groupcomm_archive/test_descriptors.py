"""The descriptors of an archive do not grow with its groups, and all of its logs are locked."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from groupcomm.events import MemberId
from groupcomm_archive import pieces
from groupcomm_archive.layout import Layout
from groupcomm_archive.pieces import Cursors
from groupcomm_archive.recorded import RecordedLogs
from groupcomm_log.errors import LogBusy
from groupcomm_log.names import LOCK
from groupcomm_log.writer import Limits, LogWriter
from tests.groupcomm_archive.test_store import action_of, events_from, start_of, write
from tests.groupcomm_archive.test_store import place as place_in

GROUPS, MOST = 40, 8


def opened() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - of numbers


def logs_of(folder: Path, count: int = 3) -> RecordedLogs:
    found = RecordedLogs(Layout(folder, (), ("*",), Limits(seal_bytes=1)))
    known = {group for log in found.logs for group in log.groups}
    for number in range(count):
        if f"g{number}" not in known:
            found.open(found.layout.own(f"g{number}"))
    return found


def test_logs_that_are_written_and_read_share_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_ROWS", 2)
    before = opened()
    logs = logs_of(tmp_path, GROUPS)
    events = [events_from(Random(number), 40) for number in range(GROUPS)]
    for number, log in enumerate(logs.logs):
        write(log.store, Random(number), events[number])
        log.store.tend()
    assert opened() - before < 10, "as they are written"
    logs.close()
    logs = logs_of(tmp_path)
    assert len(logs.logs) == GROUPS
    logs._cursors._most = MOST
    for log in logs.logs:
        number = int(log.groups[0][1:])
        of = events[number]
        action = action_of(start_of(of), place_in(of[-1]))
        log.store.read(attrs.evolve(action, key=(MemberId("#reader#a", number), 1)))
    assert opened() - before < MOST + 10, "as each is read by a stream that is not at its end"
    logs.close()


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """A function that opens the log of a group of a running archive, as another recorder does."""
    logs = logs_of(tmp_path)
    yield lambda group: LogWriter(tmp_path / "_groups" / group)
    logs.close()


def test_all_logs_are_locked_by_one_descriptor(
    locked: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupcomm_log.lock.PATIENCE_S", 0.0)
    for number in range(3):
        with pytest.raises(LogBusy, match="another recorder writes to it"):
            locked(f"g{number}")
    with pytest.raises(LogBusy, match="another recorder writes to it"):
        RecordedLogs(Layout(tmp_path, (), ("*",), Limits()))


def test_a_log_that_somebody_else_writes_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs_of(tmp_path).close()
    path = tmp_path / "_groups" / "g1"
    shutil.copy(path / LOCK, path / "copied")  # as in a folder that was copied: a file of its own
    (path / "copied").replace(path / LOCK)
    other = LogWriter(path)
    monkeypatch.setattr("groupcomm_log.lock.PATIENCE_S", 0.0)
    with pytest.raises(LogBusy, match="g1: another recorder"):
        logs_of(tmp_path)
    other.close()
    logs = logs_of(tmp_path)
    with pytest.raises(LogBusy):
        LogWriter(path)
    logs.close()
    LogWriter(path).close()


def test_without_links_each_log_has_a_lock_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise PermissionError("this disk has none")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", link)
        logs = logs_of(tmp_path)
    monkeypatch.setattr("groupcomm_log.lock.PATIENCE_S", 0.0)
    with pytest.raises(LogBusy):
        LogWriter(tmp_path / "_groups" / "g1")
    logs.close()
    LogWriter(tmp_path / "_groups" / "g1").close()


def test_the_streams_that_were_used_last_are_kept() -> None:
    cursors, reader = Cursors(most=3), object()
    keys = [(MemberId("#reader#a", number), 1) for number in range(4)]
    made = [pieces._Cursor(place_in(events_from(Random(1), 1)[0]), iter(())) for _ in keys]
    for key, cursor in zip(keys, made, strict=True):
        cursors.put(reader, key, cursor, 1)
    assert cursors.pop(reader, keys[0]) is None
    assert cursors.pop(object(), keys[1]) is None, "that is another log"
    assert [cursors.pop(reader, key) for key in keys[1:]] == made[1:]
    for key, cursor in zip(keys[:2], made, strict=False):
        cursors.put(reader, key, cursor, 50)  # streams of many logs
    assert [cursors.pop(reader, key) for key in keys[:2]] == [None, made[1]]
    assert cursors._files == 0
