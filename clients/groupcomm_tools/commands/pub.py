"""`groupcomm pub`: send texts, lines, or a whole file, to a group."""

import argparse
import json
import shlex
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from groupcomm.errors import ConfigError
from groupcomm.events import Refused
from groupcomm.host.option_types import existing_file_or_dash, whole_number
from groupcomm_client.blocking import BlockingConnection
from groupcomm_client.requests import access_refused
from groupcomm_tools.commands.connecting import connect_blocking
from groupcomm_tools.commands.options import add_connection_options, add_level_option, level_of
from groupcomm_tools.terminal import standard_input

EXAMPLE: Final = "echo hello | groupcomm pub chat"

BATCH_LINES: Final = 256


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("group", metavar="GROUP", help="a group, or a private name")
    parser.add_argument(
        "file",
        nargs="?",
        type=_file_or_dash,
        metavar="FILE",
        help="a file of lines; by default, and for -, standard input",
    )
    parser.add_argument(
        "--text",
        action="append",
        dest="texts",
        metavar="TEXT",
        help="send this text, in place of a file; may be repeated",
    )
    parser.add_argument("--whole", action="store_true", help="send the file as one message")
    parser.add_argument(
        "--type",
        type=whole_number(0, 65535),
        default=0,
        metavar="N",
        help="type of the messages, 0 to 65535 (0)",
    )
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    add_level_option(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Send all messages; return 0 once the daemon has accepted them.

    Raises:
        AccessRefused: the daemon's rules do not allow a message.
        ConfigError: there is a file, and a text in place of one.
    """
    started_s = time.monotonic()
    path: Path | None = options.file
    if options.texts is None:
        file: BinaryIO = standard_input().buffer if path is None else path.open("rb")
        with file, connect_blocking(options) as connection:
            count = _send(connection, options, file)
    elif path is None and not options.whole:
        with connect_blocking(options) as connection:
            count = connection.multicast_many(
                options.group,
                [text.encode() for text in options.texts],
                level=level_of(options),
                type=options.type,
            )
    else:
        raise ConfigError("--text stands in place of a file: leave out FILE and --whole, or --text")
    for event in connection.pop_waiting():  # refusals may come with the answer to the goodbye
        if isinstance(event, Refused):
            raise access_refused(event)
    if options.json:
        print(json.dumps({"sent": count, "seconds": round(time.monotonic() - started_s, 3)}))
    return 0


def _file_or_dash(text: str) -> Path | None:
    """Return the path of an existing file; None for ``-``. Users try to send a text like this."""
    try:
        return existing_file_or_dash(text)
    except argparse.ArgumentTypeError as error:
        hint = f"to send a text, write --text {shlex.quote(text)}"
        raise argparse.ArgumentTypeError(f"{error}; {hint}") from None


def _send(connection: BlockingConnection, options: argparse.Namespace, file: BinaryIO) -> int:
    """Send the lines of a file, or the file as one message; return the number of messages."""
    level, group = level_of(options), options.group
    if options.whole:
        connection.multicast(group, file.read(), level=level, type=options.type)
        return 1
    count = 0
    while lines := _available_lines(file):
        messages = _without_ends(lines)
        count += connection.multicast_many(group, messages, level=level, type=options.type)
    return count


def _available_lines(file: BinaryIO) -> list[bytes]:
    """Return the lines that can be read without waiting, at least one; none at the end."""
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
