"""`groupcomm members`: list the members of a group."""

import argparse
from typing import Final

from groupcomm_tools.commands import query

EXAMPLE: Final = "groupcomm members chat"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("group", metavar="GROUP", help="whose members")
    query.add_options(parser)


def run(options: argparse.Namespace) -> int:
    """List the members; return 0."""
    found = query.query(options, f"members {options.group}")["members"]
    if not options.json:
        for name in found:
            print(name)
    return 0
