"""Commands that print events until enough have come: `groupcomm sub` and `watch`."""

import argparse
from collections.abc import Callable
from functools import partial
from math import inf

from groupcomm.events import DaemonStopping
from groupcomm.host.option_types import one_or_more, positive
from groupcomm_client.deadlines import move_on_after
from groupcomm_client.events import Received, Reconnected
from groupcomm_tools.commands.connecting import connect_blocking
from groupcomm_tools.commands.options import add_connection_options, add_reconnect_option
from groupcomm_tools.event_text import print_event

EventClasses = tuple[type, ...]
PrintEvent = Callable[[Received], None]


def add_options(parser: argparse.ArgumentParser, counted: str) -> None:
    """Declare when the command ends and how it prints.

    Args:
        parser: the parser of the command.
        counted: the plural noun for the events that `--count` counts.
    """
    parser.add_argument("--count", type=one_or_more, metavar="N", help=f"end after N {counted}")
    parser.add_argument(
        "--duration-s", type=positive, metavar="S", help="end S seconds after the groups are joined"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON for each event")
    add_reconnect_option(parser)
    add_connection_options(parser)


def print_for(options: argparse.Namespace) -> PrintEvent:
    """Return the function that prints an event as the options say."""
    return partial(print_event, as_json=options.json, with_groups=len(options.groups) > 1)


def run(
    options: argparse.Namespace,
    shown: EventClasses,
    counted: EventClasses,
    show: PrintEvent | None = None,
) -> int:
    """Join the groups and print events until the count or the duration is reached; return 0.

    Args:
        options: the options of the command.
        shown: the classes of the events to print.
        counted: classes of the events that count.
        show: prints an event; None for `print_for`.
    """
    seen = 0
    show = print_for(options) if show is None else show
    duration_s = inf if options.duration_s is None else options.duration_s
    connecting = connect_blocking(options, reconnect=not options.no_reconnect)
    with connecting as connection:
        for group in options.groups:
            connection.join(group)
        with move_on_after(duration_s):  # a group that may not be joined is told in any case
            for event in connection:
                if isinstance(event, (*shown, Reconnected, DaemonStopping)):
                    show(event)
                seen += isinstance(event, counted)
                if options.count is not None and seen >= options.count:
                    break
    return 0
