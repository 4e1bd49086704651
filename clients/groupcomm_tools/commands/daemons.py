"""`groupcomm daemons`: change the daemons that may be members of a cluster, while it works."""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from groupcomm.errors import GroupCommError, SessionError
from groupcomm.host.option_types import positive
from groupcomm_client.blocking import BlockingConnection
from groupcomm_tools.commands.connecting import accepted, connect_blocking
from groupcomm_tools.commands.options import add_connection_options
from groupcomm_tools.commands.subcommands import Subcommand, add_subcommands, run
from groupcomm_tools.terminal import say

__all__ = ["EXAMPLE", "add_options", "run"]

EXAMPLE: Final = "groupcomm daemons add d --site main --address 10.0.0.4:4803"

WAIT_S: Final = 20.0
"""The time in which a change counts, unless a disk hangs or the view changes all the time."""

POLL_S: Final = 0.02


class ChangeFailed(GroupCommError):
    """A daemon refuses a change of the roster, or the change does not count in time."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    parser.description = (
        f"{parser.description}: any daemon takes a change, and all agree on it; a change needs a"
        " majority of the daemons that count, and counts once the disks of all daemons of the view"
        " hold it"
    )
    add_subcommands(
        parser,
        Subcommand("list", _list, "list the daemons of the roster", "--json", _add_list_options),
        Subcommand(
            "add",
            _add,
            "add a daemon; then start it, with a file that lists it and a daemon of the cluster",
            "d --site main --address 10.0.0.4:4803",
            _add_add_options,
        ),
        Subcommand(
            "remove",
            _remove,
            "remove a daemon; it leaves in order if it runs",
            "d",
            _add_remove_options,
        ),
        Subcommand(
            "move",
            _move,
            "give a daemon other addresses; then restart it",
            "d --address 10.0.0.5:4803",
            _add_move_options,
        ),
        Subcommand(
            "replace",
            _replace,
            "add a daemon, and remove one that is lost",
            "c d --address 10.0.0.4:4803",
            _add_replace_options,
        ),
    )


def _add_list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    add_connection_options(parser, ("--address", "--through"))


def _add_change_options(parser: argparse.ArgumentParser, where: Sequence[str]) -> None:
    """Declare the options of all changes; `where` are the words for the daemon to ask."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="also without a majority; only if the other daemons are lost for good, as their part"
        " could change the roster, too: of two such parts one loses its changes when they meet",
    )
    parser.add_argument(
        "--timeout-s",
        type=positive,
        default=WAIT_S,
        metavar="S",
        help=f"longest wait until the change counts ({WAIT_S:g})",
    )
    parser.add_argument("--json", action="store_true", help="print the new roster as JSON")
    add_connection_options(parser, where)


def _add_place_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--address",
        action="append",
        dest="addresses",
        required=True,
        metavar="HOST:PORT",
        help="where the other daemons reach it; once for each of its networks",
    )
    _add_change_options(parser, ("--through",))


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the daemon")


