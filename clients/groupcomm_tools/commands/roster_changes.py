"""Changes of the roster for commands: ask a daemon, wait until the change counts, report it."""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from math import inf, isfinite
from typing import Any, Final

from groupcomm.errors import GroupCommError, SessionError
from groupcomm.host.option_types import positive
from groupcomm_client.blocking import BlockingConnection
from groupcomm_tools.commands.connecting import accepted
from groupcomm_tools.commands.options import add_connection_options
from groupcomm_tools.terminal import say

WAIT_S: Final = 20.0
"""The time in which a change counts, unless a disk hangs or the view changes all the time."""

POLL_S: Final = 0.02


class ChangeFailed(GroupCommError):
    """A daemon refuses a change of the roster, or the change does not count in time."""


def add_change_options(parser: argparse.ArgumentParser, where: Sequence[str]) -> None:
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


def link_delay(text: str) -> tuple[str, float]:
    """Return the name of a link or of a neighbour, and a delay in milliseconds: ``NAME=MS``."""
    name, found, number = text.rpartition("=")
    try:
        delay_ms = float(number)
    except ValueError:
        delay_ms = inf
    if not found or not name or not isfinite(delay_ms):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no link with a delay: write NAME=MILLISECONDS, such as north-south=40"
        )
    return name, delay_ms


def change_roster(
    connection: BlockingConnection,
    options: argparse.Namespace,
    verb: str,
    asked: dict[str, Any],
    is_done: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """Ask for a change, wait until it counts, and return the new roster with the first answer.

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
            roster = ask_roster(connection)
        except SessionError:
            if verb == "remove" and roster is not None and asked["name"] == roster["asked"]:
                return _without(roster, asked["name"])  # the daemon that was asked has left
            raise
        if roster["number"] > before and is_done(roster):
            return {**found, **roster}
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


def ask_roster(connection: BlockingConnection) -> dict[str, Any]:
    """Return the roster that the daemon uses."""
    return accepted(connection.ask("daemons"))


def entry_of(roster: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return the entry of a daemon; None if it is not in the roster."""
    return next((each for each in roster["daemons"] if each["name"] == name), None)


def _name(entry: dict[str, Any]) -> str:
    return str(entry["name"])


def report(options: argparse.Namespace, found: dict[str, Any], text: str) -> int:
    """Print the new roster, or the roster and this text; return the exit status."""
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        say(f"roster {found['number']} counts: {', '.join(map(_name, found['daemons']))}")
        say(text)
    return 0
