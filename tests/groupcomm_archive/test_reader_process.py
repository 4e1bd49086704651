"""Another process sends, from the files of a log, what the archive itself would send."""

import os
import select
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from random import Random

import attrs
import pytest
import trio
import trio.testing

from groupcomm.clocks.stamp import Position
from groupcomm_archive import pieces, reader_process, store
from groupcomm_archive.archive import ReadStore
from groupcomm_archive.file_reader import READY, FileRead, FileStream
from groupcomm_archive.reader_process import COMMAND, ReaderProcess
from groupcomm_archive.store import LogStore
from groupcomm_client.history.channel import PieceOpener, PieceSealer
from groupcomm_client.history.frames import (
    LENGTH_BYTES,
    Piece,
    decode_untrusted,
    events_of_untrusted,
)
from groupcomm_client.history.places import Line
from groupcomm_log.errors import LogRemoved
from groupcomm_log.reader import BEGIN
from groupcomm_log.writer import Limits
from groupcomm_tools.warm_start import start_warm
from tests.groupcomm_archive.test_store import (
    action_of,
    events_from,
    events_in,
    place,
    start_of,
    write,
)
from tests.groupcomm_tools.warm import MODULE

KEY = bytes(range(32))


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


def far(log: LogStore, action: ReadStore) -> FileRead:
    found = log.far(action)
    assert found is not None
    return found


async def until_ready(process: ReaderProcess) -> None:
    with trio.fail_after(180):
        while not process.want():
            await trio.sleep(0.01)


class Channel:
    """Both ends of a channel."""

    def __init__(self) -> None:
        own, other = socket.socketpair()
        self.own = trio.socket.from_stdlib_socket(own)
        self.subscriber = trio.SocketStream(trio.socket.from_stdlib_socket(other))
        self.sealer, self._opener = PieceSealer(KEY), PieceOpener(KEY)

    async def piece(self) -> Piece:
        size = self._opener.expect_untrusted(await self._exactly(LENGTH_BYTES))
        data = self._opener.open_untrusted(await self._exactly(size))
        piece = decode_untrusted(data or b"")
        assert isinstance(piece, Piece)
        return piece

    async def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = await self.subscriber.receive_some(size - len(data))
            assert more, "the channel is open"
            data += more
        return data

    def close(self) -> None:
        self.own.close()
        self.subscriber.socket.close()


@pytest.fixture
async def channel() -> AsyncIterator[Channel]:
    made = Channel()
    yield made
    made.close()


@pytest.fixture
async def process(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ReaderProcess]:
    """Yield a process with small pieces, which is ready."""
    start = partial(start_warm, MODULE, ("reader", "7"))
    monkeypatch.setattr(reader_process, "start_process", lambda end: start(stdin=end))
    monkeypatch.setattr(reader_process, "RESTART_S", 0.0)
    made = ReaderProcess()
    async with made.running():
        await until_ready(made)
        yield made


async def receive(channel: Channel, events: list[Line], after: Position, first: int = 0) -> None:
    """Receive pieces with these events, in order."""
    given = list[Line]()
    while given != events:
        piece = await channel.piece()
        assert (piece.index, piece.after, piece.is_end) == (first, after, False)
        given += events_of_untrusted(piece) or []
        assert given == events[: len(given)]
        first, after = first + 1, piece.upto


async def test_it_sends_everything_up_to_a_place_and_the_archive_goes_on(
    log: LogStore, events: list[Line], process: ReaderProcess, channel: Channel
) -> None:
    after, upto = start_of(events), place(events[99])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive, channel, events[:100], after)
        answer = await process.send(far(log, action_of(after, upto)), channel.own, channel.sealer)
    assert (answer.after, answer.error, answer.is_broken) == (upto, None, False)
    assert answer.pieces > 10
    assert channel.sealer.count == answer.pieces
    action = action_of(upto, place(events[-1]), answer.pieces)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive, channel, events[100:], upto, answer.pieces)
        await process.send(far(log, action), channel.own, channel.sealer)


async def test_several_streams_are_sent_at_once(
    log: LogStore, events: list[Line], process: ReaderProcess, channel: Channel
) -> None:
    """One subscriber that takes nothing does not hold up another one."""
    wanted = far(log, action_of(start_of(events), place(events[-1])))
    slow = Channel()
    for each in (slow.own, slow.subscriber.socket):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.send, wanted, slow.own, slow.sealer)
            async with trio.open_nursery() as inner:
                inner.start_soon(receive, channel, events, start_of(events))
                await process.send(wanted, channel.own, channel.sealer)
            await receive(slow, events, start_of(events))
    finally:
        slow.close()


