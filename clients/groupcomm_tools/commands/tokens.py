"""`groupcomm tokens`: make, list and revoke the tokens of programs."""

import argparse
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcommd.token_file import add_token, read_tokens, remove_token

EXAMPLE: Final = "groupcomm tokens add plant.tokens sensor-7 --days 90"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", choices=("add", "list", "remove"), metavar="add|list|remove")
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="the file of the daemon's clients.tokens"
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="name of the token, to add or remove"
    )
    parser.add_argument("--days", type=float, metavar="N", help="days until it expires (never)")
    parser.add_argument("--json", action="store_true", help="one line of JSON")


def run(options: argparse.Namespace) -> int:
    """Run the action; return 0. A token itself is shown only once, when it is made."""
    if (options.name is None) != (options.what == "list"):
        raise ConfigError("tokens: give FILE and NAME to add or remove, FILE alone to list")
    if options.days is not None and not options.days > 0:
        raise ConfigError(f"tokens: --days is {options.days}; it must be above 0")
    if options.what == "add":
        _add(options)
    elif options.what == "remove":
        remove_token(options.file, options.name)
        print(
            f"removed {options.name}: it admits nobody any more; send the daemon SIGHUP to end the"
            " sessions that it has admitted",
            file=sys.stderr,
        )
    else:
        _list(options)
    return 0


def _add(options: argparse.Namespace) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    expires = None if options.days is None else now + timedelta(days=options.days)
    token = add_token(options.file, options.name, expires)
    print(json.dumps({"name": options.name, "token": token}) if options.json else token)
    print(
        "the token is shown only now, and stored nowhere: give it to the program, as"
        " $GROUPCOMM_TOKEN or token=; it is valid at once",
        file=sys.stderr,
    )


def _list(options: argparse.Namespace) -> None:
    now, found = datetime.now(UTC), read_tokens(options.file)
    if options.json:
        listed = {
            name: {
                "expires": token.expires and token.expires.isoformat(),
                "valid": token.is_valid(now),
            }
            for name, token in found.items()
        }
        print(json.dumps({"tokens": listed}))
        return
    for name, token in found.items():
        until = "for ever" if token.expires is None else f"until {token.expires.isoformat()}"
        print(f"{name:<24} {until}{'' if token.is_valid(now) else '  EXPIRED'}")
