"""`groupcomm sub`: print the messages and views of groups, in their order."""

import argparse
import sys
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.events import DaemonView, GroupView, Message, Refused, Transition, Undeliverable
from groupcomm_client.events import Received
from groupcomm_tools.commands import follow
from groupcomm_tools.message_format import MessageFormat
from groupcomm_tools.terminal import below

EXAMPLE: Final = """\
groupcomm sub chat --count 1
groupcomm sub chat prices --format '{group} {sender} {data}'"""


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
    follow.add_options(parser, "messages")


def run(options: argparse.Namespace) -> int:
    """Print events until the count or the duration is reached; return 0."""
    if sum((options.raw, options.format is not None, options.json)) > 1:
        raise ConfigError("give one of --raw, --format and --json")
    everything = (Message, GroupView, DaemonView, Transition, Undeliverable, Refused)
    shown = everything if options.views else (Message, Refused)
    return follow.run(options, shown, (Message,), _printer(options))


def _printer(options: argparse.Namespace) -> follow.PrintEvent:
    others = follow.print_for(options)
    layout = MessageFormat(options.format) if options.format is not None else None

    def show(event: Received) -> None:
        if not isinstance(event, Message):
            others(event)
        elif options.raw:
            sys.stdout.flush()
            sys.stdout.buffer.write(event.data)
            sys.stdout.buffer.flush()
        elif layout is not None:
            output = below(sys.stdout) if layout.is_for_a_program else sys.stdout
            output.write(layout.of(event))
            output.flush()
        else:
            others(event)

    return show
