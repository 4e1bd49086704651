"""`groupcomm groups`: list the groups."""

import argparse
from typing import Final

from groupcomm_tools.commands import query

EXAMPLE: Final = "groupcomm groups --json"

add_options = query.add_options


def run(options: argparse.Namespace) -> int:
    """List the groups; return 0."""
    found = query.query(options, "groups")["groups"]
    if not options.json:
        for name, count in sorted(found.items()):
            print(f"{count:>6} {name}")
    return 0
