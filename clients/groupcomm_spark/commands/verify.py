"""`groupcomm spark verify`: check the promises of all levels in the logs of many receivers."""

import argparse
import json
import time
from typing import TYPE_CHECKING, Final

from groupcomm.host.option_types import one_or_more
from groupcomm_spark.commands.options import (
    add_log_options,
    add_spark_options,
    progress_printer,
    session_of,
)

if TYPE_CHECKING:
    from groupcomm_spark.verify.verdict import Verdict

NAME: Final = "verify"
HELP: Final = (
    "check FIFO, causal, agreed and safe order and virtual synchrony in logs of many receivers"
)
EXAMPLE: Final = "groupcomm spark verify log-a log-b log-c"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_log_options(parser)
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument(
        "--most",
        type=one_or_more,
        default=20,
        metavar="N",
        help="violations of one name that are shown for the same logs (20); all are counted",
    )
    add_spark_options(parser)


def run(options: argparse.Namespace) -> int:
    """Verify the logs; return 1 if there is a violation.

    Raises:
        ConfigError: Spark cannot run here.
        LogError: a folder holds no log.
    """
    # ruff: noqa: PLC0415 - extras
    from groupcomm_spark.progress import Progress
    from groupcomm_spark.verify.job import verify_folders

    spark = session_of(options)
    began = time.monotonic()
    progress = Progress(spark, progress_printer(options))
    verdict = verify_folders(spark, options.folders, most=options.most, stage=progress)
    seconds = time.monotonic() - began
    if options.json:
        print(json.dumps({**verdict.as_dict(), "seconds": round(seconds, 3)}, ensure_ascii=False))
    else:
        _print_verdict(verdict, seconds)
    return 0 if verdict.holds else 1


def _print_verdict(verdict: "Verdict", seconds: float) -> None:
    for violation in verdict.violations:
        print(violation)
    for name, count in sorted(verdict.counts.items()):
        print(f"{count} {name}")
    for note in verdict.notes:
        print(note)
    broken = sum(verdict.counts.values())
    print(f"{broken} violations" if broken else "no violation: every promise holds")
    levels = ", ".join(f"{count} {level}" for level, count in sorted(verdict.compared.items()))
    print(
        f"{len(verdict.logs)} logs, {verdict.rows} rows in {seconds:.1f} s"
        f" ({verdict.rows / max(seconds, 1e-9):.0f} rows/s): {levels or 'none'} compared,"
        f" {verdict.alone} promised to no other log, causes of {verdict.causal_checked} checked"
        f" and of {verdict.causal_unknown} not known"
    )
