from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from groupcomm_log.errors import LogError
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import MESSAGE, SCHEMA, VIEW, rows_of
from groupcomm_log.writer import LogWriter
from groupcomm_spark.logs import read
from groupcomm_spark.reading.options import name_logs
from tests.groupcomm_log.make import QuickDisk

ROWS = [
    *[{"kind": MESSAGE, "stamp": 2**62 + at, "groups": ["a", "b"], "data": b"\0"} for at in (1, 2)],
    {"kind": VIEW, "received": 1_700_000_000_000_001, "members": [], "vs_set": ["#a#b/1"]},
    {"kind": MESSAGE, "causal_context": [1, 2, 3], "type": 7, "number": 2**63 - 1},
]


def make_log(folder: Path, rows: Sequence[dict[str, Any]], sealed: int) -> LogWriter:
    """Write a log with one row a batch; the first rows are sealed, each in a file."""
    writer = LogWriter(folder, disk=QuickDisk())
    for at, row in enumerate(rows):
        writer.append(rows_of([row]))
        if at < sealed:
            writer._roll()
    writer.tend()
    return writer


@pytest.mark.parametrize(
    "sealed", [2, *(pytest.param(each, marks=pytest.mark.long) for each in (0, 4))]
)
def test_sealed_and_live_rows_are_read_as_they_were_written(
    spark: SparkSession, tmp_path: Path, sealed: int
) -> None:
    writer = make_log(tmp_path / "alfa", ROWS, sealed)
    logs = read(spark, tmp_path / "alfa")
    found = logs.orderBy("row").toArrow().to_pylist()
    assert [row.pop("log") for row in found] == ["alfa"] * len(ROWS)
    wanted = [row for batch in LogReader(tmp_path / "alfa").batches() for row in batch.to_pylist()]
    assert found == wanted
    writer.close()


def test_several_logs_are_distinguished(spark: SparkSession, tmp_path: Path) -> None:
    folders = [tmp_path / "alfa", tmp_path / "bravo", tmp_path / "more" / "alfa"]
    for count, folder in enumerate(folders, 1):
        make_log(folder, ROWS[:count], sealed=1).close()
    found = read(spark, *folders, columns=["row"]).groupBy("log").count().collect()
    assert {row["log"]: row["count"] for row in found} == {
        str(folders[0]): 1,
        "bravo": 2,
        str(folders[2]): 3,
    }
    assert name_logs(folders[:2]) == {folders[0]: "alfa", folders[1]: "bravo"}


def test_only_wanted_columns_are_there(spark: SparkSession, tmp_path: Path) -> None:
    make_log(tmp_path, ROWS, sealed=2).close()
    assert read(spark, tmp_path, columns=["row", "kind"]).columns == ["log", "row", "kind"]
    assert read(spark, tmp_path).columns == ["log", *SCHEMA.names]


def test_what_is_no_log_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LogError, match="there is no log"):
        read(spark, tmp_path / "nothing")
    with pytest.raises(LogError, match="no log is named"):
        read(spark)
