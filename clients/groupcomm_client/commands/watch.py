"""`groupcomm watch`: print views as they happen, with their cause and who came along."""

import argparse
from typing import Final

import trio

from groupcomm.events import DaemonView, GroupView, Transition
from groupcomm_client.commands.shared import add_connection_options, tell
from groupcomm_client.connecting import connect

NAME: Final = "watch"
HELP: Final = "print views of daemons, and of groups, as they happen"
EXAMPLE: Final = "groupcomm watch chat"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="what to join, to see its views")
    parser.add_argument("--count", type=int, metavar="N", help="end after so many views")
    parser.add_argument("--duration-s", type=float, metavar="S", help="end after so long")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each view")
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print until enough has come."""
    return trio.run(_run, options)


async def _run(options: argparse.Namespace) -> int:
    seen = 0
    patience_s = float("inf") if options.duration_s is None else options.duration_s
    with trio.move_on_after(patience_s):
        async with connect(options.address, user=options.user) as connection:
            for group in options.groups:
                await connection.join(group)
            async for event in connection:
                if isinstance(event, DaemonView | GroupView | Transition):
                    tell(event, as_json=options.json)
                    seen += 1
                    if options.count is not None and seen >= options.count:
                        return 0
    return 0
