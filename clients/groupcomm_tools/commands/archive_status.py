"""`groupcomm history status`: what the archives of groups hold, and whether they agree."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
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
from groupcomm_tools.metrics_text import gauge, print_metrics
from groupcomm_tools.terminal import say

FAILED: Final = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("groups", nargs="+", metavar="GROUP", help="groups")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one line of JSON")
    form.add_argument("--metrics", action="store_true", help="metrics for Prometheus")
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
    elif options.metrics:
        print_metrics(metrics_of(groups, found))
    elif not found:
        say(
            f"no archive of {', '.join(groups)} has answered; start one:"
            f" groupcomm history serve {' '.join(groups)} --store DIR"
        )
    for name, report in [] if options.json or options.metrics else sorted(found.items()):
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


def metrics_of(groups: Sequence[str], found: Mapping[str, Report]) -> list[list[object]]:
    """Return what to watch of archives, by their private names, as rows of metrics."""
    held = {(name, each.group): each for name, report in found.items() for each in report.groups}
    last = {key: each.intervals[-1][1].time for key, each in held.items() if each.intervals}
    most = {
        group: max((at for key, at in last.items() if key[1] == group), default=0)
        for group in groups
    }
    differing = {
        (*key, compared.archive): len(compared.differing)
        for key, each in held.items()
        for compared in each.compared
    }
    both = ("archive", "group")
    return [
        gauge(
            "groupcomm_archives",
            "Archives of the group that have answered.",
            ("group",),
            {(group,): sum(key[1] == group for key in held) for group in groups},
        ),
        gauge(
            "groupcomm_archive_live",
            "1 if the archive gets live events, 0 while it catches up.",
            ("archive",),
            {(name,): report.is_live for name, report in found.items()},
        ),
        gauge(
            "groupcomm_archive_gaps",
            "Parts of the history that the archive lacks between those that it has.",
            both,
            {key: max(0, len(each.intervals) - 1) for key, each in held.items()},
        ),
        gauge(
            "groupcomm_archive_behind_seconds",
            "How much older its last event is than that of the archive that has most.",
            both,
            {key: (most[key[1]] - at) / 1e6 for key, at in last.items()},
        ),
        gauge(
            "groupcomm_archive_differing_ranges",
            "Ranges that are not as in the other archive; above 0 one of both is wrong.",
            (*both, "other"),
            differing,
        ),
    ]


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
