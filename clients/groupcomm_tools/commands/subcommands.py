"""Verbs of a verb: `groupcomm keys add`, and others of this form."""

import argparse
from collections.abc import Callable
from typing import Final, NamedTuple

from groupcomm.host.parser import example_text

Run = Callable[[argparse.Namespace], int]


class Subcommand(NamedTuple):
    """One of the verbs of a verb.

    Attributes:
        name: the word.
        run: runs it, and returns the exit status.
        what: its purpose.
        example: the words after the two verbs.
        add_options: declares its options.
    """

    name: str
    run: Run
    what: str
    example: str
    add_options: Callable[[argparse.ArgumentParser], None]


_CHOSEN: Final = "run_subcommand"


def add_subcommands(parser: argparse.ArgumentParser, *subcommands: Subcommand) -> None:
    """Declare the verbs; the parser's own epilog begins with the exit statuses."""
    statuses = (parser.epilog or "").partition("\n\n")[0]
    found = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for each in subcommands:
        verb = found.add_parser(
            each.name,
            help=each.what,
            description=each.what,
            epilog=f"{statuses}\n\n{example_text(f'{parser.prog} {each.name} {each.example}')}",
        )
        verb.set_defaults(**{_CHOSEN: each.run})
        each.add_options(verb)


def run(options: argparse.Namespace) -> int:
    """Run the verb that was chosen; return its exit status."""
    chosen: Run = getattr(options, _CHOSEN)
    return chosen(options)
