"""`groupcomm pub`: send lines, or a whole file, to a group."""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import trio

from groupcomm.events import Refused
from groupcomm_client.connection import Connection
from groupcomm_client.pending import access_refused
from groupcomm_tools.commands.shared import (
    add_connection_options,
    add_level_option,
    connect_as_told,
    level_of,
)

NAME: Final = "pub"
HELP: Final = "send each line of a file or of standard input to a group"
EXAMPLE: Final = "echo hello | groupcomm pub chat"

BATCH_LINES: Final = 256


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("group", metavar="GROUP", help="a group, or a private name")
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="- for standard input")
    parser.add_argument("--whole", action="store_true", help="the file is one message")
    parser.add_argument("--type", type=int, default=0, metavar="N", help="0 to 65535 (0)")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    add_level_option(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Send it all; 0 once the daemon has taken it."""
    return trio.run(_run, options)


async def _run(options: argparse.Namespace) -> int:
    started = time.monotonic()
    if options.file == "-":
        file: BinaryIO = sys.stdin.buffer
    else:
        file = Path(options.file).open("rb")  # noqa: SIM115 - closed with its reader below
    with file:
        async with connect_as_told(options) as connection:
            count = await _send(connection, options, file)
    for event in connection.take_waiting():  # the last of them came with the answer to goodbye
        if isinstance(event, Refused):
            raise access_refused(event)
    if options.json:
        print(json.dumps({"sent": count, "seconds": round(time.monotonic() - started, 3)}))
    return 0


async def _send(connection: Connection, options: argparse.Namespace, file: BinaryIO) -> int:
    level, group = level_of(options), options.group
    if options.whole:
        data = await trio.to_thread.run_sync(file.read, abandon_on_cancel=True)
        await connection.multicast(group, data, level=level, type=options.type)
        return 1
    count = 0
    while True:
        lines = await trio.to_thread.run_sync(_some_lines, file, abandon_on_cancel=True)
        if not lines:
            return count
        messages = _without_ends(lines)
        count += await connection.multicast_many(group, messages, level=level, type=options.type)


def _some_lines(file: BinaryIO) -> list[bytes]:
    """The lines that are there, one at least; none at the end."""
    first = file.readline()
    if not first:
        return []
    peek = getattr(file, "peek", None)
    lines = [first]
    while peek is not None and len(lines) < BATCH_LINES and b"\n" in peek():
        lines.append(file.readline())
    return lines


def _without_ends(lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield line.rstrip(b"\r\n")
