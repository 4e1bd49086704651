"""`groupcomm spark doctor`: check whether Spark can run here, and on which Java."""

import argparse
import importlib.metadata
import importlib.util
from collections.abc import Iterator
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.extras import install_hint
from groupcomm_spark.errors import plain
from groupcomm_spark.session import LOCAL, find_java, open_session
from groupcomm_tools.doctor.findings import Finding, Grade, ok, print_findings, problem

NAME: Final = "doctor"
HELP: Final = "check whether Spark runs here, on which Java, and finds the format groupcomm"
EXAMPLE: Final = "groupcomm spark doctor"

NEEDED: Final = (("pyspark", (4, 2), (4, 4)), ("pyarrow", (18,), None), ("pandas", (2, 2), (3,)))
"""Packages, with the first version that works, and the first that no longer does."""


ROWS: Final = 1000


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--quick", action="store_true", help="do not start Spark")
    parser.add_argument("--master", metavar="URL", help="try this cluster: spark://HOST:PORT")
    parser.add_argument("--json", action="store_true", help="one line of JSON")


def run(options: argparse.Namespace) -> int:
    """Run the checks; return 1 if there is a problem."""
    findings = examine(options.master, try_it=not options.quick)
    return print_findings(findings, as_json=options.json)


def examine(master: str | None = None, *, try_it: bool = True) -> Iterator[Finding]:
    """Yield the findings of all checks; start Spark only if the others have found no problem."""
    found = [*map(_check_package, *zip(*NEEDED, strict=True)), _check_java()]
    yield from found
    if try_it and all(finding.grade is not Grade.PROBLEM for finding in found):
        yield from _check_session(master)


def _check_package(name: str, least: tuple[int, ...], above: tuple[int, ...] | None) -> Finding:
    if importlib.util.find_spec(name) is None:
        return problem(name, "is not installed", install_hint("spark"))
    text = importlib.metadata.version(name)
    version = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    if version < least or (above is not None and version >= above):
        wanted = f"{_dotted(least)} or newer" + (f", below {_dotted(above)}" if above else "")
        remedy = f"install {wanted}: {install_hint('spark')}"
        return problem(name, f"is {text}", remedy)
    return ok(name, text)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _check_java() -> Finding:
    try:
        java = find_java()
    except ConfigError as error:
        return problem("java", str(error), "then run the doctor again")
    return ok("java", f"{java.version}, of {java.origin}: {java.home}")


def _check_session(master: str | None) -> Iterator[Finding]:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    where = master or LOCAL
    was_there = SparkSession.getActiveSession() is not None  # the caller owns it
    try:
        spark = open_session(master, name="groupcomm spark doctor")
        rows = spark.range(ROWS).count()
        yield ok("session", f"Spark {spark.version} at {where} has counted {rows} rows")
        columns = spark.read.format("groupcomm").load("/").columns  # no row is read yet
        yield ok("format", f"groupcomm is known, with {len(columns)} columns")
        if not was_there:
            spark.stop()
    except Exception as error:  # any exception is the finding
        yield problem("session", plain(error), "see docs/spark.md, Running it")
