"""`groupcomm daemons`: change the daemons that may be members of a cluster, while it works."""

import argparse
import json
import time
from functools import partial
from typing import Any, Final

from groupcomm.host.option_types import duration
from groupcomm_client.blocking import BlockingConnection
from groupcomm_tools.commands.connecting import connect_blocking
from groupcomm_tools.commands.eviction import evict_removed, is_trusted
from groupcomm_tools.commands.options import add_connection_options
from groupcomm_tools.commands.roster_changes import (
    ChangeFailed,
    add_change_options,
    ask_roster,
    change_roster,
    entry_of,
    link_delay,
    report,
)
from groupcomm_tools.commands.subcommands import (
    JSON,
    Declare,
    Subcommand,
    add_subcommands,
    argument,
    run,
)
from groupcomm_tools.commands.upgrade_status import add_options as add_upgrade_options
from groupcomm_tools.commands.upgrade_status import upgrade_status
from groupcomm_tools.commands.votes import policy_text, vote_commands
from groupcomm_tools.terminal import say

__all__ = ["EXAMPLE", "add_options", "run"]

EXAMPLE: Final = "groupcomm daemons add d --site main --address 10.0.0.4:4803"

VALID_S: Final = 3600.0
"""The time for which a token is valid, unless an operator names another one."""


WHERE: Final = ("--address", "--through")

PLACE: Final = (
    argument(
        "--address",
        action="append",
        dest="addresses",
        required=True,
        metavar="HOST:PORT",
        help="where the other daemons reach it; once for each of its networks",
    ),
    partial(add_change_options, where=("--through",)),
)
CHANGES: Final = partial(add_change_options, where=WHERE)
NAME: Final = argument("name", metavar="NAME", help="name of the daemon")
OLD: Final = argument("old", metavar="OLD", help="name of the daemon to remove")
NEW: Final = argument("new", metavar="NEW", help="name of the daemon to add")
LINK: Final = argument(
    "--link",
    action="append",
    type=link_delay,
    default=[],
    dest="links",
    metavar="SITE=MS",
    help="a link of a new site to another one, and its delay one way in milliseconds",
)
VALID: Final = argument(
    "--valid",
    type=duration,
    default=VALID_S,
    dest="valid_s",
    metavar="TIME",
    help="the time in which the daemon has to join, such as 90s, 10m, 1h or 7d (1h)",
)
KEEP_IDENTITY: Final = argument(
    "--keep-identity",
    action="store_true",
    help="do not evict the identity of the removed daemon: it is to be added again with it",
)


def _site(default: str) -> Declare:
    return argument("--site", metavar="SITE", help=f"its site; default: {default}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    parser.description = (
        f"{parser.description}: any daemon takes a change, and all agree on it; a change needs a"
        " majority of the daemons that count, and counts once the disks of all daemons of the view"
        " hold it"
    )
    through = partial(add_connection_options, where=WHERE)
    add_subcommands(
        parser,
        Subcommand("list", _list, "list the daemons of the roster", "--json", JSON, through),
        Subcommand(
            "add",
            _add,
            "add a daemon; then start it, with a file that lists it and a daemon of the cluster",
            "d --site main --address 10.0.0.4:4803",
            *(NAME, _site("the only one"), LINK, *PLACE),
        ),
        Subcommand(
            "invite",
            _invite,
            "print a token with which a daemon joins by itself, once",
            "d --valid 1h",
            *(NAME, _site("the only one"), VALID, CHANGES),
        ),
        Subcommand(
            "remove",
            _remove,
            "remove a daemon; it leaves in order if it runs",
            "d",
            *(NAME, KEEP_IDENTITY, CHANGES),
        ),
        Subcommand(
            "move",
            _move,
            "give a daemon other addresses; then restart it",
            "d --address 10.0.0.5:4803",
            *(NAME, *PLACE),
        ),
        Subcommand(
            "replace",
            _replace,
            "add a daemon, and remove one that is lost",
            "c d --address 10.0.0.4:4803",
            *(OLD, NEW, _site("that of OLD"), KEEP_IDENTITY, *PLACE),
        ),
        *vote_commands(NAME, CHANGES),
        Subcommand(
            "upgrade-status",
            upgrade_status,
            "show the release of each daemon, what the view uses, and what waits for an upgrade",
            "--json",
            add_upgrade_options,
        ),
    )


# ---- the verbs ----


def _list(options: argparse.Namespace) -> int:
    with connect_blocking(options) as connection:
        found = ask_roster(connection)
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        _print(found)
    return 0


def _add(options: argparse.Namespace) -> int:
    with connect_blocking(options) as connection:
        found = _add_one(connection, options, options.name, options.site, dict(options.links))
    return report(options, found, _START.format(options.name))


_START: Final = (
    "daemon {0} may join: start it with a file that lists it and at least one daemon of the cluster"
    " (same cluster, keys, preset and timing); it counts for majorities once it has come"
)


