"""`groupcomm tokens`: make, list and revoke the tokens of programs."""

import argparse
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from groupcomm.host.acting import as_owner_of
from groupcomm.host.option_types import positive
from groupcomm_tools.commands.subcommands import JSON, Subcommand, add_subcommands, argument, run
from groupcomm_tools.terminal import say
from groupcommd.programs.token_file import add_token, read_tokens, remove_token

__all__ = ["EXAMPLE", "add_options", "run"]

EXAMPLE: Final = "groupcomm tokens add plant.tokens sensor-7 --days 90"


FILE: Final = argument(
    "file", type=Path, metavar="FILE", help="the file of the daemon's clients.tokens"
)
NAME: Final = argument("name", metavar="NAME", help="name of the token")
DAYS: Final = argument("--days", type=positive, metavar="N", help="days until it expires (never)")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    add_subcommands(
        parser,
        Subcommand(
            "add",
            _add,
            "make a token, and show it once",
            "plant.tokens sensor-7 --days 90",
            *(FILE, NAME, DAYS, JSON),
        ),
        Subcommand("list", _list, "list the tokens", "plant.tokens --json", FILE, JSON),
        Subcommand(
            "remove",
            _remove,
            "remove a token, so that it admits nobody any more",
            "plant.tokens sensor-7",
            *(FILE, NAME),
        ),
    )


def _add(options: argparse.Namespace) -> int:
    now = datetime.now(UTC).replace(microsecond=0)
    expires = None if options.days is None else now + timedelta(days=options.days)
    with as_owner_of(options.file):
        token = add_token(options.file, options.name, expires)
    print(json.dumps({"name": options.name, "token": token}) if options.json else token)
    say(
        "the token is shown only now, and stored nowhere: give it to the program, as"
        " $GROUPCOMM_TOKEN or token=; it is valid at once"
    )
    return 0


def _remove(options: argparse.Namespace) -> int:
    with as_owner_of(options.file):
        remove_token(options.file, options.name)
    say(
        f"removed {options.name}: it admits nobody any more; send the daemon SIGHUP to end the"
        " sessions that it has admitted"
    )
    return 0


def _list(options: argparse.Namespace) -> int:
    now = datetime.now(UTC)
    with as_owner_of(options.file):
        found = read_tokens(options.file)
    if options.json:
        listed = {
            name: {
                "expires": token.expires and token.expires.isoformat(),
                "valid": token.is_valid(now),
            }
            for name, token in found.items()
        }
        print(json.dumps({"tokens": listed}))
        return 0
    for name, token in found.items():
        until = "for ever" if token.expires is None else f"until {token.expires.isoformat()}"
        print(f"{name:<24} {until}{'' if token.is_valid(now) else '  EXPIRED'}")
    return 0
