"""`groupcomm daemons votes` and `policy`: say who goes on when the cluster is cut in two."""

import argparse
from typing import Any, Final

from groupcomm_tools.commands.connecting import connect_blocking
from groupcomm_tools.commands.roster_changes import (
    ChangeFailed,
    change_roster,
    entry_of,
    report,
)
from groupcomm_tools.commands.subcommands import Declare, Subcommand, argument

VOTES: Final = argument("votes", type=int, metavar="VOTES", help="0 to 16; 1 unless it is set")
ORDERLY: Final = argument(
    "--orderly",
    choices=("yes", "no"),
    help="whether a daemon that leaves in order is not counted as missing until it is back",
)
TIE_BREAKER: Final = argument(
    "--tie-breaker",
    metavar="NAME",
    help="the daemon with which half of the votes may go on; none for no daemon",
)


def vote_commands(name: Declare, changes: Declare) -> tuple[Subcommand, ...]:
    """Return the verbs; `name` declares the name of a daemon, `changes` the options of changes."""
    return (
        Subcommand(
            "votes",
            _votes,
            "give a daemon votes: more than half of all are a majority",
            "a 2",
            *(name, VOTES, changes),
        ),
        Subcommand(
            "policy",
            _policy,
            "say what counts besides a majority of the votes",
            "--orderly yes",
            *(ORDERLY, TIE_BREAKER, changes),
        ),
    )


def _votes(options: argparse.Namespace) -> int:
    name, votes = options.name, options.votes

    def are_given(found: dict[str, Any]) -> bool:
        entry = entry_of(found, name)
        return entry is not None and entry["votes"] == votes

    asked = {"name": name, "votes": votes, "force": options.force}
    with connect_blocking(options) as connection:
        found = change_roster(connection, options, "votes", asked, are_given)
    return report(
        options,
        found,
        f"daemon {name} is given {votes} votes: they are counted one at a time, while it is in a"
        " view with a majority; groupcomm daemons list shows those that it holds",
    )


def _policy(options: argparse.Namespace) -> int:
    wanted: dict[str, Any] = {}
    if options.orderly is not None:
        wanted["orderly"] = options.orderly == "yes"
    if options.tie_breaker is not None:
        wanted["tie_breaker"] = "" if options.tie_breaker == "none" else options.tie_breaker
    if not wanted:
        raise ChangeFailed("nothing to change: give --orderly or --tie-breaker")

    def is_in_force(found: dict[str, Any]) -> bool:
        even = sum(entry["held"] for entry in found["daemons"]) % 2 == 0
        waits = wanted.get("tie_breaker") and even and not options.force
        same = all(found["policy"][key] == value for key, value in wanted.items())
        return same and (found["settled"] or not waits)

    with connect_blocking(options) as connection:
        asked = {**wanted, "force": options.force}
        found = change_roster(connection, options, "policy", asked, is_in_force)
    return report(options, found, f"policy: {policy_text(found['policy'])}")


def policy_text(policy: dict[str, Any]) -> str:
    """Return what counts besides a majority of the votes."""
    found = ["who leaves in order is not missing"] if policy["orderly"] else []
    if policy["tie_breaker"]:
        found.append(f"half of the votes with {policy['tie_breaker']} may go on")
    return "; ".join(found) or "a majority of the votes"
