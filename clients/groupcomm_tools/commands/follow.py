"""What `groupcomm sub` and `watch` have in common: print events until enough have come."""

import argparse
from math import inf

import trio

from groupcomm_tools.commands.shared import add_connection_options, connect_as_told, tell

Kinds = tuple[type, ...]
"""Classes of events."""


def add_options(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare when it ends and how it prints; `what` is counted."""
    parser.add_argument("--count", type=int, metavar="N", help=f"end after so many {what}")
    parser.add_argument("--duration-s", type=float, metavar="S", help="end after so long")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each event")
    add_connection_options(parser)


def run(options: argparse.Namespace, shown: Kinds, counted: Kinds) -> int:
    """Join the groups and print what is `shown`, until so many are `counted`."""
    trio.run(_run, options, shown, counted)
    return 0


async def _run(options: argparse.Namespace, shown: Kinds, counted: Kinds) -> None:
    seen = 0
    with trio.move_on_after(inf if options.duration_s is None else options.duration_s):
        async with connect_as_told(options) as connection:
            for group in options.groups:
                await connection.join(group)
            async for event in connection:
                if isinstance(event, shown):
                    tell(event, as_json=options.json)
                seen += isinstance(event, counted)
                if options.count is not None and seen >= options.count:
                    return
