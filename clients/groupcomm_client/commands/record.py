"""`groupcomm record`: write what is delivered to groups as Parquet files."""

import argparse
import json
import signal
import time
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from groupcomm.errors import ConfigError
from groupcomm.events import Message
from groupcomm_client.commands.progress import say
from groupcomm_client.commands.shared import add_connection_options, connect_as_told
from groupcomm_client.connection import Connection

if TYPE_CHECKING:
    from groupcomm_spark.segments import SegmentWriter

NAME: Final = "record"
HELP: Final = "join groups and write what is delivered as Parquet files"
EXAMPLE: Final = "groupcomm record chat --to chat-log"

_ENDS: Final = (signal.SIGINT, signal.SIGTERM)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("groups", nargs="+", metavar="GROUP", help="what to join")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="of the files")
    parser.add_argument(
        "--file-rows", type=int, default=100_000, metavar="N", help="of one file, at most (100000)"
    )
    parser.add_argument(
        "--file-s", type=float, default=10.0, metavar="S", help="until a file is written (10)"
    )
    parser.add_argument("--count", type=int, metavar="N", help="end after so many messages")
    parser.add_argument("--duration-s", type=float, metavar="S", help="end after so long")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Record until enough has come, ^C or SIGTERM; everything received is then on disk."""
    if options.file_rows < 1 or options.file_s <= 0:
        raise ConfigError("--file-rows and --file-s must be above 0")
    try:
        from groupcomm_spark.segments import SegmentWriter  # noqa: PLC0415 - an extra
    except ImportError:
        raise ConfigError(
            "pyarrow is missing, which writes Parquet; install it: pip install 'groupcomm[record]'"
        ) from None
    recorder = Recorder(SegmentWriter(options.to), options.file_rows, options.file_s)
    trio.run(_run, options, recorder)
    if options.json:
        print(json.dumps({"messages": recorder.count, "files": recorder.files}))
    else:
        say(f"{recorder.count} messages are in {recorder.files} files in {options.to}")
    return 0


class Recorder:
    """Takes messages and has them written, some at a time.

    Attributes:
        count: messages taken.
        files: how many were written.
    """

    def __init__(self, writer: "SegmentWriter", file_rows: int, file_s: float) -> None:
        self._writer = writer
        self._file_rows = file_rows
        self._file_s = file_s
        self._received: list[int] = []
        self._messages: list[Message] = []
        self._deadline = inf
        self.count = 0
        self.files = 0

    async def record(self, connection: Connection, count: int | None) -> None:
        """Take what comes until so many messages are taken, or for ever."""
        while count is None or self.count < count:
            wanted = None if count is None else count - self.count
            with trio.move_on_at(self._deadline):
                self._take(
                    [e for e in await connection.receive_batch() if type(e) is Message], wanted
                )
            if len(self._messages) >= self._file_rows or trio.current_time() >= self._deadline:
                await self.write()

    def _take(self, messages: list[Message], wanted: int | None) -> None:
        messages = messages[:wanted]
        if messages and not self._messages:
            self._deadline = trio.current_time() + self._file_s
        self._received += [time.time_ns() // 1000] * len(messages)
        self._messages += messages
        self.count += len(messages)

    async def write(self) -> None:
        """Write what was taken; returns once it is on disk.

        Raises:
            RecordError: it is not.
        """
        received, messages = self._received, self._messages
        self._received, self._messages, self._deadline = [], [], inf
        for start in range(0, len(messages), self._file_rows):
            part = slice(start, start + self._file_rows)
            await trio.to_thread.run_sync(self._writer.write, received[part], messages[part])
            self.files += 1


async def _run(options: argparse.Namespace, recorder: Recorder) -> None:
    try:
        with trio.move_on_after(inf if options.duration_s is None else options.duration_s):
            async with connect_as_told(options) as connection, trio.open_nursery() as nursery:
                nursery.start_soon(_end_on_signal, nursery.cancel_scope)
                for group in options.groups:
                    await connection.join(group)
                await recorder.record(connection, options.count)
                nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await recorder.write()


async def _end_on_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(*_ENDS) as signals:
        async for _ in signals:
            scope.cancel()
