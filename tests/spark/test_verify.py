"""`verify` finds what is wrong, by its name, and nothing else."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from groupcomm_log.diff import Comparison
from groupcomm_log.diff import compare as compare_two
from groupcomm_log.schema import ROWS, SCHEMA
from groupcomm_log.writer import LogWriter
from groupcomm_spark.verify.job import compare_agreed, verify
from groupcomm_spark.verify.verdict import NAMES, Verdict
from tests.log.make import QuickDisk
from tests.spark.faults import ALLOWED, FAULTS, KEEPS_NUMBERS, Rows
from tests.spark.histories import History

pytestmark = pytest.mark.xdist_group("spark")

CHANGES: dict[str, Callable[[Rows], None]] = {
    **{name: change for name, (change, _) in FAULTS.items()},
    **ALLOWED,
}
MESSAGES = 1200


def pair(number: int, name: str) -> dict[str, pa.Table]:
    """Logs of two receivers; to the second one something was done. Views are those of no others."""
    logs = History(MESSAGES, incarnation=number + 0x100).logs()
    rows = logs["r1"].to_pylist()
    CHANGES[name](rows)
    if name not in KEEPS_NUMBERS:
        rows = [{**row, "row": at, "epoch": 1} for at, row in enumerate(rows)]
    return {"r0": logs["r0"], "r1": pa.Table.from_pylist(rows, SCHEMA)}


@pytest.fixture(scope="module")
def pairs() -> dict[str, dict[str, pa.Table]]:
    return {name: pair(number, name) for number, name in enumerate(CHANGES)}


@pytest.fixture(scope="module")
def logs(spark: SparkSession, pairs: dict[str, dict[str, pa.Table]]) -> DataFrame:
    """All pairs in one frame, so that Spark has to be asked once."""
    tables = [
        table.add_column(0, "log", pa.repeat(f"{name}: {log}", len(table)))
        for name, pair in pairs.items()
        for log, table in pair.items()
    ]
    return spark.createDataFrame(pa.concat_tables(tables))


@pytest.fixture(scope="module")
def verdict(logs: DataFrame) -> Verdict:
    return verify(logs)


def names_of(verdict: Verdict, change: str) -> set[str]:
    return {
        violation.name
        for violation in verdict.violations
        if any(log.startswith(f"{change}: ") for log in violation.logs)
    }


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_its_name(verdict: Verdict, fault: str) -> None:
    assert names_of(verdict, fault) == FAULTS[fault][1]


@pytest.mark.parametrize("change", ALLOWED)
def test_what_is_allowed_is_no_violation(verdict: Verdict, change: str) -> None:
    assert names_of(verdict, change) == set()


def test_violations_have_evidence(verdict: Verdict) -> None:
    assert set(verdict.counts) == set(NAMES) - {"damage"}
    assert all(violation.evidence for violation in verdict.violations)