async def test_a_subscriber_that_closes_the_channel_is_told(
    log: LogStore, events: list[Line], process: ReaderProcess, channel: Channel
) -> None:
    await channel.subscriber.aclose()
    wanted = far(log, action_of(start_of(events), place(events[-1])))
    assert (await process.send(wanted, channel.own, channel.sealer)).is_broken


async def test_an_error_of_the_files_is_told(
    tmp_path: Path, events: list[Line], process: ReaderProcess, channel: Channel
) -> None:
    wanted = FileRead(tmp_path / "none", BEGIN, action_of(start_of(events), place(events[-1])))
    for _ in range(2):  # and the process goes on
        answer = await process.send(wanted, channel.own, channel.sealer)
        assert answer.error is not None
        assert "none: there is no log" in answer.error


def test_what_was_removed_before_it_was_read_is_never_left_out(
    log: LogStore, events: list[Line]
) -> None:
    """Retention may remove a file between two pieces, or before the first one."""
    wanted = far(log, action_of(start_of(events), place(events[-1])))
    begun, fresh = FileStream(wanted), FileStream(wanted)
    before = decode_untrusted(begun.next())
    assert isinstance(before, Piece)
    assert log.remove_upto(place(events[80])) is not None
    for stream in (begun, fresh):
        with pytest.raises(LogRemoved):
            _to_the_end(stream)


def _to_the_end(stream: FileStream) -> None:
    while not stream.is_over:
        stream.next()


def test_rows_that_are_written_meanwhile_are_sent(log: LogStore, events: list[Line]) -> None:
    """A stream that has come to the end of the files goes on with what is new."""
    more = events_from(Random(1), 300)[len(events) :]
    upto = place(more[-1])
    stream = FileStream(far(log, action_of(start_of(events), upto)))
    given = list[Line]()
    while len(given) < len(events) - 10:
        given += events_in(stream.next())
    write(log, Random(1), more)
    while not stream.is_over:
        given += events_in(stream.next())
    assert given == [*events, *more]


def test_what_is_near_the_end_or_special_is_not_far(
    log: LogStore, events: list[Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    action = action_of(start_of(events), place(events[-1]))
    assert log.far(attrs.evolve(action, since_us=5)) is None
    assert log.far(attrs.evolve(action, is_compacted=True)) is None
    monkeypatch.setattr(store, "FAR_ROWS", 50)
    assert log.far(action) is not None
    assert log.far(attrs.evolve(action, after=place(events[-20]))) is None


@pytest.mark.parametrize("is_over", [False, True])
async def test_another_process_is_started_if_one_has_ended(
    log: LogStore, events: list[Line], process: ReaderProcess, channel: Channel, *, is_over: bool
) -> None:
    """Also if its end of the socket is closed before the archive has seen that."""
    wanted = far(log, action_of(start_of(events), place(events[-1])))
    assert process.pid is not None
    end = os.pidfd_open(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    if is_over:
        select.select([end], [], [])
    os.close(end)
    with pytest.raises(OSError, match="has ended"):
        await process.send(wanted, channel.own, channel.sealer)
    await trio.testing.wait_all_tasks_blocked()
    await until_ready(process)
    other = Channel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive, other, events, start_of(events))
        assert (await process.send(wanted, other.own, other.sealer)).error is None
    other.close()


async def test_a_stream_that_is_cancelled_is_sent_no_more(
    log: LogStore, events: list[Line], process: ReaderProcess, channel: Channel
) -> None:
    wanted = far(log, action_of(start_of(events), place(events[-1])))
    channel.own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    with trio.move_on_after(0.05):
        await process.send(wanted, channel.own, channel.sealer)
    data = b""
    with trio.fail_after(180):
        async for part in channel.subscriber:
            data += part
    assert process.want(), "it goes on for others"


def test_it_ends_with_its_archive() -> None:
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with own, other, subprocess.Popen(COMMAND, stdin=other.fileno()) as process:
        other.close()
        assert own.recv(1) == READY
        own.close()
        assert process.wait(180) == 0
