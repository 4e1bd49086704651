"""`groupcomm spark verify`: did the promises hold, by the logs of many receivers?"""

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from groupcomm.errors import GroupCommError
from groupcomm_log.errors import LogError
from groupcomm_spark.errors import plain
from groupcomm_spark.progress import Progress
from groupcomm_spark.session import need_spark, open_session

if TYPE_CHECKING:
    from groupcomm_spark.verify.verdict import Verdict

NAME: Final = "verify"
HELP: Final = "prove FIFO, causal, agreed, safe and virtual synchrony over logs of many receivers"
EXAMPLE: Final = "groupcomm spark verify log-a log-b log-c"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = (
        "exit status: 0 no violation; 1 there are some, or the logs cannot be read; 2 wrong usage."
        f" {parser.epilog}"
    )
    parser.add_argument(
        "folders", type=Path, nargs="+", metavar="DIR", help="that were recorded to"
    )
    parser.add_argument("--master", metavar="URL", help="of a cluster: spark://HOST:PORT")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument(
        "--most",
        type=int,
        default=20,
        metavar="N",
        help="violations of one name that are told of the same logs (20); all are counted",
    )


def run(options: argparse.Namespace) -> int:
    """Verify; 1 if there is a violation.

    Raises:
        ConfigError: Spark cannot run here.
        LogError: a folder is no log.
        GroupCommError: Spark failed.
    """
    need_spark()
    from groupcomm_log.reader import LogReader  # noqa: PLC0415 - an extra
    from groupcomm_spark.verify.folders import verify_folders  # noqa: PLC0415 - an extra

    for folder in options.folders:  # before Spark takes its seconds to start
        LogReader(folder).segments()
    spark = open_session(options.master, name="groupcomm spark verify")
    began = time.monotonic()
    try:
        progress = Progress(spark)
        verdict = verify_folders(spark, options.folders, most=options.most, stage=progress)
    except (LogError, OSError):
        raise
    except Exception as error:  # whatever it is, without Java around it
        raise GroupCommError(plain(error)) from None
    finally:
        spark.stop()
    seconds = time.monotonic() - began
    if options.json:
        print(json.dumps({**verdict.as_dict(), "seconds": round(seconds, 3)}, ensure_ascii=False))
    else:
        _tell(verdict, seconds)
    return 0 if verdict.holds else 1


def _tell(verdict: "Verdict", seconds: float) -> None:
    for violation in verdict.violations:
        print(violation)
    for name, count in sorted(verdict.counts.items()):
        print(f"{count} {name}")
    for note in verdict.notes:
        print(note)
    levels = ", ".join(f"{count} {level}" for level, count in sorted(verdict.compared.items()))
    print(
        f"{len(verdict.logs)} logs, {verdict.rows} rows in {seconds:.1f} s"
        f" ({verdict.rows / max(seconds, 1e-9):.0f} rows/s): {levels or 'none'} compared,"
        f" {verdict.alone} promised to no other log, causes of {verdict.causal_checked} checked"
        f" and of {verdict.causal_unknown} not known, {sum(verdict.counts.values())} violations"
    )
