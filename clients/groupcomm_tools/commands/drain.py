"""`groupcomm drain`: have the programs of a daemon move to others, and then stop it."""

import argparse
import json
import sys
import time
from typing import Any, Final

from groupcomm.engine.drain import STOPPED_EMPTY
from groupcomm.errors import SessionEnded
from groupcomm.host.option_types import not_negative
from groupcomm.visible import visible
from groupcomm_client.blocking import BlockingConnection
from groupcomm_tools.commands.connecting import accepted, connect_blocking
from groupcomm_tools.commands.options import add_connection_options

EXAMPLE: Final = "groupcomm drain --within-s 60"

FAILED: Final = 1
POLL_S: Final = 0.1

WITHIN_S: Final = 30.0
"""By default programs have this time to move."""

MAX_SHOWN: Final = 16
"""The most users that a line names."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--within-s",
        type=not_negative,
        default=WITHIN_S,
        metavar="S",
        help=f"the daemon stops after S seconds even if programs are left ({WITHIN_S:g})",
    )
    parser.add_argument("--json", action="store_true", help="one line of JSON for each change")
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Drain the daemon and show the progress; return 1 if programs were left when it stopped."""
    with connect_blocking(options) as connection:
        user = connection.name.removeprefix("#").rpartition("#")[0]
        accepted(connection.ask(f"drain {options.within_s:g} {user}"))
        last = _follow(connection, as_json=options.json)
    _show(last, as_json=options.json, over=True)
    return FAILED if last["staying"] else 0


def _follow(connection: BlockingConnection, *, as_json: bool) -> dict[str, Any]:
    """Show the progress whenever it changes, until the daemon leaves; return the last one."""
    last: dict[str, Any] = {"daemon": connection.member.daemon, "gone": 0, "staying": []}
    shown: dict[str, Any] = {}
    try:
        while True:
            found = accepted(connection.ask("drain"))
            connection.pop_waiting()  # events are of no interest here
            if found["drain"] is not None:
                last = {"daemon": found["daemon"], **found["drain"]}
                if any(last[key] != shown.get(key) for key in ("gone", "staying")):
                    shown = last
                    _show(last, as_json=as_json, over=False)
            time.sleep(POLL_S)
    except SessionEnded as end:  # the daemon has ended, so no other program is waited for
        if str(end).endswith(STOPPED_EMPTY):  # they went after the last question
            last |= {"gone": last["gone"] + len(last["staying"]), "staying": []}
        return last


def _show(told: dict[str, Any], *, as_json: bool, over: bool) -> None:
    if as_json:
        print(json.dumps({**told, "over": over}, ensure_ascii=False), flush=True)
        return
    staying = told["staying"]
    names = ", ".join(map(visible, staying[:MAX_SHOWN]))
    names += f" and {len(staying) - MAX_SHOWN} more" * (len(staying) > MAX_SHOWN)
    if over:
        end = f"; it has ended the sessions of {len(staying)}: {names}" if staying else ""
        text = f"{told['daemon']} leaves: {told['gone']} programs have moved or ended{end}"
    else:
        text = f"{told['daemon']} stops within {told['left_s']:.0f} s: {told['gone']} programs have"
        text += f" moved or ended, {len(staying)} are left" + f": {names}" * bool(names)
    print(text, file=sys.stderr, flush=True)
