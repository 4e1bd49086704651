"""`groupcomm sub`: print what is delivered to groups, in its order."""

import argparse
from typing import Final

from groupcomm.events import DaemonView, GroupView, Message, Refused, Transition, Undeliverable
from groupcomm_tools.commands import follow

EXAMPLE: Final = "groupcomm sub chat --count 1"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("groups", nargs="+", metavar="GROUP", help="groups to join")
    parser.add_argument("--views", action="store_true", help="print views, too")
    follow.add_options(parser, "messages")


def run(options: argparse.Namespace) -> int:
    """Print events until the count or the duration is reached; return 0."""
    everything = (Message, GroupView, DaemonView, Transition, Undeliverable, Refused)
    shown = everything if options.views else (Message, Refused)
    return follow.run(options, shown, (Message,))
