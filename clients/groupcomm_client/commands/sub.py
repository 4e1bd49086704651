"""`groupcomm sub`: print what is delivered to groups, in its order."""

import argparse
from typing import Final

import trio

from groupcomm.events import Message
from groupcomm_client.commands.shared import add_connection_options, tell
from groupcomm_client.connecting import connect

NAME: Final = "sub"
HELP: Final = "join groups and print what is delivered"
EXAMPLE: Final = "groupcomm sub chat --count 1"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("groups", nargs="+", metavar="GROUP", help="what to join")
    parser.add_argument("--count", type=int, metavar="N", help="end after so many messages")
    parser.add_argument("--duration-s", type=float, metavar="S", help="end after so long")
    parser.add_argument("--views", action="store_true", help="print views, too")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each event")
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print until enough has come."""
    return trio.run(_run, options)


async def _run(options: argparse.Namespace) -> int:
    left = options.count
    patience_s = float("inf") if options.duration_s is None else options.duration_s
    with trio.move_on_after(patience_s):
        async with connect(options.address, user=options.user) as connection:
            for group in options.groups:
                await connection.join(group)
            async for event in connection:
                is_message = isinstance(event, Message)
                if is_message or options.views:
                    tell(event, as_json=options.json)
                if is_message and left is not None:
                    left -= 1
                    if left <= 0:
                        return 0
    return 0
