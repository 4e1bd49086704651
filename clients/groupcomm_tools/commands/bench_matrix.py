"""`groupcomm bench --matrix`: all figures that such systems are compared by, and a page of them."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import trio

from groupcomm.errors import ConfigError
from groupcomm_tools.bench.matrix import Result, run_matrix
from groupcomm_tools.bench.page import html
from groupcomm_tools.bench.report import lines_of, page_of
from groupcomm_tools.bench.summary import machine
from groupcomm_tools.bench.table import chosen, rows_of
from groupcomm_tools.commands.options import changed_options
from groupcomm_tools.commands.progress import say

ROUNDS: Final = 3
DURATION_S: Final = 2.0
OUTPUT: Final = Path("bench.html")
OWN: Final = frozenset({"matrix", "rows", "output", "rounds", "duration_s", "json"})
"""Options that mean something with --matrix."""


def add_matrix_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the matrix."""
    group = parser.add_argument_group("the whole table")
    group.add_argument(
        "--matrix",
        action="store_true",
        help="sizes, levels, ways to connect, encryption, events: each in turn, and a page of it",
    )
    group.add_argument(
        "--rows", metavar="NAME,...", help="only these rows of it; as in 'three-*,delay-*'"
    )
    group.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help=f"the page to write ({OUTPUT})"
    )


def refuse_changed(
    options: argparse.Namespace, add_options: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Refuse options of a single run, which would have no effect.

    Raises:
        ConfigError: one was given; names it.
    """
    for option in changed_options(options, add_options, OWN):
        raise ConfigError(f"{option} is for a single run; the rows of --matrix have their own")


def refuse_without_matrix(options: argparse.Namespace) -> None:
    """Refuse options of the matrix for a single run.

    Raises:
        ConfigError: one was given; names it.
    """
    for name in ("rows", "output"):
        if getattr(options, name) is not None:
            raise ConfigError(f"--{name} needs --matrix")


def run_rows(options: argparse.Namespace) -> int:
    """Run the rows and write the page, after ^C with what is there; 1 if a row is wrong.

    Raises:
        ConfigError: an option is out of its range.
        OSError: the page cannot be written.
    """
    rounds = ROUNDS if options.rounds is None else options.rounds
    duration_s = DURATION_S if options.duration_s is None else options.duration_s
    if rounds < 1:
        raise ConfigError(f"--rounds is {rounds}; it must be 1 at least")
    rows = rows_of(duration_s)
    if options.rows is not None:
        rows = chosen(rows, options.rows)
    output = OUTPUT if options.output is None else options.output
    output.touch()  # rather fail now than after a quarter of an hour
    results = [Result(row=row) for row in rows]
    facts = (
        f"{machine()}, groupcomm {version('groupcomm')}",
        f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}; runs of {duration_s:g} s, {rounds} of"
        " each row, in rounds through all; figures are medians, whiskers show least and most",
    )
    try:
        trio.run(run_matrix, results, rounds, say)
    finally:
        output.write_text(html(page_of(results, facts)), encoding="utf-8")
        say(f"{output} has the page")
    _tell(results, facts, as_json=options.json)
    return 0 if all(result.is_right for result in results) else 1


def _tell(results: Sequence[Result], facts: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        rows = [result.as_json(results) for result in results]
        json.dump({"machine": machine(), "rows": rows}, sys.stdout)
        print()
        return
    for line in (*facts, *lines_of(results)):
        print(line)
