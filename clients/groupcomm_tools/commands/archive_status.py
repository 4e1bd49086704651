"""`groupcomm history status`: what the archives of groups hold, and whether they agree."""

import argparse
import json
from collections.abc import Iterator
from typing import Any, Final

from groupcomm.names import check_group
from groupcomm_archive.comparing import (
    Ask,
    GroupReport,
    Report,
    decode_comparing_untrusted,
    encode_comparing,
)
from groupcomm_client.history.frames import ARCHIVES, Interval
from groupcomm_tools.commands import reading
from groupcomm_tools.commands.connecting import connect_blocking
from groupcomm_tools.commands.options import add_connection_options
from groupcomm_tools.event_text import position_text
from groupcomm_tools.terminal import say

FAILED: Final = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("groups", nargs="+", metavar="GROUP", help="groups")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Ask the archives, and print what they hold; return 1 if there is none, or two differ."""
    groups = tuple(map(check_group, options.groups))
    with connect_blocking(options) as connection:
        connection.multicast(ARCHIVES, encode_comparing(Ask(1, groups)))
        found = {
            message.sender.name: frame
            for message in reading.messages(connection, reading.ANSWER_S)
            if isinstance(frame := decode_comparing_untrusted(message.data), Report)
            and frame.groups
        }
    if options.json:
        told = {name: _object(report) for name, report in sorted(found.items())}
        print(json.dumps({"archives": told}))
    elif not found:
        say(
            f"no archive of {', '.join(groups)} has answered; start one:"
            f" groupcomm history serve {' '.join(groups)} --store DIR"
        )
    for name, report in [] if options.json else sorted(found.items()):
        print(f"{name}: {'live' if report.is_live else 'catching up'}")
        for group in report.groups:
            print(f"  {group.group}")
            for line in _lines(group):
                print(f"    {line}")
    differs = any(
        compared.differing
        for report in found.values()
        for group in report.groups
        for compared in group.compared
    )
    return FAILED if differs or not found else 0


def _lines(report: GroupReport) -> Iterator[str]:
    for interval in report.intervals:
        yield _range(interval)
    if report.digested is not None:
        yield f"digests up to {position_text(report.digested)}"
    for compared in report.compared:
        if compared.upto is not None:
            yield (
                f"as at {compared.archive} up to {position_text(compared.upto)}:"
                f" {compared.ranges} ranges"
            )
        for interval in compared.differing:
            yield f"DIFFERS from {compared.archive} {_range(interval)}"


def _range(interval: Interval) -> str:
    return f"behind {position_text(interval[0])} up to {position_text(interval[1])}"


def _object(report: Report) -> dict[str, Any]:
    return {
        "live": report.is_live,
        "groups": {
            group.group: {
                "intervals": _texts(group.intervals),
                "digested": position_text(group.digested),
                "compared": {
                    compared.archive: {
                        "upto": position_text(compared.upto),
                        "ranges": compared.ranges,
                        "differing": _texts(compared.differing),
                    }
                    for compared in group.compared
                },
            }
            for group in report.groups
        },
    }


def _texts(intervals: tuple[Interval, ...]) -> list[list[str | None]]:
    return [[position_text(place) for place in each] for each in intervals]
