"""`groupcomm spark report`: write a page with charts about logs."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from groupcomm.errors import ConfigError
from groupcomm_spark.commands.options import (
    add_log_options,
    add_sent_at_option,
    add_spark_options,
    progress_printer,
    session_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

NAME: Final = "report"
HELP: Final = "write rates, delays, losses and view changes of logs as a page with charts"
EXAMPLE: Final = "groupcomm spark report log-a log-b -o report.html"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_log_options(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the page (report.html; with --json none)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as a line of JSON")
    parser.add_argument(
        "--site",
        action="append",
        default=[],
        metavar="NAME=DAEMON,...",
        help="daemons of a site; may be repeated (default: the ring of the sender's daemon)",
    )
    add_sent_at_option(parser)
    add_spark_options(parser)


def run(options: argparse.Namespace) -> int:
    """Write the page; return 0."""
    sites = read_sites(options.site)
    output = options.output or (None if options.json else Path("report.html"))

    # ruff: noqa: PLC0415 - extras
    from groupcomm_spark.logs import read
    from groupcomm_spark.report.figures import COLUMNS, gather
    from groupcomm_spark.report.page import as_json, make_page

    spark = session_of(options)
    logs = read(spark, *options.folders, columns=COLUMNS)
    sent_us = None if options.sent_at is None else sent_at(options.sent_at)
    found = gather(logs, sites=sites, sent_us=sent_us, tell=progress_printer(options))
    if output is not None:
        output.write_text(make_page(found))
        progress_printer(options)(f"the report is in {output}")
    if options.json:
        print(json.dumps(as_json(found), ensure_ascii=False))
    return 0


def read_sites(texts: list[str]) -> dict[str, str]:
    """Return the site of each daemon, by the daemon's name.

    Raises:
        ConfigError: a text is not NAME=DAEMON,... or a daemon is at two sites.
    """
    sites: dict[str, str] = {}
    for text in texts:
        site, equals, daemons = text.partition("=")
        names = [name for name in daemons.split(",") if name]
        if not (site and equals and names):
            raise ConfigError(f"--site is {text!r}; write NAME=DAEMON,DAEMON")
        for name in names:
            if sites.setdefault(name, site) != site:
                raise ConfigError(f"--site puts {name!r} at {sites[name]!r} and at {site!r}")
    return sites


def sent_at(byte: int) -> "Column":
    """Return when a message says it was sent, in microseconds since 1970; null if it is too
    short.
    """
    from pyspark.sql import functions as fn

    digits = fn.hex(fn.substring("data", byte + 1, 8))
    whole = fn.when(fn.length(digits) == 16, fn.conv(digits, 16, 10).cast("decimal(20,0)"))
    return (whole / 1000).cast("long")
