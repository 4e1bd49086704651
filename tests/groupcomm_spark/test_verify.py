"""`verify` finds the faults, by their names, and nothing else."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from groupcomm_log.diff import Comparison
from groupcomm_log.diff import compare as compare_two
from groupcomm_log.schema import ROWS, SCHEMA, rows_of
from groupcomm_log.writer import LogWriter
from groupcomm_spark.logs import read
from groupcomm_spark.verify.job import compare_agreed, verify
from groupcomm_spark.verify.verdict import NAMES, Verdict
from tests.groupcomm_log.make import QuickDisk
from tests.groupcomm_spark.faults import ALLOWED, FAULTS, KEEPS_NUMBERS, Rows
from tests.groupcomm_spark.histories import History

CHANGES: dict[str, Callable[[Rows], None]] = {
    **{name: change for name, (change, _) in FAULTS.items()},
    **ALLOWED,
}
MESSAGES = 420


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


def frame(spark: SparkSession, pairs: dict[str, dict[str, pa.Table]]) -> DataFrame:
    """All pairs in one frame, so that Spark has to be asked once."""
    tables = [
        table.add_column(0, "log", pa.repeat(f"{name}: {log}", len(table)))
        for name, pair in pairs.items()
        for log, table in pair.items()
    ]
    return spark.createDataFrame(pa.concat_tables(tables))


@pytest.fixture(scope="module")
def logs(spark: SparkSession, pairs: dict[str, dict[str, pa.Table]]) -> DataFrame:
    return frame(spark, pairs)


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


def test_violations_have_evidence(verdict: Verdict, logs: DataFrame) -> None:
    assert set(verdict.counts) == set(NAMES) - {"damage"}
    assert all(violation.evidence for violation in verdict.violations)
    assert verdict.rows == logs.count()
    assert verdict.compared["SAFE"] > 2 * len(CHANGES)
    assert verdict.causal_checked > verdict.rows // 2
    assert verdict.causal_unknown == 0


def test_the_agreed_order_alone(
    spark: SparkSession, pairs: dict[str, dict[str, pa.Table]], verdict: Verdict
) -> None:
    faults = ("AGREED missing", "other data of AGREED", "SAFE missing", "to others")
    found = compare_agreed(frame(spark, {fault: pairs[fault] for fault in faults}))
    names = {"agreed-set", "content", "safe", "not-addressed"}
    assert set.union(*(names_of(verdict, fault) for fault in faults)) == names
    assert set(found.counts) == names - {"not-addressed"}
    told = [each for each in verdict.violations if each.logs[0].startswith("SAFE missing: ")]
    assert found.counts["safe"] == len(told)


def differences(folder: Path, pair: dict[str, pa.Table]) -> Comparison:
    """Return the output of `groupcomm log diff`."""
    for name, table in pair.items():
        writer = LogWriter(folder / name, disk=QuickDisk())
        for batch in table.select(ROWS.names).to_batches():
            writer.append(batch)
        writer.close()

    def on_damage(damage: object) -> None:
        raise AssertionError(damage)

    return compare_two(folder / "r0", folder / "r1", on_damage)


ALONE = {"fifo", "causal", "wrong-view", "foreign-sender", "not-addressed", "daemons-view"}
"""Violations of one log by itself are not `log diff`'s business."""


@pytest.mark.parametrize("change", sorted({*CHANGES} - KEEPS_NUMBERS))
def test_log_diff_says_the_same_of_two(
    pairs: dict[str, dict[str, pa.Table]], verdict: Verdict, tmp_path: Path, change: str
) -> None:
    found = names_of(verdict, change)
    if not found - ALONE or change in {
        "UNRELIABLE twice",  # no other receiver is promised it
        "in another view",  # the row counts in the view that began before it
        "SAFE missing at one that parts",  # the check compares what both have in the regular part
        "AGREED of nobody else at one that parts",
    }:
        assert differences(tmp_path, pairs[change]).differences == []
    else:
        assert differences(tmp_path, pairs[change]).differences


@pytest.mark.long
@pytest.mark.parametrize("few", [0, 2000])
def test_a_log_that_ends_early_differs_in_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """The views of a group behind its end must not take the place of those that differ, where Spark
    looks for them as where there are few.
    """
    monkeypatch.setattr("groupcomm_spark.verify.groups.EXAMINED", 3)
    monkeypatch.setattr("groupcomm_spark.verify.events.FEW_VIEWS", few)
    one, other, third = (f"#{user}#a/1" for user in ("one", "other", "third"))

    def group_view(at: int, cause: str, who: str, *members: str) -> dict[str, object]:
        place = {"view": "1.a.0", "stamp": at, "ring": 1, "bundle": 0, "message": 0}
        came = [who] if who in (one, other) else [name for name in members if name != who]
        view = {"kind": "view", "cause": cause, "groups": ["g"], "members": members, **place}
        return {**view, "changed": [who], "vs_set": came}

    def begin(session: str) -> list[dict[str, object]]:
        gap = {"kind": "gap", "cause": "begin", "sender": session, "groups": ["g"], "data": b"{}"}
        daemons = {"kind": "daemons", "view": "1.a.0", "members": ["a"], "cause": "majority"}
        return [{**gap}, {**daemons}]

    first = group_view(1, "join", one, one)
    second = group_view(2, "join", other, one, other)
    changes = [
        group_view(at, "join", third, one, other, third)
        if at % 2
        else group_view(at, "leave", third, one, other)
        for at in range(3, 23)
    ]
    logs = {
        "one": [*begin(one), first, {**second, "vs_set": [one]}, *changes],
        "other": [*begin(other), second, *changes[:10]],
    }
    for name, rows in logs.items():
        writer = LogWriter(tmp_path / name, disk=QuickDisk())
        writer.append(rows_of(rows))
        writer.close()
    found = verify(read(spark, *map(tmp_path.joinpath, logs)))
    assert (found.counts, found.notes) == ({}, [])
    changes[5].update(members=[other, one], vs_set=[other, one])
    writer = LogWriter(tmp_path / "changed", disk=QuickDisk())
    writer.append(rows_of(logs["other"]))
    writer.close()
    found = verify(read(spark, tmp_path / "one", tmp_path / "changed"))
    assert found.counts.keys() == {"group-view"}
