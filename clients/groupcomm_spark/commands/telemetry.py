"""`groupcomm spark telemetry`: watch rates, gaps, bandwidth and late messages, by kind."""

import argparse
import json
import signal
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from groupcomm.host.option_types import daemon_address, existing_file, existing_folder, positive
from groupcomm.names import check_group
from groupcomm_spark.commands.options import add_spark_options, progress_printer, session_of
from groupcomm_spark.telemetry.alarms import MessageKinds, Window, check_window, read_kinds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "telemetry"
HELP: Final = "watch a log while it is written: rates, gaps, bandwidth, late messages, alarms"
EXAMPLE: Final = """\
groupcomm spark telemetry vehicle-log \\
  --kinds examples/vehicle/telemetry.toml --to alarms"""

ATTEMPTS: Final = 3
SLOW_START: Final = "failed to connect back"
"""Spark's error about a Python process that takes more than 10 s to start, as on a busy host."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "folders", nargs=1, type=existing_folder, metavar="DIR", help="folder of the log"
    )
    parser.add_argument(
        "--kinds",
        type=existing_file,
        required=True,
        metavar="FILE.toml",
        help="kinds of messages, with the normal properties of each; see docs/spark.md",
    )
    parser.add_argument("--to", metavar="GROUP", help="multicast alarms to this group, AGREED")
    parser.add_argument(
        "--address",
        type=daemon_address,
        metavar="WHERE",
        help="address of the daemon for --to; default: $GROUPCOMM_ADDRESS",
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="continue from here after a restart, and send each alarm once (default: begin anew)",
    )
    parser.add_argument("--available-now", action="store_true", help="read what is there, and end")
    parser.add_argument("--duration-s", type=positive, metavar="S", help="end after S seconds")
    parser.add_argument(
        "--every-s",
        type=positive,
        default=1.0,
        metavar="S",
        help="seconds between looks for new rows (1)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one line of JSON for each window"
    )
    add_spark_options(parser)


def run(options: argparse.Namespace) -> int:
    """Watch until the duration is over, or until ^C or SIGTERM; return 0."""
    kinds = read_kinds(options.kinds)
    group = None if options.to is None else check_group(options.to)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ExitStack() as stack:
        checkpoint = options.checkpoint or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="groupcomm-"))
        )
        watch = partial(
            _watch_once, options, kinds, group, checkpoint.absolute(), session_of(options)
        )
        for _ in range(ATTEMPTS - 1):
            try:
                watch()
                return 0
            except Exception as error:
                if SLOW_START not in str(error):
                    raise
                progress_printer(options)(
                    "a Python process of Spark did not start within 10 s; again"
                )
        watch()
    return 0


def _watch_once(
    options: argparse.Namespace,
    kinds: MessageKinds,
    group: str | None,
    checkpoint: Path,
    spark: "SparkSession",
) -> None:
    from groupcomm_spark.telemetry.windows import (  # noqa: PLC0415 - an extra
        Alarms,
        Pace,
        await_queries,
        start_queries,
    )

    tell = progress_printer(options)
    queries = start_queries(
        spark,
        options.folders[0],
        kinds,
        checkpoint,
        lambda window: _show(window, kinds, as_json=options.json),
        alarms=None if group is None else Alarms(group=group, address=options.address),
        pace=Pace(every_s=options.every_s, available_now=options.available_now),
    )
    tell(f"watching {options.folders[0]}" + (f", alarms to {group}" if group else ""))
    await_queries(
        queries,
        options.duration_s,
        lambda count: tell(f"{count} messages came too late for their window"),
    )


def _show(window: Window, kinds: MessageKinds, *, as_json: bool) -> None:
    """Print a window as text, or as one line of JSON."""
    alarms = check_window(window, kinds)
    if as_json:
        told = {
            "start": window.start.isoformat(),
            "end": window.end.isoformat(),
            "covered_s": window.covered_s,
            "flows": [flow._asdict() for flow in window.flows],
            "alarms": [{"alarm": each.alarm, "text": each.text} for each in alarms],
        }
        print(json.dumps(told), flush=True)
        return
    print(f"{window.start:%H:%M:%S}")
    for flow in window.flows:
        print(
            f"  {flow.kind:<18}{flow.sender:<34}{flow.messages / window.seconds:>7.4g}/s"
            f"{flow.bytes / window.seconds / 1000:>9.1f} kB/s{flow.missing:>4} missing"
            f"{flow.late:>4} late  worst {flow.worst_s * 1000:.0f} ms"
        )
    for alarm in alarms:
        print(f"  ALARM {alarm.text}")
    sys.stdout.flush()
