"""Verbs of a verb: `groupcomm keys add`, and others of this form."""

import argparse
from collections.abc import Callable
from typing import Any, Final

from groupcomm.host.parser import example_text

Run = Callable[[argparse.Namespace], int]
Declare = Callable[[argparse.ArgumentParser], None]
"""Declares options."""


def argument(*words: str, **settings: Any) -> Declare:
    """Return what declares one option, as `argparse.ArgumentParser.add_argument` does."""

    def declare(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(*words, **settings)

    return declare


JSON: Final = argument("--json", action="store_true", help="one line of JSON")


class Subcommand:
    """One of the verbs of a verb."""

    def __init__(self, name: str, run: Run, what: str, example: str, *options: Declare) -> None:
        """Describe the verb.

        Args:
            name: the word.
            run: runs it, and returns the exit status.
            what: its purpose.
            example: the words after the two verbs.
            options: declare its options, in this order.
        """
        self.name, self.run, self.what, self.example = name, run, what, example
        self.options = options


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
        for declare in each.options:
            declare(verb)


def run(options: argparse.Namespace) -> int:
    """Run the verb that was chosen; return its exit status."""
    chosen: Run = getattr(options, _CHOSEN)
    return chosen(options)
