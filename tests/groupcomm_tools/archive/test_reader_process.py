"""Another process reads from the files of a log what the archive itself would read."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import attrs
import pytest
import trio
import trio.testing

from groupcomm.clocks.stamp import Position
from groupcomm_client.history.frames import (
    EncodedPiece,
    Piece,
    decode_untrusted,
    events_of_untrusted,
)
from groupcomm_client.history.places import Line
from groupcomm_log.errors import LogError
from groupcomm_log.reader import BEGIN
from groupcomm_log.writer import Limits
from groupcomm_tools.archive import pieces, reader_process, store
from groupcomm_tools.archive.archive import ReadStore
from groupcomm_tools.archive.file_reader import READY, FileRead, FileReader
from groupcomm_tools.archive.reader_process import ReaderProcess
from groupcomm_tools.archive.store import LogStore
from tests.groupcomm_tools.archive.test_store import READER, events_from, place, start_of, write


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pieces be small, and everything be far from the end."""
    monkeypatch.setattr(pieces, "PIECE_ROWS", 7)
    monkeypatch.setattr(store, "FAR_ROWS", 0)


@pytest.fixture
def events() -> list[Line]:
    return events_from(Random(1), 160)


@pytest.fixture
def log(tmp_path: Path, events: list[Line]) -> Iterator[LogStore]:
    opened = LogStore(tmp_path / "log", Limits(seal_bytes=5_000))
    write(opened, Random(1), events)
    opened.tend()
    yield opened
    opened.close()


def action_of(after: Position, upto: Position, index: int = 0) -> ReadStore:
    return ReadStore(
        key=(READER, 1),
        index=index,
        groups=("g", "h"),
        after=after,
        upto=upto,
        since_us=None,
        is_last=True,
    )


def far(log: LogStore, action: ReadStore) -> FileRead:
    found = log.far(action)
    assert found is not None
    return found


def events_in(encoded: EncodedPiece) -> list[Line]:
    piece = decode_untrusted(encoded.data)
    assert isinstance(piece, Piece)
    events = events_of_untrusted(piece)
    assert events is not None
    return events


async def until_ready(process: ReaderProcess) -> None:
    with trio.fail_after(60):
        while not process.want():
            await trio.sleep(0.01)


async def test_its_pieces_are_those_of_the_archive(log: LogStore, events: list[Line]) -> None:
    process = ReaderProcess()
    async with process.running():
        await until_ready(process)
        index, after, upto = 0, start_of(events), place(events[-1])
        given = list[Line]()
        while after < upto:
            found = await process.read(far(log, action_of(after, upto, index)))
            assert found.after == after
            given += events_in(found)
            index, after = index + 1, found.upto
        assert given == events


def test_a_piece_that_was_prepared_is_the_one_that_is_read(
    log: LogStore, events: list[Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = FileReader()
    index, after, upto = 0, start_of(events), place(events[-1])
    prepared, given = 0, list[Line]()
    while after < upto:
        wanted = far(log, action_of(after, upto, index))
        is_prepared = (READER, 1) in reader._prepared
        with monkeypatch.context() as patch:
            if is_prepared:
                patch.setattr(reader, "_files", {})  # nothing is read again
                prepared += 1
            found = reader.read(wanted)
        assert found.after == after
        given += events_in(found)
        reader.prepare(wanted, found)
        index, after = index + 1, found.upto
    assert given == events
    assert prepared == index - 2, "not the first one, nor the last one, which may grow"


def test_a_prepared_piece_of_another_place_is_not_given(log: LogStore, events: list[Line]) -> None:
    reader = FileReader()
    wanted = far(log, action_of(start_of(events), place(events[-1])))
    reader.prepare(wanted, reader.read(wanted))
    elsewhere = far(log, action_of(place(events[80]), place(events[-1]), 1))
    found = reader.read(elsewhere)
    assert events_in(found) == [each for each in events[81:] if place(each) <= found.upto]


def test_nothing_is_prepared_that_may_grow(log: LogStore, events: list[Line]) -> None:
    reader = FileReader()
    wanted = far(log, action_of(start_of(events), place(events[8])))
    piece = reader.read(wanted)
    reader.prepare(wanted, piece)
    assert piece.upto < place(events[8]), "there is a next piece, and it is the last one"
    assert reader._prepared == {}


def test_what_is_near_the_end_or_special_is_not_far(
    log: LogStore, events: list[Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    action = action_of(start_of(events), place(events[-1]))
    assert log.far(attrs.evolve(action, since_us=5)) is None
    assert log.far(attrs.evolve(action, is_compacted=True)) is None
    monkeypatch.setattr(store, "FAR_ROWS", 50)
    assert log.far(action) is not None
    assert log.far(attrs.evolve(action, after=place(events[-20]))) is None


async def test_an_error_of_the_files_is_told(tmp_path: Path, events: list[Line]) -> None:
    process = ReaderProcess()
    wanted = FileRead(tmp_path / "none", BEGIN, action_of(start_of(events), place(events[-1])))
    async with process.running():
        await until_ready(process)
        for _ in range(2):  # and the process goes on
            with pytest.raises(LogError, match="none"):
                await process.read(wanted)


async def test_another_process_is_started_if_one_has_ended(
    log: LogStore, events: list[Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_process, "RESTART_S", 0.0)
    process = ReaderProcess()
    wanted = far(log, action_of(start_of(events), place(events[3])))
    async with process.running():
        await until_ready(process)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(OSError, match="has ended"):
            await process.read(wanted)
        await trio.testing.wait_all_tasks_blocked()
        await until_ready(process)
        assert isinstance(await process.read(wanted), EncodedPiece)


async def test_a_read_that_is_cancelled_leaves_no_answer_for_the_next_one(
    log: LogStore, events: list[Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_process, "RESTART_S", 0.0)
    process = ReaderProcess()
    first = far(log, action_of(start_of(events), place(events[3])))
    second = far(log, action_of(place(events[3]), place(events[6])))
    async with process.running():
        await until_ready(process)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.read, first)
            await trio.testing.wait_all_tasks_blocked()  # it has asked
            nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        await until_ready(process)
        assert (await process.read(second)).after == place(events[3])


def test_it_ends_with_its_archive() -> None:
    own, other = socket.socketpair()
    with own, other:
        command = [sys.executable, "-m", "groupcomm_tools.archive.file_reader"]
        with subprocess.Popen(command, stdin=other.fileno()) as process:
            other.close()
            assert own.recv(1) == READY
            own.close()
            assert process.wait(60) == 0