def _add_site(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--site", metavar="SITE", help=f"its site; default: {default}")


def _add_add_options(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    _add_site(parser, "the only one")
    _add_place_options(parser)


def _add_remove_options(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    _add_change_options(parser, ("--address", "--through"))


def _add_move_options(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    _add_place_options(parser)


def _add_replace_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", help="name of the daemon to remove")
    parser.add_argument("new", metavar="NEW", help="name of the daemon to add")
    _add_site(parser, "that of OLD")
    _add_place_options(parser)


# ---- the verbs ----


def _list(options: argparse.Namespace) -> int:
    with connect_blocking(options) as connection:
        found = _roster(connection)
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        _print(found)
    return 0


def _add(options: argparse.Namespace) -> int:
    with connect_blocking(options) as connection:
        found = _add_one(connection, options, options.name, options.site)
    return _end(options, found, _START.format(options.name))


_START: Final = (
    "daemon {0} may join: start it with a file that lists it and at least one daemon of the cluster"
    " (same cluster, keys, preset and timing); it counts for majorities once it has come"
)


def _add_one(
    connection: BlockingConnection, options: argparse.Namespace, name: str, site: str | None
) -> dict[str, Any]:
    asked = {"name": name, "addresses": options.addresses, "force": options.force}
    if site is not None:
        asked["site"] = site
    return _change(connection, options, "add", asked, lambda found: _entry(found, name) is not None)


def _remove(options: argparse.Namespace) -> int:
    with connect_blocking(options) as connection:
        found = _remove_one(connection, options, options.name)
    return _end(options, found, _REMOVED.format(options.name))


_REMOVED: Final = (
    "daemon {0} is removed: if it runs, it leaves in order and ends; if daemons have identities,"
    " also: groupcomm keys evict {0}"
)


def _remove_one(
    connection: BlockingConnection, options: argparse.Namespace, name: str
) -> dict[str, Any]:
    asked = {"name": name, "force": options.force}
    return _change(connection, options, "remove", asked, lambda found: _entry(found, name) is None)


def _move(options: argparse.Namespace) -> int:
    name = options.name

    def is_there(found: dict[str, Any]) -> bool:
        entry = _entry(found, name)
        return entry is not None and found["number"] > begun

    asked = {"name": name, "addresses": options.addresses, "force": options.force}
    with connect_blocking(options) as connection:
        begun = _roster(connection)["number"]
        found = _change(connection, options, "move", asked, is_there)
    return _end(
        options,
        found,
        f"daemon {name} is expected at {', '.join(options.addresses)} from now on: restart it, and"
        " it listens there",
    )


def _replace(options: argparse.Namespace) -> int:
    with connect_blocking(options) as connection:
        found = _roster(connection)
        old = _entry(found, options.old)
        if old is None and _entry(found, options.new) is None:
            raise ChangeFailed(f"daemon {options.old} is not in the roster")
        if _entry(found, options.new) is None:  # else this was cut off in the middle
            site = options.site or (old["site"] if old is not None else None)
            _add_one(connection, options, options.new, site)
        found = _remove_one(connection, options, options.old)
    return _end(options, found, f"{_REMOVED.format(options.old)}; {_START.format(options.new)}")


def _end(options: argparse.Namespace, found: dict[str, Any], text: str) -> int:
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        say(f"roster {found['number']} counts: {', '.join(map(_name, found['daemons']))}")
        say(text)
    return 0


# ---- changes ----


def _change(
    connection: BlockingConnection,
    options: argparse.Namespace,
    verb: str,
    asked: dict[str, Any],
    is_done: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """Ask for a change, wait until it counts, and return the new roster.

    It is asked for again while the daemon looks for a view, or another change is in progress.

    Raises:
        ChangeFailed: the daemon refuses it, or it does not count in time.
    """
    until = time.monotonic() + options.timeout_s
    question = f"daemons {verb} {json.dumps(asked, ensure_ascii=False)}"
    while "error" in (found := connection.ask(question)):
        if not found.get("again") or time.monotonic() > until:
            raise ChangeFailed(found["error"])
        time.sleep(POLL_S)
    before = found["number"]
    told: Sequence[str] = ()
    roster: dict[str, Any] | None = None
    while True:
        try:
            roster = _roster(connection)
        except SessionError:
            if verb == "remove" and roster is not None and asked["name"] == roster["asked"]:
                return _without(roster, asked["name"])  # the daemon that was asked has left
            raise
        if roster["number"] > before and is_done(roster):
            return roster
        if time.monotonic() > until:
            raise ChangeFailed(_late(roster, options.timeout_s))
        if roster["lacking"] != told and time.monotonic() > until - options.timeout_s + SAY_S:
            told = roster["lacking"]
            say(f"waiting for the disks of {', '.join(told)}" if told else "waiting for a view")
        time.sleep(POLL_S)


SAY_S: Final = 1.0
"""A change that takes longer is explained."""


def _late(roster: dict[str, Any], timeout_s: float) -> str:
    """Return why a change does not count yet, and what to do."""
    if roster["lacking"]:
        return (
            f"the change does not count after {timeout_s:g} s, as the disks of"
            f" {', '.join(roster['lacking'])} do not hold it: it counts once they answer, or"
            " once these daemons have left the view; groupcomm daemons list shows it"
        )
    return (
        f"the change does not count after {timeout_s:g} s: another change came first, or the view"
        " ended; look at groupcomm daemons list, and ask for it again"
    )


def _without(roster: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the roster after the daemon that was asked has removed itself."""
    left = [each for each in roster["daemons"] if each["name"] != name]
    return {**roster, "number": roster["number"] + 1, "daemons": left, "changing": False}


def _roster(connection: BlockingConnection) -> dict[str, Any]:
    return accepted(connection.ask("daemons"))


def _entry(roster: dict[str, Any], name: str) -> dict[str, Any] | None:
    return next((each for each in roster["daemons"] if each["name"] == name), None)


def _name(entry: dict[str, Any]) -> str:
    return str(entry["name"])


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
    if roster["removed"]:
        print(f"removed: {', '.join(roster['removed'])}")
    if roster["changing"]:
        print(f"a change waits for the disks of {', '.join(roster['lacking']) or 'nobody'}")


def _state(entry: dict[str, Any]) -> str:
    here = "in the view" if entry["in_view"] else "not in the view"
    return here if entry["counts"] else f"{here}, does not count until it has come"
