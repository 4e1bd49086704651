"""Lines are written in order and whole, nobody waits for their reader, and what is lost is told."""

import fcntl
import io
import os
import select
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest

from groupcomm.host.line_writer import MOST_BYTES, MOST_LINES, LineWriter

PATIENCE_S = 20.0
PIPE_BYTES = 4096


def note(count: int) -> str:
    return f"{count} are missing"


class Pipe:
    """A small pipe, and its writer."""

    def __init__(self) -> None:
        self.out, end = os.pipe()
        fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.stream: TextIO = os.fdopen(end, "w")
        self.writer = LineWriter(self.stream, note)

    def read(self, until: str) -> list[str]:
        """Read until there is a line."""
        data = b""
        while until.encode() + b"\n" not in data:
            assert select.select([self.out], [], [], PATIENCE_S)[0], f"only {data[-100:]!r}"
            data += os.read(self.out, 65_536)
        return data.decode().splitlines()

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.out)
        self.writer.close()
        self.stream.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def until_dropped(writer: LineWriter, count: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while writer.dropped < count:
        assert time.monotonic() < end
        time.sleep(0.005)


def test_nobody_waits_for_a_reader_and_what_is_missing_is_told_in_its_place(pipe: Pipe) -> None:
    first = "x" * 2 * PIPE_BYTES
    pipe.writer.put(first)
    assert select.select([pipe.out], [], [], PATIENCE_S)[0], "it is being written"
    for number in range(3 * MOST_LINES):
        pipe.writer.put(f"line {number}")
    dropped = pipe.writer.dropped
    assert dropped == 2 * MOST_LINES
    assert len(pipe.writer._queue) == MOST_LINES + 1
    assert not pipe.writer.flush(0.01)
    kept = [f"line {number}" for number in range(MOST_LINES)]
    assert pipe.read(note(dropped)) == [first, *kept, note(dropped)]
    pipe.writer.put("later")
    assert pipe.read("later") == ["later"]
    assert pipe.writer.flush(PATIENCE_S)


def test_the_bytes_that_wait_have_a_bound_too(pipe: Pipe) -> None:
    pipe.writer.put("x" * (MOST_BYTES + 1))
    assert pipe.read(note(1)) == [note(1)]
    for _ in range(20):
        pipe.writer.put("y" * (MOST_BYTES // 10))
        assert pipe.writer._bytes <= MOST_BYTES
    assert pipe.writer.dropped > 5


def test_once_a_flush_was_in_vain_the_end_waits_no_more(pipe: Pipe) -> None:
    pipe.writer.put("x" * 2 * PIPE_BYTES)
    assert not pipe.writer.flush(0.01)
    pipe.writer.close(3600)
    assert len(pipe.read("x" * 2 * PIPE_BYTES)) == 1


def test_a_stream_that_does_not_block_is_waited_for_as_well(pipe: Pipe) -> None:
    os.set_blocking(pipe.stream.fileno(), False)
    for number in range(500):
        pipe.writer.put(f"line {number:100}")
    assert pipe.read(f"line {499:100}") == [f"line {number:100}" for number in range(500)]
    assert pipe.writer.dropped == 0


def test_without_a_reader_or_room_lines_are_counted_and_told_later(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as stream, (tmp_path / "log").open("w") as room:
        writer = LineWriter(stream, note)
        for number in range(3):
            writer.put(f"lost {number}")
        until_dropped(writer, 3)
        assert not writer.has_no_reader
        os.dup2(room.fileno(), stream.fileno())
        writer.put("kept")
        writer.close(PATIENCE_S)
        assert (tmp_path / "log").read_text() == f"{note(3)}\nkept\n"


def test_a_line_that_was_cut_off_is_no_part_of_the_next_one(pipe: Pipe, tmp_path: Path) -> None:
    pipe.writer.put("x" * 3 * PIPE_BYTES)
    assert len(os.read(pipe.out, PIPE_BYTES)) == PIPE_BYTES
    os.close(pipe.out)
    until_dropped(pipe.writer, 1)
    assert pipe.writer.has_no_reader
    with (tmp_path / "log").open("w") as room:
        os.dup2(room.fileno(), pipe.stream.fileno())
        pipe.writer.put("next")
        assert pipe.writer.flush(PATIENCE_S)
        assert (tmp_path / "log").read_text() == f"\n{note(1)}\nnext\n"


def test_streams_without_a_descriptor_and_no_stream_at_all() -> None:
    stream = io.StringIO()
    writer = LineWriter(stream, note)
    writer.put("snowman \N{SNOWMAN}, and half of a pair: \ud800")
    writer.close(PATIENCE_S)
    assert stream.getvalue() == "snowman \N{SNOWMAN}, and half of a pair: \\ud800\n"
    nowhere = LineWriter(None, note)
    nowhere.put("x")
    nowhere.close()
    assert nowhere.dropped == 0


@pytest.fixture
def no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread can be started, as without memory for its stack."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


@pytest.mark.usefixtures("no_thread")
def test_without_a_thread_the_flush_writes_what_waits(pipe: Pipe) -> None:
    for number in range(3):
        pipe.writer.put(str(number))
    assert not select.select([pipe.out], [], [], 0.0)[0], "it does not wait for the reader"
    assert pipe.writer.flush()
    assert pipe.read("2") == ["0", "1", "2"]


@pytest.mark.usefixtures("no_thread")
def test_without_a_thread_the_flush_waits_for_a_reader_as_long_as_it_may(pipe: Pipe) -> None:
    pipe.writer.put("x" * 3 * PIPE_BYTES)
    pipe.writer.put("last")
    pipe.writer.close(0.1)
    assert pipe.writer.dropped == 2, "nobody reads"
    assert set(os.read(pipe.out, 65_536)) == {ord("x")}


def test_a_thread_is_started_once_it_can_be(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as now:
        now.setattr(threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError()))
        pipe.writer.put("first")
    pipe.writer.put("second")
    assert pipe.read("second") == ["first", "second"]
