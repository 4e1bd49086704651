"""Deliveries of real daemons to real recorders are verified; then faults are made."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
import trio
from pyspark.sql import SparkSession

from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_client import Connection, connect
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import ROWS, SCHEMA
from groupcomm_log.writer import LogWriter
from groupcomm_spark.verify.job import verify, verify_folders
from groupcomm_tools.cli import main
from groupcomm_tools.local_cluster import LocalCluster
from tests.groupcomm_log.make import QuickDisk
from tests.groupcomm_spark.faults import FAULTS, KEEPS_NUMBERS
from tests.groupcomm_tools.recorders import (
    RecorderProcess,
    end_both,
    until_joined,
)
from tests.groupcomm_tools.shell import NO_PAUSES

pytestmark = pytest.mark.long


REAL = [
    *("AGREED missing", "AGREED twice", "AGREED twice, far apart", "FIFO twice", "RELIABLE twice"),
    *("UNRELIABLE twice", "two of one sender swapped", "other data of AGREED"),
    *("other data of CAUSAL", "another type", "another level", "AGREED as CAUSAL"),
    *("RELIABLE missing", "FIFO missing", "CAUSAL missing", "SAFE missing"),
    *("AGREED of nobody else", "in another view", "from another daemon", "to others"),
    *("group view missing", "other daemons", "a lower view", "a row missing"),
]
"""Faults that can be made in logs without knowing their contents."""


COUNT = 6
"""Messages of a sender at each level, in each of four parts of a history."""


async def send(sender: Connection) -> None:
    """All levels, and two FIFO messages behind each other."""
    for number in range(COUNT):
        for level in (*LEVELS, ServiceLevel.FIFO, ServiceLevel.FIFO):
            await sender.multicast("g", b"%d" % number, level=level)
    await sender.multicast_ordered("g", b"in this view")


async def record(folder: Path) -> None:
    """Two recorders; a daemon is killed, and comes back."""
    async with LocalCluster("abc", NO_PAUSES) as cluster:
        await cluster.settle("abc")
        async with connect(str(cluster["a"].unix)) as one, connect(str(cluster["b"].unix)) as other:
            await one.join("g")
            with (
                RecorderProcess(cluster["a"].unix, folder / "a") as left,
                RecorderProcess(cluster["b"].unix, folder / "b") as right,
            ):
                for _ in range(2):
                    await until_joined(one)
                await send(one)
                cluster["c"].kill()
                await cluster.settle("ab")
                async with trio.open_nursery() as nursery:
                    for sender in (one, other):
                        nursery.start_soon(send, sender)
                await cluster["c"].start()
                await cluster.settle("abc")
                await send(other)
                await end_both(one, folder, left, right)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("recorded")
    trio.run(record, folder)
    return [folder / "a", folder / "b"]


def test_what_daemons_deliver_keeps_what_they_promise(
    spark: SparkSession, folders: list[Path]
) -> None:
    verdict = verify_folders(spark, folders)
    assert verdict.violations == []
    assert verdict.holds
    for level in ("RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE"):
        assert verdict.compared[level] >= 2 * 2 * COUNT, verdict
    assert verdict.causal_unknown == 0, verdict
    assert verdict.causal_checked >= 4 * 7 * COUNT


def table(folder: Path, log: str, number: int) -> pa.Table:
    """A log as if it was of another cluster than those with other numbers."""
    rows = [row for batch in LogReader(folder).batches() for row in batch.to_pylist()]
    name, _, is_second = log.rpartition(": ")
    if is_second == "b":
        FAULTS[name][0](rows)
    if name not in KEEPS_NUMBERS:
        rows = [{**row, "row": at} for at, row in enumerate(rows)]
    for row in rows:
        if row["view"] is not None:
            row["view"] = f"{row['view'].rpartition('.')[0]}.{number:x}"
    made = pa.Table.from_pylist(rows, SCHEMA)
    return made.add_column(0, "log", pa.repeat(log, len(made)))


def test_faults_in_recorded_logs_are_found(spark: SparkSession, folders: list[Path]) -> None:
    tables = [
        table(folder, f"{fault}: {folder.name}", number)
        for number, fault in enumerate(REAL)
        for folder in folders
    ]
    verdict = verify(spark.createDataFrame(pa.concat_tables(tables)))
    found = {
        fault: {each.name for each in verdict.violations if each.logs[0].startswith(f"{fault}: ")}
        for fault in REAL
    }
    assert found == {fault: FAULTS[fault][1] for fault in REAL}


@pytest.mark.usefixtures("spark")
def test_the_command_tells_and_its_status_says(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged file is named; its rows are known to be missing, and break nothing else."""
    writer = LogWriter(tmp_path / "copy", disk=QuickDisk())
    rows = pa.Table.from_batches(LogReader(folders[1]).batches(columns=ROWS.names))
    for batch in rows.combine_chunks().to_batches(max_chunksize=len(rows) // 3):
        writer.append(batch)
        writer._roll()
        writer.tend()
    writer.close()
    victim = sorted((tmp_path / "copy").glob("*.parquet"))[1]
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    status = main(["spark", "verify", str(folders[0]), str(tmp_path / "copy"), "--json"])
    output, messages = capsys.readouterr()
    told = json.loads(output)
    assert told["counts"] == {"damage": 1}, told["violations"]
    assert status == 1
    assert str(victim) in told["violations"][0]["evidence"]
    assert "groupcomm: comparing: done in" in messages


def test_what_is_no_log_is_reported_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["spark", "verify", str(tmp_path)]) == 1
    assert "there is no log; groupcomm record writes one" in capsys.readouterr().err
