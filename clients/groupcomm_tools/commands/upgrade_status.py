"""`groupcomm daemons upgrade-status`: releases and versions of all daemons of a cluster."""

import argparse
import json
from typing import Any

from groupcomm.errors import GroupCommError
from groupcomm_client.blocking import BlockingConnection
from groupcomm_tools.commands.connecting import connect_blocking
from groupcomm_tools.commands.options import add_connection_options
from groupcomm_tools.commands.status import ask_all


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    add_connection_options(parser, ("--address", "--through"))


def upgrade_status(options: argparse.Namespace) -> int:
    """Print the progress of an upgrade; return 1 while some daemon shares no version."""
    with connect_blocking(options) as connection:
        found = ask_upgrade(connection)
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        _show(found)
    return 1 if found["apart"] else 0


def ask_upgrade(connection: BlockingConnection) -> dict[str, Any]:
    """Return the releases and versions of all daemons, as one of them knows them.

    Raises:
        GroupCommError: the daemon is of a release that knows no versions.
    """
    protocol = connection.ask("status").get("protocol")
    if protocol is None:
        raise GroupCommError(
            "this daemon's release tells no versions: ask one that is upgraded already"
        )
    states = {each["name"]: each for each in ask_all(connection)["daemons"]}
    known = {each["name"]: each for each in (*protocol["daemons"], *protocol["apart"])}
    keys = ("lowest", "highest", "features")
    return {
        "view": protocol["view"],
        "daemons": [
            {
                "name": name,
                "release": states.get(name, {}).get("version"),
                "state": "no common version"
                if name not in {each["name"] for each in protocol["daemons"]} and name in known
                else states.get(name, {}).get("state", "in view"),
                **{key: known[name][key] if name in known else None for key in keys},
            }
            for name in sorted(states.keys() | known.keys())
        ],
        "next": protocol["next"],
        "apart": protocol["apart"],
    }


def _show(found: dict[str, Any]) -> None:
    rows = [("daemon", "release", "versions", "features", "state")]
    for each in found["daemons"]:
        versions = "?" if each["lowest"] is None else f"{each['lowest']}-{each['highest']}"
        features = ", ".join(each["features"] or ()) or "-"
        rows.append((each["name"], each["release"] or "?", versions, features, each["state"]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())
    view = found["view"]
    if view is not None:
        features = ", ".join(view["features"]) or "none"
        print(f"the view uses version {view['version']}; features: {features}")
    for step in found["next"]:
        what = f"version {step['version']}" if "version" in step else f"feature {step['feature']}"
        print(f"{what} is switched on once upgraded: {', '.join(step['waits_for'])}")
    for each in found["apart"]:
        print(f"{each['text']}; {each['remedy']}")
