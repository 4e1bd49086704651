"""`groupcomm history export`: the messages of groups as lines of JSON, or CSV."""

import argparse
import json
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, TextIO

from groupcomm.clocks.stamp import Position
from groupcomm.errors import ConfigError
from groupcomm.events import Message
from groupcomm.host.option_types import existing_folder
from groupcomm.host.parser import keep_old_names
from groupcomm.level import ServiceLevel
from groupcomm_client.history.gap_wait import GAP_WAIT_S
from groupcomm_client.history.given import Gap, Start
from groupcomm_tools.commands import reading
from groupcomm_tools.commands.connecting import connect_blocking
from groupcomm_tools.commands.log import Damages
from groupcomm_tools.commands.options import (
    add_connection_options,
    add_reconnect_option,
    group_names,
    need_pyarrow,
    without_repetitions,
)
from groupcomm_tools.exported import Exported, csv_writer, exported, json_writer, whole_file
from groupcomm_tools.terminal import below, say

EXPORT_EXAMPLE: Final = "orders --store orders-log -o orders.csv"

PROGRESS_S: Final = 5.0
"""The time from one line about the progress to the next."""

FORMATS: Final = ("jsonl", "csv")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "groups",
        nargs="*",
        type=group_names,
        metavar="GROUP",
        help="groups; needed without --store, where the default is all",
    )
    parser.add_argument(
        "--store",
        type=existing_folder,
        metavar="DIR",
        help="folder of a log, of an archive or of groupcomm record; default: ask an archive",
    )
    parser.add_argument(
        "--start",
        default="earliest",
        metavar="PLACE",
        help="earliest, a POSITION, or @TIME (earliest)",
    )
    parser.add_argument(
        "--until",
        default="now",
        metavar="PLACE",
        help=f"{reading.UNTIL_HELP} (now); {reading.TIME_HELP}",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write")
    parser.add_argument(
        "--format", choices=FORMATS, help="default: csv if FILE ends so, else jsonl"
    )
    parser.add_argument("--base64", action="store_true", help="all data in base64, text, too")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    add_reconnect_option(parser)
    add_connection_options(parser)
    keep_old_names(parser, groups="")


def run(options: argparse.Namespace) -> int:
    """Write the messages; return 0, or 1 if the log is damaged.

    Raises:
        ConfigError: there is no group, or a place is none.
        NoArchive: no archive answers.
        LogError, OSError: the log cannot be read, or the file cannot be written.
    """
    options.groups = without_repetitions(options.groups) or None
    start, until = reading.parse_start(options.start), reading.parse_until(options.until)
    if start is Start.LATEST:
        raise ConfigError("--start latest has no history; groupcomm sub prints live events")
    if options.store is None and not options.groups:
        raise ConfigError("name a group; without one, --store DIR exports all of a log")
    if options.json and options.output is None:
        raise ConfigError("--json needs -o FILE, as standard output has the messages")
    progress = _Progress()
    damages = Damages()
    if options.store is None:
        messages = _from_archive(options, progress)
    else:
        need_pyarrow("reads logs")
        from groupcomm_tools.recording.export import exported_from_log  # noqa: PLC0415 - an extra

        since = None if isinstance(start, Start) else start
        messages = exported_from_log(
            options.store, options.groups, since, until, progress.add_gap, damages
        )
    with closing(messages), _opened(options.output) as output:
        make = csv_writer if _is_csv(options) else json_writer
        write = make(output, only_base64=options.base64)
        for message in messages:
            write(message)
            progress.add(message)
    if options.json:
        print(
            json.dumps({"messages": progress.count, "gaps": progress.gaps, "last": progress.last})
        )
    else:
        say(f"{progress.count} messages, {progress.gaps} gaps; the last is at {progress.last}")
    return 1 if damages.found else 0


def _from_archive(
    options: argparse.Namespace, progress: "_Progress"
) -> Generator[Exported, None, None]:
    """Yield the AGREED and SAFE messages that an archive has."""
    ways = {"stable": False, "compacted": False, "count": None, "gap_wait_s": GAP_WAIT_S}
    wanted = argparse.Namespace(start=options.start, until=options.until, **ways)
    with (
        connect_blocking(options, reconnect=not options.no_reconnect) as connection,
        closing(reading.events(connection, options.groups, wanted)) as found,
    ):
        for event, position in found:
            if isinstance(event, Gap):
                progress.add_gap(str(event))
            elif isinstance(event, Message) and event.level >= ServiceLevel.AGREED:
                assert isinstance(position, Position), "a message of the line has a position"
                yield exported(event, position)


def _is_csv(options: argparse.Namespace) -> bool:
    if options.format is None:
        return options.output is not None and options.output.suffix == ".csv"
    return bool(options.format == "csv")


@contextmanager
def _opened(path: Path | None) -> Iterator[TextIO]:
    """Yield where to write: a file, a terminal that shows invisible characters, or a pipe."""
    if path is None:
        yield sys.stdout if sys.stdout.isatty() else below(sys.stdout)
        sys.stdout.flush()
        return
    with whole_file(path) as output:
        yield output


class _Progress:
    """What was exported so far; a line about it is printed now and then.

    Attributes:
        count: the number of messages.
        gaps: the number of gaps.
        last: the position of the last message; None before the first.
    """

    def __init__(self) -> None:
        self.count = 0
        self.gaps = 0
        self.last: str | None = None
        self._next_line = time.monotonic() + PROGRESS_S

    def add(self, message: Exported) -> None:
        """Count a message."""
        self.count += 1
        self.last = message.position
        if not self.count % 1000 and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + PROGRESS_S
            at = "" if message.time is None else f", received {message.time}"
            say(f"{self.count} messages, up to {message.position}{at}")

    def add_gap(self, text: str) -> None:
        """Count a gap, and print it."""
        self.gaps += 1
        say(text)
