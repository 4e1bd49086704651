"""Answers to the exercises of docs/exercises.md: small programs, and what comes of them."""

import argparse
import sys
from collections.abc import Sequence

from examples.common.names import known
from examples.ordering.answers.sheets import ANSWERS
from groupcomm.errors import ConfigError

EPILOG = """\
example: python -m examples.ordering.answers 1.1 2.4
exit status: 0 done, 2 usage"""


def make_parser() -> argparse.ArgumentParser:
    """All options."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.ordering.answers",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("numbers", nargs="*", metavar="SHEET.NUMBER", help="none: list all")
    parser.add_argument("--list", action="store_true", help="numbers and titles, and run nothing")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    options = make_parser().parse_args(arguments)
    try:
        chosen = [known(number, ANSWERS, "answer") for number in options.numbers]
    except ConfigError as error:
        print(f"answers: {error}", file=sys.stderr)
        return 2
    if options.list or not chosen:
        for number in sorted(ANSWERS):
            print(f"{number}  {ANSWERS[number].title}")
        return 0
    for each in chosen:
        module = each.tell.__module__.replace(".", "/")
        print(f"{each.number} {each.title}\n{module}.py\n")
        for line in each.tell():
            print(f"  {line}")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
