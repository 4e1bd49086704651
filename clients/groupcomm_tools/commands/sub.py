"""`groupcomm sub`: print the messages and views of groups, in their order, from any place on."""

import argparse
import sys
from collections.abc import Callable
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.events import (
    DaemonStopping,
    DaemonView,
    GroupView,
    Message,
    Refused,
    Transition,
    Undeliverable,
)
from groupcomm_client.events import Received, Reconnected
from groupcomm_client.history.given import CaughtUp, Compacted, Gap, Given
from groupcomm_tools.commands import follow, reading
from groupcomm_tools.message_format import MessageFormat
from groupcomm_tools.terminal import below

EXAMPLE: Final = """\
groupcomm sub chat --count 1
groupcomm sub orders --start earliest --until now --json
groupcomm sub chat prices --format '{group} {sender} {data}'"""


MessageWriter = Callable[[Message], None]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("groups", nargs="+", metavar="GROUP", help="groups to join")
    parser.add_argument("--views", action="store_true", help="print views, too")
    parser.add_argument(
        "--raw",
        action="store_true",
        help="write only the bytes of each message, unchanged",
    )
    parser.add_argument(
        "--format",
        metavar="TEXT",
        help="format of a message, with {level} {group} {groups} {sender} {type} {position} {bytes}"
        " {data} {data_hex}, and \\n \\t \\0; with \\0 at its end there is no end of line",
    )
    parser.add_argument(
        "--start",
        metavar="PLACE",
        help=f"begin with history (groupcomm history serve): {reading.START_HELP};"
        f" {reading.TIME_HELP}",
    )
    reading.add_end_options(parser)
    follow.add_options(parser, "messages")


def run(options: argparse.Namespace) -> int:
    """Print events until the count or the duration is reached; return 0."""
    if sum((options.raw, options.format is not None, options.json)) > 1:
        raise ConfigError("give one of --raw, --format and --json")
    if options.start is None and (options.until is not None or options.stable or options.compacted):
        raise ConfigError(
            "--until, --stable and --compacted need --start, such as --start earliest"
        )
    everything = (Message, GroupView, DaemonView, Transition, Undeliverable, Refused)
    shown = everything if options.views else (Message, Refused)
    write = _message_writer(options)
    if options.start is not None:
        return reading.run(options, _reading_printer(options, shown, write))
    others = follow.print_for(options)

    def show(event: Received) -> None:
        if write is not None and isinstance(event, Message):
            write(event)
        else:
            others(event)

    return follow.run(options, shown, (Message,), show)


def _reading_printer(
    options: argparse.Namespace, shown: tuple[type, ...], write: MessageWriter | None
) -> reading.ShowEvent:
    """Return the function that prints the shown events of a subscription."""
    others = reading.print_for(options)
    all_shown = (*shown, CaughtUp, Compacted, Gap, Reconnected, DaemonStopping)

    def show(event: Given, next_start: str | None) -> None:
        if write is not None and isinstance(event, Message):
            write(event)
        elif isinstance(event, all_shown):
            others(event, next_start)

    return show


def _message_writer(options: argparse.Namespace) -> MessageWriter | None:
    """Return the function that writes a message as `--raw` or `--format` say; None without them."""
    if options.raw:
        return _write_bytes
    if options.format is None:
        return None
    layout = MessageFormat(options.format)

    def write(message: Message) -> None:
        output = below(sys.stdout) if layout.is_for_a_program else sys.stdout
        output.write(layout.of(message))
        output.flush()

    return write


def _write_bytes(message: Message) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(message.data)
    sys.stdout.buffer.flush()