def _invite(options: argparse.Namespace) -> int:
    name = options.name
    asked = {"name": name, "valid_s": options.valid_s, "force": options.force}
    if options.site is not None:
        asked["site"] = options.site

    def ids(roster: dict[str, Any]) -> set[str]:
        return {each["id"] for each in roster["invitations"] if each["name"] == name}

    with connect_blocking(options) as connection:
        before = ids(ask_roster(connection))
        found = change_roster(
            connection, options, "invite", asked, lambda roster: bool(ids(roster) - before)
        )
    if options.json:
        return report(options, found, "")
    say(
        f"daemon {name} may join within {options.valid_s:g} s, once; on its host: groupcomm daemon"
        f" --name {name} --join HOST:PORT --token -, which reads this token from standard input, as"
        " all users see the words of a command; nothing shows the token again"
    )
    print(found["token"])
    return 0


def _add_one(
    connection: BlockingConnection,
    options: argparse.Namespace,
    name: str,
    site: str | None,
    links: dict[str, float] | None = None,
) -> dict[str, Any]:
    asked = {"name": name, "addresses": options.addresses, "force": options.force}
    if links:
        asked["links"] = links
    if site is not None:
        asked["site"] = site
    return change_roster(
        connection, options, "add", asked, lambda found: entry_of(found, name) is not None
    )


def _remove(options: argparse.Namespace) -> int:
    with connect_blocking(options) as connection:
        found, told = _remove_one(connection, options, options.name)
    return report(options, found, told)


def _remove_one(
    connection: BlockingConnection, options: argparse.Namespace, name: str
) -> tuple[dict[str, Any], str]:
    """Remove a daemon, and evict its identity; return the roster, and a sentence that says so."""
    asked = {"name": name, "force": options.force}
    evicts = not options.keep_identity and is_trusted(connection, name)
    found = change_roster(
        connection, options, "remove", asked, lambda found: entry_of(found, name) is None
    )
    told = f"daemon {name} is removed: if it runs, it leaves in order and ends"
    if evicts:
        told += f"; {evict_removed(connection, name, found['asked'])}"
    return found, told


def _move(options: argparse.Namespace) -> int:
    name = options.name

    def is_there(found: dict[str, Any]) -> bool:
        entry = entry_of(found, name)
        return entry is not None and found["number"] > begun

    asked = {"name": name, "addresses": options.addresses, "force": options.force}
    with connect_blocking(options) as connection:
        begun = ask_roster(connection)["number"]
        found = change_roster(connection, options, "move", asked, is_there)
    return report(
        options,
        found,
        f"daemon {name} is expected at {', '.join(options.addresses)} from now on: restart it, and"
        " it listens there",
    )


def _replace(options: argparse.Namespace) -> int:
    with connect_blocking(options) as connection:
        found = ask_roster(connection)
        old = entry_of(found, options.old)
        if old is None and entry_of(found, options.new) is None:
            raise ChangeFailed(f"daemon {options.old} is not in the roster")
        if entry_of(found, options.new) is None:  # else this was cut off in the middle
            site = options.site or (old["site"] if old is not None else None)
            _add_one(connection, options, options.new, site)
        found, told = _remove_one(connection, options, options.old)
    return report(options, found, f"{told}; {_START.format(options.new)}")


# ---- text ----


def _print(roster: dict[str, Any]) -> None:
    """Print a table of the daemons, and what the roster waits for."""
    rows = [("daemon", "site", "addresses", "state")]
    rows += [
        (entry["name"], entry["site"], ", ".join(entry["addresses"]) or "-", _state(entry))
        for entry in roster["daemons"]
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())
    forced = f", {roster['forced']} changes of it forced" if roster["forced"] else ""
    word = {True: "a majority", False: "NO majority", None: "no view"}[roster["majority"]]
    print(f"roster {roster['number']}{forced}; the view of {roster['asked']} has {word}")
    if any(roster["policy"].values()):
        print(f"policy: {policy_text(roster['policy'])}")
    if roster["removed"]:
        print(f"removed: {', '.join(roster['removed'])}")
    for each in roster["invitations"]:
        print(f"invited: {each['name']}, {_invited(each)}")
    if roster["changing"]:
        print(f"a change waits for the disks of {', '.join(roster['lacking']) or 'nobody'}")


def _invited(invitation: dict[str, Any]) -> str:
    """Return the state of an invitation."""
    left_s = invitation["expires_s"] - time.time()
    if invitation["used"]:
        return "who has joined"
    return f"for {left_s:.0f} s more" if left_s > 0 else "whose token has expired"


def _state(entry: dict[str, Any]) -> str:
    here = "in the view" if entry["in_view"] else "not in the view"
    votes, held = entry["votes"], entry["held"]
    if entry["away"]:
        return f"{here}, has left in order, and does not count until it is back"
    if held == votes:
        return here if votes == 1 else f"{here}, {votes} votes"
    if votes == 1:
        return f"{here}, does not count until it has come"
    return f"{here}, {held} of {votes} votes count until it has come"
