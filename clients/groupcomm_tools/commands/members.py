"""`groupcomm members`: list the members of a group, since when they are, and their owners."""

import argparse
from typing import Final

from groupcomm.names import check_group
from groupcomm_tools.commands import query
from groupcomm_tools.terminal import say

EXAMPLE: Final = "groupcomm members chat"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("group", metavar="GROUP", help="the group")
    query.add_options(parser)


def run(options: argparse.Namespace) -> int:
    """List the members; return 1 if there is none."""
    group = check_group(options.group)
    answer = query.query(options, f"members {group}")
    found = answer["members"]
    if not options.json:
        for name in found:
            since = answer.get("since", {}).get(name)
            if since is None:  # a daemon of an older release
                print(name)
                continue
            joined = since["time"] or f"view {since['view']}"  # it came with other daemons
            print(f"{name:<24} since {joined}  {answer['principals'][name]}")
        if paused_for := answer.get("paused_for"):
            say(
                f"groupcomm: group {group} is paused, as the daemons that hear each other are no"
                " majority: AGREED and SAFE messages to it wait until they are; it pauses for"
                f" {', '.join(paused_for)}"
            )
        if not found:
            say(f"groupcomm: group {group} has no member; groupcomm groups lists the groups")
    return 0 if found else 1
