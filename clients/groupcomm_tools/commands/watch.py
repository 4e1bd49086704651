"""`groupcomm watch`: print views as they are installed, with their cause."""

import argparse
from typing import Final

from groupcomm.events import DaemonView, GroupView, Transition
from groupcomm_tools.commands import follow

EXAMPLE: Final = "groupcomm watch chat"

_VIEWS: Final = (DaemonView, GroupView, Transition)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help="groups to join, to see their views"
    )
    follow.add_options(parser, "views")


def run(options: argparse.Namespace) -> int:
    """Print views until the count or the duration is reached; return 0."""
    return follow.run(options, _VIEWS, _VIEWS)
