"""`groupcomm keys`: change the secrets of a cluster while it works."""

import argparse
import json
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from groupcomm.errors import CannotConnect
from groupcomm.host.acting import as_owner_of
from groupcomm.host.key_file import add_from, add_key, change_key_file, read_key_file
from groupcomm.host.option_types import existing_file, one_or_more
from groupcomm_tools.commands.connecting import accepted, ask_daemon
from groupcomm_tools.commands.options import add_connection_options
from groupcomm_tools.commands.subcommands import (
    JSON,
    Subcommand,
    add_subcommands,
    argument,
    run,
)

__all__ = ["EXAMPLE", "add_options", "run"]

EXAMPLE: Final = "groupcomm keys status"

FAILED: Final = 1


FILE: Final = argument("file", type=existing_file, metavar="FILE", help="the daemon's key file")
COPY: Final = argument(
    "--from",
    dest="other",
    type=existing_file,
    metavar="COPY",
    help="take the keys of another host's file, and make none",
)
NUMBER: Final = argument("number", type=one_or_more, metavar="N", help="number of the key")
WITHOUT_MISSING: Final = argument(
    "--without-missing",
    action="store_true",
    help="even if daemons are down; they need the newer key to come back",
)
OTHER: Final = argument(
    "name", metavar="NAME", help="name of the daemon, which must be another one than here"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    steps = "add a key at every host, promote it, retire the old one; or evict a daemon"
    parser.description = f"{parser.description}: {steps}"
    common = JSON, add_connection_options
    add_subcommands(
        parser,
        Subcommand(
            "status",
            _status,
            "show which keys the members have, and which key seals",
            "--json",
            *common,
        ),
        Subcommand(
            "add",
            _add,
            "add a key to a key file, and have the daemon read it",
            "plant.key",
            *(FILE, COPY, *common),
        ),
        Subcommand(
            "promote",
            _promote,
            "have all members seal with a key from now on",
            "2",
            *(NUMBER, *common),
        ),
        Subcommand(
            "retire",
            _retire,
            "have all members erase a key, also in their files",
            "1",
            *(NUMBER, *common, WITHOUT_MISSING),
        ),
        Subcommand(
            "evict",
            _evict,
            "have all daemons stop trusting the identity of a daemon",
            "press",
            *(OTHER, *common),
        ),
    )


def _status(options: argparse.Namespace) -> int:
    found = _ask(options, "keys")
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    print(f"here      {_keys(found)}")
    for name, told in sorted(found["members"].items()):
        print(
            f"{name:<9} {_keys(told) if told is not None else 'has reported nothing in this view'}"
        )
    for name in found["missing"]:
        print(f"{name:<9} is not in the view")
    if found["identities"] is not None:
        _print_identities(found["identities"])
    return 0


def _print_identities(told: Mapping[str, Any]) -> None:
    known = ", ".join(f"{name} ({found})" for name, found in told["daemons"].items())
    print(f"trusted   {known}")
    for found, name in told["evicted"].items():
        print(f"evicted   {name} ({found})")
    if told["await"]:
        print(f"awaited   {', '.join(told['await'])}: the secrets of this view have not arrived")


def _keys(told: Mapping[str, Any]) -> str:
    keys = ", ".join(f"{number} ({found})" for number, found in told["keys"].items())
    return f"seals with {told['active']}; has {keys}"


def _add(options: argparse.Namespace) -> int:
    change = add_key if options.other is None else partial(add_from, read_key_file(options.other))
    with as_owner_of(options.file):
        keys = change_key_file(options.file, change)
    numbers = sorted(keys.keys)
    try:
        _ask(options, "keys reload")
        reloaded = True
    except CannotConnect:
        reloaded = False
    if options.json:
        print(json.dumps({"file": str(options.file), "keys": numbers, "reloaded": reloaded}))
        return 0
    print(f"{options.file} has the keys {', '.join(map(str, numbers))}", file=sys.stderr)
    if reloaded:
        print("the daemon of this host opens datagrams with all of them", file=sys.stderr)
    else:
        print(
            "no daemon answers on this host; it will read the file when it starts", file=sys.stderr
        )
    if options.other is None:
        print(
            f"copy it to the other hosts, and there: groupcomm keys add THEIRS --from COPY; then,"
            f" on one host: groupcomm keys promote {numbers[-1]}",
            file=sys.stderr,
        )
    return 0


def _promote(options: argparse.Namespace) -> int:
    return _order(options, f"keys promote {options.number}", f"to seal with key {options.number}")


def _retire(options: argparse.Namespace) -> int:
    anyway = " without-missing" if options.without_missing else ""
    return _order(
        options, f"keys retire {options.number}{anyway}", f"to erase key {options.number}"
    )


def _evict(options: argparse.Namespace) -> int:
    return _order(options, f"keys evict {options.name}", f"to trust {options.name} no more")


def _order(options: argparse.Namespace, question: str, what: str) -> int:
    found = _ask(options, question)
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        print(f"all members are asked {what}; see groupcomm keys status", file=sys.stderr)
    return 0


def _ask(options: argparse.Namespace, question: str) -> dict[str, Any]:
    return accepted(ask_daemon(options, question))
