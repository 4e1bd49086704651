"""`groupcomm identity`: make the identity of a daemon, and list the identities of all daemons."""

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Final

from groupcomm.errors import CannotConnect
from groupcomm.security.identity import public_of
from groupcomm_tools.commands.connecting import ask_daemon
from groupcomm_tools.commands.options import add_connection_options
from groupcommd.identity_file import add_identity, change_roll, read_identity, write_identity

EXAMPLE: Final = "groupcomm identity new press.identity"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands."""
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, run_, help_, example in (
        ("new", _new, "make a private key, and show its public key", "new press.identity"),
        ("show", _show, "show the public key of a private one", "show press.identity"),
        ("add", _add, "list the public key of a daemon", "add plant.identities press PUBLIC"),
    ):
        verb = verbs.add_parser(
            name,
            help=help_,
            description=help_,
            epilog="exit status: 0 done, 1 refused, 2 wrong usage or file."
            f" example: groupcomm identity {example}",
        )
        verb.set_defaults(run_identity=run_)
        verb.add_argument("file", type=Path, metavar="FILE", help="where")
        if name == "add":
            verb.add_argument("name", metavar="NAME", help="name of the daemon")
            verb.add_argument(
                "public", metavar="PUBLIC", help="64 hexadecimal digits, as shown by 'new'"
            )
            add_connection_options(verb)
        verb.add_argument("--json", action="store_true", help="one line of JSON")


def run(options: argparse.Namespace) -> int:
    """Run the subcommand; return its exit status."""
    return int(options.run_identity(options))


def _new(options: argparse.Namespace) -> int:
    _print_key(options, write_identity(options.file))
    print(
        f"wrote {options.file}: it stays on this host, and the daemon's file names it as identity;"
        " on every host list the public key: groupcomm identity add FILE NAME PUBLIC",
        file=sys.stderr,
    )
    return 0


def _show(options: argparse.Namespace) -> int:
    _print_key(options, public_of(read_identity(options.file)))
    return 0


def _print_key(options: argparse.Namespace, public: bytes) -> None:
    print(json.dumps({"public": public.hex()}) if options.json else public.hex())


def _add(options: argparse.Namespace) -> int:
    roll = change_roll(options.file, partial(add_identity, options.name, options.public))
    names = sorted(roll.daemons)
    try:
        reloaded = "error" not in ask_daemon(options, "keys reload")
    except CannotConnect:
        reloaded = False
    if options.json:
        print(json.dumps({"file": str(options.file), "daemons": names, "reloaded": reloaded}))
    else:
        print(f"{options.file} lists {', '.join(names)}", file=sys.stderr)
        if reloaded:
            print("the daemon of this host has read it", file=sys.stderr)
    return 0
