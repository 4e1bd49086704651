"""Answers to the exercises of docs/exercises.md: small programs and their results."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence

from examples.common.command import new_parser
from examples.common.names import known
from examples.ordering.answers.answer import Answer
from examples.ordering.answers.sheets import ANSWERS
from groupcomm.errors import ConfigError

EPILOG = """\
example: python -m examples.ordering.answers 1.1 2.4
exit status: 0 done, 2 usage"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser with all options."""
    parser = new_parser("ordering.answers", __doc__, EPILOG)
    parser.add_argument("numbers", nargs="*", metavar="SHEET.NUMBER", help="none: list all")
    parser.add_argument("--list", action="store_true", help="numbers and titles, and run nothing")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each")
    return parser


def listed(each: Answer, *, as_json: bool) -> Iterable[str]:
    """Return the entry of an answer that is not run."""
    yield (
        json.dumps({"number": each.number, "title": each.title})
        if as_json
        else (f"{each.number}  {each.title}")
    )


def told(each: Answer, *, as_json: bool) -> Iterable[str]:
    """Return the title of an answer, its place, and its results."""
    file = each.tell.__module__.replace(".", "/") + ".py"
    lines = list(each.tell())
    if as_json:
        found = {"number": each.number, "title": each.title, "file": file, "told": lines}
        yield json.dumps(found)
        return
    yield f"{each.number} {each.title}\n{file}\n"
    yield from (f"  {line}" for line in lines)
    yield ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = make_parser().parse_args(arguments)
    try:
        chosen = [known(number, ANSWERS, "answer") for number in options.numbers]
    except ConfigError as error:
        print(f"answers: {error}", file=sys.stderr)
        return 2
    if options.list or not chosen:
        chosen, tell = [ANSWERS[number] for number in sorted(ANSWERS)], listed
    else:
        tell = told
    for each in chosen:
        for line in tell(each, as_json=options.json):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
