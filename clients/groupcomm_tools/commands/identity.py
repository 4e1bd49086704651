"""`groupcomm identity`: make the identity of a daemon, and list the identities of all daemons."""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Final

from groupcomm.errors import CannotConnect
from groupcomm.host.acting import as_owner_of
from groupcomm.host.option_types import existing_file
from groupcomm.security.identity import public_of
from groupcomm_tools.commands.connecting import connect_blocking
from groupcomm_tools.commands.options import add_connection_options
from groupcomm_tools.commands.subcommands import JSON, Subcommand, add_subcommands, argument, run
from groupcomm_tools.terminal import say
from groupcommd.files.identity_file import (
    add_identity,
    change_roll,
    read_identity,
    read_roll,
    write_identity,
)

__all__ = ["EXAMPLE", "add_options", "run"]

EXAMPLE: Final = "groupcomm identity new press.identity"


FILE: Final = argument("file", type=Path, metavar="FILE", help="where")
EXISTING: Final = argument("file", type=existing_file, metavar="FILE", help="where")
NAME: Final = argument("name", metavar="NAME", help="name of the daemon")
PUBLIC: Final = argument(
    "public", metavar="PUBLIC", help="64 hexadecimal digits, as shown by 'new'"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    add_subcommands(
        parser,
        Subcommand(
            "new",
            _new,
            "make a private key, and show its public key",
            "press.identity",
            *(FILE, JSON),
        ),
        Subcommand(
            "show",
            _show,
            "show the public key of a private one",
            "press.identity",
            *(EXISTING, JSON),
        ),
        Subcommand(
            "list",
            _list,
            "list the public keys that a file trusts, and those that were evicted",
            "plant.identities",
            *(EXISTING, JSON),
        ),
        Subcommand(
            "add",
            _add,
            "list the public key of a daemon",
            "plant.identities press PUBLIC",
            *(FILE, JSON, NAME, PUBLIC, add_connection_options),
        ),
    )


def _new(options: argparse.Namespace) -> int:
    with as_owner_of(options.file):
        public = write_identity(options.file)
    _print_key(options, public)
    say(
        f"wrote {options.file}: it stays on this host, and the daemon's file names it as identity;"
        " on every host list the public key: groupcomm identity add FILE NAME PUBLIC"
    )
    return 0


def _show(options: argparse.Namespace) -> int:
    _print_key(options, public_of(read_identity(options.file)))
    return 0


def _list(options: argparse.Namespace) -> int:
    with as_owner_of(options.file):
        roll = read_roll(options.file)
    if options.json:
        trusted = {name: key.hex() for name, key in roll.daemons.items() if roll.is_trusted(name)}
        evicted = {key.hex(): name for key, name in roll.evicted.items()}
        print(json.dumps({"daemons": trusted, "evicted": evicted}))
        return 0
    for name, key in sorted(roll.daemons.items()):
        print(f"{name:<24} {key.hex()}{'' if roll.is_trusted(name) else '  evicted'}")
    for key, name in roll.evicted.items():
        if roll.daemons.get(name) != key:
            print(f"{name:<24} {key.hex()}  evicted")
    return 0


def _print_key(options: argparse.Namespace, public: bytes) -> None:
    print(json.dumps({"public": public.hex()}) if options.json else public.hex())


def _add(options: argparse.Namespace) -> int:
    with as_owner_of(options.file):
        roll = change_roll(options.file, partial(add_identity, options.name, options.public))
    names = sorted(roll.daemons)
    told = _have_it_read(options)
    if options.json:
        reloaded = told == READ
        print(json.dumps({"file": str(options.file), "daemons": names, "reloaded": reloaded}))
    else:
        say(f"{options.file} lists {', '.join(names)}")
        say(told)
    return 0


READ: Final = "the daemon of this host has read its configuration and its identities again"


def _have_it_read(options: argparse.Namespace) -> str:
    """Have the daemon read its files again; return the result."""
    try:
        with connect_blocking(options) as connection:
            if connection.ask("keys").get("identities") is None:
                return (
                    "the daemon of this host works without identities: name this file in its"
                    " configuration as identities, and restart it"
                )
            answer = connection.ask("keys reload")
    except CannotConnect:
        return "no daemon answers on this host; it will read the file when it starts"
    if "error" in answer:
        return f"the daemon of this host has not read it: {answer['error']}"
    return READ
