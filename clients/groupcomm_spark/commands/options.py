"""Options that the subcommands share."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import existing_folder, natural
from groupcomm_spark.progress import Say, quiet, say
from groupcomm_spark.session import LOCAL, MEMORY, open_session
from groupcomm_spark.urls import is_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Declare which logs are read."""
    parser.add_argument(
        "folders",
        nargs="+",
        type=folder_or_url,
        metavar="DIR",
        help="folder of a log, or the URL of a copy on a store",
    )


def folder_or_url(text: str) -> Path | str:
    """Return the path of an existing folder, or a URL that Spark reads (s3a://BUCKET/LOG)."""
    return text if is_url(text) else existing_folder(text.removeprefix("file://"))


def add_sent_at_option(parser: argparse.ArgumentParser) -> None:
    """Declare where messages have the time when they were sent."""
    parser.add_argument(
        "--sent-at",
        type=natural,
        metavar="BYTE",
        help="offset in a message of the time when it was sent: nanoseconds since 1970, 8 bytes,"
        " big-endian (default: delays count from the numbering, which UNRELIABLE ones lack)",
    )


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    """Declare where Spark runs."""
    parser.add_argument(
        "--master",
        metavar="URL",
        help=f"local[N], or a cluster: spark://HOST:PORT ({LOCAL})",
    )
    parser.add_argument(
        "--memory", default=MEMORY, metavar="SIZE", help=f"memory of Spark's driver ({MEMORY})"
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark; may be repeated",
    )
    parser.add_argument(
        "--packages", metavar="NAMES", help="packages of Maven for Spark, by commas"
    )
    parser.add_argument(
        "--submit",
        metavar="OPTIONS",
        help="further options of spark-submit, as one argument: '--executor-memory 4g'",
    )
    parser.add_argument("--quiet", action="store_true", help="print no progress")


def session_of(options: argparse.Namespace) -> "SparkSession":
    """Return the session that the options ask for.

    Raises:
        LogError: a folder of the options holds no log; this is raised before Spark starts.
    """
    from groupcomm_log.names import list_segments  # noqa: PLC0415 - an extra

    for folder in options.folders:
        if isinstance(folder, Path):
            list_segments(folder)
    config = read_config(options.conf)
    if options.packages:
        config["spark.jars.packages"] = options.packages
    if options.submit:
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{options.submit} pyspark-shell"
    progress_printer(options)(f"starting Spark at {options.master or LOCAL}")
    return open_session(
        options.master,
        name=f"groupcomm spark {options.name}",
        memory=options.memory,
        config=config,
    )


def read_config(texts: list[str]) -> dict[str, str]:
    """Return settings of Spark.

    Raises:
        ConfigError: a text is not KEY=VALUE.
    """
    for text in texts:
        if "=" not in text:
            raise ConfigError(f"--conf is {text!r}; write KEY=VALUE")
    return dict(text.split("=", 1) for text in texts)


def progress_printer(options: argparse.Namespace) -> Say:
    """Return the function that prints progress."""
    return quiet if options.quiet else say
