"""`groupcomm groups`: which groups there are."""

import argparse
from typing import Final

from groupcomm_tools.commands import ask

NAME: Final = "groups"
HELP: Final = "list the groups that have members, and how many"
EXAMPLE: Final = "groupcomm groups --json"

add_options = ask.add_options


def run(options: argparse.Namespace) -> int:
    """List them."""
    found = ask.ask(options, "groups")["groups"]
    if not options.json:
        for name, count in found.items():
            print(f"{count:>6} {name}")
    return 0
