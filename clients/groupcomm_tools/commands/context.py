"""`groupcomm context`: name the clusters that one works with, and choose among them."""

import argparse
import json
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import daemon_addresses, existing_file
from groupcomm_tools.commands.subcommands import (
    Subcommand,
    add_subcommands,
    argument,
    run,
)
from groupcomm_tools.contexts import (
    Context,
    chosen_name,
    missing,
    read_contexts,
    write_contexts,
)

__all__ = ["EXAMPLE", "add_options", "run"]

EXAMPLE: Final = "groupcomm context add plant --address tls://alfa.example:4804 --ca ca.pem"


NAME: Final = argument("name", metavar="NAME", help="name of the context")
ADDRESS: Final = argument(
    "--address", required=True, type=daemon_addresses, metavar="WHERE", help="see groupcomm pub"
)
FILES: Final = tuple(
    argument(f"--{name}", type=existing_file, metavar="FILE", help="the same")
    for name in ("ca", "certificate", "key", "token-file")
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    json_ = argument("--json", action="store_true", help="print one line of JSON")
    add_subcommands(
        parser,
        Subcommand(
            "add",
            add,
            "add a context, or change it; the first one is in use",
            "plant --address tls://alfa.example:4804 --ca ca.pem",
            *(NAME, ADDRESS, *FILES),
        ),
        Subcommand("use", use, "use a context from now on", "plant", NAME),
        Subcommand("list", show, "list the contexts", "", json_),
        Subcommand("remove", remove, "forget a context", "plant", NAME),
    )


def add(options: argparse.Namespace) -> int:
    """Add a context."""
    contexts = read_contexts()
    paths: dict[str, Path | None] = {
        name: getattr(options, name) for name in ("ca", "certificate", "key", "token_file")
    }
    files = {name: str(path.absolute()) for name, path in paths.items() if path is not None}
    contexts.known[options.name] = Context(options.address, **files)
    if contexts.used is None:
        contexts.used = options.name
    write_contexts(contexts)
    return 0


def use(options: argparse.Namespace) -> int:
    """Have a context count where nothing else says where to connect."""
    contexts = read_contexts()
    if options.name not in contexts.known:
        raise ConfigError(f"use {options.name!r}, {missing(contexts)}")
    contexts.used = options.name
    write_contexts(contexts)
    return 0


def remove(options: argparse.Namespace) -> int:
    """Forget a context."""
    contexts = read_contexts()
    if contexts.known.pop(options.name, None) is None:
        raise ConfigError(f"remove {options.name!r}, {missing(contexts)}")
    if contexts.used == options.name:
        contexts.used = None
    write_contexts(contexts)
    return 0


def show(options: argparse.Namespace) -> int:
    """Print the contexts, and which one counts."""
    contexts = read_contexts()
    used = chosen_name(contexts)
    if options.json:
        known = {
            name: {field: getattr(each, field) for field in each.__struct_fields__}
            for name, each in sorted(contexts.known.items())
        }
        print(json.dumps({"used": used, "contexts": known}))
        return 0
    for name, each in sorted(contexts.known.items()):
        print(f"{'*' if name == used else ' '} {name}: {each.address}")
    return 0
