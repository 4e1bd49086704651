"""`groupcomm compare`: run ordering algorithms on the same load, and compare cost and orders."""

import argparse
import json
from collections.abc import Sequence
from typing import Final

import attrs

from groupcomm_lessons.algorithms.catalogue import Entry
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.comparison import ComparisonLoad, chosen, compare
from groupcomm_tools.comparison_report import lines_of, list_of
from groupcomm_tools.terminal import say

EXAMPLE: Final = "groupcomm compare --processes 5 --messages 200 --loss 0.05"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    usual = ComparisonLoad()
    parser.add_argument(
        "--algorithms",
        default="all",
        metavar="NAME,...",
        help="algorithms to run; see --list (all)",
    )
    parser.add_argument(
        "--list", action="store_true", help="list names and claims, and run nothing"
    )
    for name, what, metavar in (
        ("processes", "processes that send and receive", "N"),
        ("messages", "messages in all, each to all processes", "M"),
        ("delay_ms", "average delay of a packet", "MS"),
        ("loss", "probability that a packet is lost and sent again, 0 to 0.9", "P"),
        ("seed", "seed of the load, delays and losses", "N"),
    ):
        value = getattr(usual, name)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=type(value),
            default=value,
            metavar=metavar,
            help=f"{what} ({value:g})",
        )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Run the algorithms; return 1 if one has broken an order that it claims.

    Raises:
        ConfigError: an option is out of its range, or names no algorithm.
    """
    entries = chosen(options.algorithms)
    load = ComparisonLoad(
        **{each.name: getattr(options, each.name) for each in attrs.fields(ComparisonLoad)}
    )
    if options.list:
        _list(entries, as_json=options.json)
        return 0
    rows = list(compare(entries, load))
    if options.json:
        found = {"load": attrs.asdict(load), "algorithms": [row.as_json() for row in rows]}
        print(json.dumps(found))
    else:
        print("\n".join(lines_of(rows, load)))
    wrong = [row for row in rows if row.is_wrong]
    for row in wrong:
        broken = " and ".join(order.value for order in row.broken)
        what = f"claims {broken} order, and broke it" if broken else "has lost messages"
        say(f"groupcomm: {row.entry.name} {what}")
    return 1 if wrong else 0


def _list(entries: Sequence[Entry], *, as_json: bool) -> None:
    if not as_json:
        print("\n".join(list_of(entries)))
        return
    found = [
        {
            "name": entry.name,
            "claims": [order.value for order in Order if order in entry.type.claims],
            "in_turn": entry.in_turn,
            "note": entry.note,
        }
        for entry in entries
    ]
    print(json.dumps({"algorithms": found}))
