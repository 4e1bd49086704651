"""What tasks of `verify` say of rows does not depend on how the rows come to them."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from groupcomm_log.names import list_segments
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import ROWS
from groupcomm_log.sealed import read_sealed
from groupcomm_log.writer import LogWriter
from groupcomm_spark.logs import read
from groupcomm_spark.verify import receivers
from groupcomm_spark.verify.blocks import LINES, Cells, LogPlan, Numbers, What, examine
from groupcomm_spark.verify.job import verify, verify_folders
from groupcomm_spark.verify.numbers import CODES, COLUMNS, NUMBERS, GroupLists, code_of, numbers_of
from tests.groupcomm_log.make import QuickDisk
from tests.groupcomm_spark.faults import FAULTS, KEEPS_NUMBERS
from tests.groupcomm_spark.histories import History
from tests.groupcomm_spark.test_verify import pair

FIRST_VIEW = 45
"""The first rows of a log, most of which are messages, that become a file of their own."""


def write(folder: Path, table: pa.Table) -> None:
    """Write a log of two sealed files and live rows."""
    writer = LogWriter(folder, disk=QuickDisk())
    (rows,) = table.select(ROWS.names).combine_chunks().to_batches()
    for start, stop in ((0, FIRST_VIEW), (FIRST_VIEW, 300)):
        writer.append(rows.slice(start, stop - start))
        writer._roll()
        writer.tend()
    writer.append(rows.slice(300))


@pytest.mark.long
def test_files_and_frames_have_the_same_verdict(spark: SparkSession, tmp_path: Path) -> None:
    """Each fault is found in files, with the same evidence as by way of Spark."""
    changes = sorted({*FAULTS} - KEEPS_NUMBERS)
    folders = []
    for number, change in enumerate(changes):
        for name, table in pair(number, change).items():
            folders.append(tmp_path / f"{number:02}-{name}")
            write(folders[-1], table)
    verdict = verify_folders(spark, folders)
    assert verdict.as_dict() == verify(read(spark, *folders)).as_dict()
    found: dict[str, set[str]] = {change: set() for change in changes}
    for violation in verdict.violations:
        found[changes[int(violation.logs[0][:2])]].add(violation.name)
    assert found == {change: FAULTS[change][1] for change in changes}


def test_names_that_are_codes_are_the_same_numbers(tmp_path: Path) -> None:
    write(tmp_path, History(420).logs()["r0"])
    sealed = [segment for segment in list_segments(tmp_path) if segment.last is not None]
    assert len(sealed) == 2
    for segment in sealed:
        plain, coded = GroupLists(), GroupLists()
        batches = [
            numbers_of(pa.Table.from_batches(list(rows)).combine_chunks().to_batches()[0], lists)
            for lists, rows in (
                (plain, read_sealed(segment, COLUMNS)),
                (coded, read_sealed(segment, COLUMNS, coded=True)),
            )
        ]
        assert plain.names == coded.names
        assert ["g"] in plain.names
        for name in NUMBERS:
            np.testing.assert_array_equal(batches[0][name], batches[1][name], name)


def test_files_of_messages_alone_are_not_read_for_other_rows(tmp_path: Path) -> None:
    write(tmp_path, History(420, views=1).logs()["r0"])
    first, second, _ = list_segments(tmp_path)
    assert list(read_sealed(second, ("row",), kinds=("gap", "view"))) == []
    kinds = Counter(
        kind
        for batch in read_sealed(first, ("kind",), kinds=("gap", "view"))
        for kind in batch["kind"].to_pylist()
    )
    assert kinds["gap"] == 1
    assert kinds["view"] > 1


# ---- without Spark ----


@st.composite
def cuts(draw: st.DrawFn, rows: int) -> list[int]:
    inner = draw(st.sets(st.integers(1, rows - 1), max_size=6))
    return [0, *sorted(inner), rows]


ROW_COUNT = 300


def log() -> pa.RecordBatch:
    table = History(360, views=1).logs()["r0"].select(COLUMNS).slice(0, ROW_COUNT)
    (batch,) = table.combine_chunks().to_batches()
    return batch


LOG = log()


def lines_of(edges: list[int], plan: dict[int, LogPlan]) -> pa.Table:
    """Return what tasks say that each have some of the rows."""

    def tasks() -> Iterator[pa.RecordBatch]:
        work = partial(receivers._examine, plan=plan)
        for start, stop in pairwise(edges):
            yield from work([("r0", LOG.slice(start, stop - start))])

    return pa.Table.from_batches(tasks(), LINES)


def plan_of(edge: int) -> dict[int, LogPlan]:
    """Return a plan of one period, cut at the position of a message of the agreed order."""
    numbers = numbers_of(LOG, GroupLists())
    agreed = np.flatnonzero(numbers["code"] == CODES["AGREED"])
    view, edge = int(numbers["view"][agreed[0]]), int(agreed[edge])
    keys = ("stamp", "ring", "bundle", "message")
    inner = [int(numbers[name][edge]) for name in keys]
    edges = np.array([[-(2**63)] * 4, inner, [2**63 - 1] * 4])
    first = np.zeros(1, np.int64)
    cells = Cells(view, 0, edges)
    return {code_of("r0"): LogPlan(first, [0], [0], [0], [view], [True], [None], [cells])}


@settings(max_examples=25)
@given(edges=cuts(ROW_COUNT), at=st.integers(10, 40))
def test_sums_do_not_depend_on_tasks(edges: list[int], at: int) -> None:
    """Each placed message of the view is in one sum, whichever task has it."""
    found = receivers.join(lines_of(edges, plan_of(at)))
    assert found.sums == receivers.join(lines_of([0, ROW_COUNT], plan_of(at))).sums
    rows = LOG.to_pylist()
    view = next(row["view"] for row in rows if row["level"] == "AGREED")
    counted = Counter(
        (row["level"], *row["groups"])
        for row in rows
        if row["kind"] == "message" and row["view"] == view and row["level"] != "UNRELIABLE"
    )
    levels = list(CODES)
    summed: Counter[tuple[str, ...]] = Counter()
    for (_, cell, level, groups), (count, _, _) in found.sums.items():
        assert (cell == -1) is (level < CODES["AGREED"])
        summed[levels[level], *groups] += count
    assert summed == counted
    assert {cell for _, cell, _, _ in found.sums} == {-1, 0, 1}


@given(
    numbers=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60)), min_size=2, max_size=60),
    edges=cuts(60),
)
def test_numbers_that_occur_twice_are_in_a_range(
    numbers: list[tuple[int, int]], edges: list[int]
) -> None:
    """Whichever task has them; and where all rise, there is no range."""

    def ranges(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        parts = []
        for start, stop in pairwise(edges):
            task, some = Numbers(), np.array(pairs[start:stop], np.int64).reshape(-1, 2)
            code = np.zeros(len(some), np.int64)
            task.add(7, {"code": code, "sender": some[:, 0], "number": some[:, 1]})
            parts.append(task.lines().batch(GroupLists()))
        return receivers.join(pa.Table.from_batches(parts, LINES)).doubled_numbers.get(7, [])

    twice = {number for (_, number), count in Counter(numbers).items() if count > 1}
    found = ranges(numbers)
    assert all(any(least <= number <= most for least, most in found) for number in twice)
    assert ranges(sorted(set(numbers), key=lambda pair: pair[1])) == []


_Message = tuple[int, tuple[int, int], int, tuple[int, int], list[int]]
"""Level, stamp and ring, packet; A, and V."""

_POSITIONS = st.tuples(st.integers(0, 2), st.integers(0, 1))
_TIE: list[_Message] = [
    (CODES["CAUSAL"], (0, 0), 0, (1, 0), [-1, -1]),
    *((CODES["AGREED"], (1, ring), 0, (0, 0), [-1, -1]) for ring in (1, 0)),
]
"""The ring decides that the last one is late."""

_MESSAGES = st.tuples(
    st.integers(CODES["RELIABLE"], CODES["SAFE"]),
    *(_POSITIONS, st.integers(0, 3), _POSITIONS),
    st.lists(st.integers(-1, 3), min_size=2, max_size=2),
)


@example(messages=_TIE)
@given(messages=st.lists(_MESSAGES, min_size=2, max_size=6))
def test_messages_behind_those_that_depend_on_them_are_found(messages: list[_Message]) -> None:
    """Each one in one block; and in two at least one, if there is any."""

    def is_late(at: int) -> bool:
        level, position, packet, *_ = messages[at]
        return any(
            position <= upto if level >= CODES["AGREED"] else packet <= heard[position[1]]
            for cause, _, _, upto, heard in messages[:at]
            if cause >= CODES["CAUSAL"]
        )

    late = {at for at in range(len(messages)) if is_late(at)}
    assert _late_rows(messages, [0, len(messages)]) == late
    for cut in range(1, len(messages)):
        assert bool(_late_rows(messages, [0, cut, len(messages)])) == bool(late)


def _late_rows(messages: list[_Message], edges: list[int]) -> set[int]:
    tables = []
    for start, stop in pairwise(edges):
        rows = messages[start:stop]
        columns = {name: np.zeros(len(rows), np.int64) for name in NUMBERS}
        columns["row"] += np.arange(start, start + len(rows))
        for at, (level, position, *_) in enumerate(rows):
            columns["code"][at], (columns["stamp"][at], columns["ring"][at]) = level, position
        contexts = pa.array(
            [
                [packet] if level < CODES["CAUSAL"] else [packet, *upto, *heard]
                for level, _, packet, upto, heard in rows
            ],
            pa.list_(pa.int64()),
        )
        tables.append(examine(7, columns, contexts, {}).batch(GroupLists()))
    broken = receivers.join(pa.Table.from_batches(tables, LINES)).broken
    return {each.row for each in broken if each.what == What.BROKEN_CAUSES}


def test_a_log_is_the_rows_that_its_writer_got(tmp_path: Path) -> None:
    """What these tests write is whole: two files, and live rows."""
    table = History(420).logs()["r0"]
    write(tmp_path, table)
    assert sum(batch.num_rows for batch in LogReader(tmp_path).batches()) == len(table)
