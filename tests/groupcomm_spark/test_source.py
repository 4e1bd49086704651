"""``spark.read.format("groupcomm")``: every option, and sealed, live, damaged and removed files."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from groupcomm.errors import ConfigError
from groupcomm_log.errors import LogDamaged, LogRemoved, LogReplaced
from groupcomm_log.names import list_segments
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import DAEMONS, GAP, MESSAGE, VIEW, Offset, rows_of
from groupcomm_log.writer import LogWriter
from groupcomm_spark.errors import plain
from groupcomm_spark.logs import read as read_logs
from groupcomm_spark.reading.options import COLUMNS, KNOWN, LOG, Place, ReadOptions, parse_options
from groupcomm_spark.reading.planning import Planner
from groupcomm_spark.reading.rows import read_parts
from tests.groupcomm_log.make import QuickDisk, crash, live_file, open_log

ROWS: list[dict[str, Any]] = [
    {"kind": GAP, "cause": "begin", "groups": ["a"], "data": b"{}"},
    {"kind": DAEMONS, "members": ["one", "two"], "cause": "majority"},
    {"kind": VIEW, "groups": ["a"], "received": 1_700_000_000_000_001, "members": ["#a#b"]},
    {"kind": MESSAGE, "groups": ["a", "b"], "level": "SAFE", "data": b"\0\xff"},
    {"kind": MESSAGE, "groups": ["b"], "level": "FIFO", "number": 2**63 - 1},
    {"kind": MESSAGE, "groups": ["c"], "level": "AGREED", "causal_context": [1, 2]},
    {"kind": VIEW, "groups": ["c"], "vs_set": []},
    {"kind": MESSAGE, "groups": ["c", "a"], "level": "AGREED", "stamp": 2**62},
]


def make_epoch(folder: Path, sealed: Sequence[int], live: int = 0) -> LogWriter:
    """Return files with this many rows each, and one live file; ROWS come again and again."""
    writer = open_log(folder, disk=QuickDisk())
    for count in sealed:
        write(writer, count)
        writer._roll()
        writer.tend()
    for _ in range(live):
        write(writer, 1)
    return writer


def write(writer: LogWriter, count: int) -> None:
    rows = range(writer.next_row, writer.next_row + count)
    writer.append(rows_of([ROWS[row % len(ROWS)] for row in rows]))


def written(folder: Path) -> list[dict[str, Any]]:
    return [row for batch in LogReader(folder).batches() for row in batch.to_pylist()]


def load(spark: SparkSession, folder: Path, **options: str) -> DataFrame:
    return spark.read.format("groupcomm").options(**options).load(str(folder))


def read(folder: Path, **options: str) -> list[dict[str, Any]]:
    """The same rows without Spark."""
    asked = parse_options({"path": str(folder), **options}, streams=False)
    planner = Planner(folder, asked.first, asked.stop)
    return [
        row
        for task in planner.tasks(planner.parts(), asked.rows_per_task)
        for batch in read_parts(task, asked, [name for name in asked.columns if name != LOG])
        for row in batch.to_pylist()
    ]


def rows_in(folder: Path, **options: str) -> list[int]:
    return [row["row"] for row in read(folder, **options)]


# ---- on Spark ----


def test_sealed_and_live_rows_of_all_epochs_are_read_as_they_were_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    make_epoch(tmp_path, [3, 4]).close()
    crash(make_epoch(tmp_path, [2], live=3))
    writer = make_epoch(tmp_path, [], live=2)
    log = load(spark, tmp_path)
    assert log.drop("log").schema == read_logs(spark, tmp_path).drop("log").schema
    found = log.orderBy("epoch", "row").toArrow().to_pylist()
    assert {row.pop("log") for row in found} == {tmp_path.name}
    assert found == written(tmp_path)
    assert [row["epoch"] for row in found] == [1] * 7 + [2] * 5 + [3] * 2
    writer.close()


def test_options_say_which_rows_and_columns(spark: SparkSession, tmp_path: Path) -> None:
    make_epoch(tmp_path, [5], live=3).close()
    options = {"groups": "b, c", "levels": "safe,AGREED", "columns": "row, kind,level"}
    log = load(spark, tmp_path, fromRow="1", toRow="1:7", **options)
    assert log.columns == ["row", "kind", "level"]
    found = log.orderBy("row").collect()
    assert [tuple(row) for row in found] == [
        (1, DAEMONS, None),
        (3, MESSAGE, "SAFE"),
        (5, MESSAGE, "AGREED"),
        (6, VIEW, None),
    ]
    without = load(spark, tmp_path, payload="false", rowsPerTask="3")
    assert without.columns == [name for name in COLUMNS if name != "data"]
    tasks = [task for (task,) in without.select(spark_partition_id()).collect()]
    assert (len(tasks), len(set(tasks))) == (len(ROWS), 2), "several tasks share them"


def test_a_schema_of_the_user_says_which_columns(spark: SparkSession, tmp_path: Path) -> None:
    make_epoch(tmp_path, [4]).close()
    reader = spark.read.format("groupcomm").option("path", str(tmp_path))
    log = reader.schema("groups array<string>, row bigint").load()
    assert log.orderBy("row").collect()[3].asDict() == {"groups": ["a", "b"], "row": 3}
    with pytest.raises(Exception) as caught:  # noqa: PT011 - pyspark's own classes
        reader.schema("row string").load().count()
    assert plain(caught.value) == (
        "schema: the column row is bigint, not string; leave the schema out, and cast the rows"
    )


@pytest.mark.long
def test_an_empty_log_has_no_rows_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    open_log(tmp_path, disk=QuickDisk()).close()
    assert load(spark, tmp_path).count() == 0


def test_errors_are_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    make_epoch(tmp_path, [2, 3]).close()
    with pytest.raises(Exception) as caught:  # noqa: PT011 - pyspark's own classes
        load(spark, tmp_path, onDamage="ignore")
    assert plain(caught.value) == "onDamage: 'ignore'; it must be fail or skip"
    with pytest.raises(Exception) as caught:  # noqa: PT011 - pyspark's own classes
        load(spark, tmp_path / "none").count()
    assert plain(caught.value).endswith("there is no log; groupcomm record writes one")
    path = flip_a_bit(tmp_path, 1)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - pyspark's own classes
        load(spark, tmp_path).count()
    assert plain(caught.value).startswith(f"{path}: ")
    assert "which held rows 2 to 4: the checksum is not that of its name" in plain(caught.value)
    passed_over = load(spark, tmp_path, onDamage="skip").orderBy("row").collect()
    assert [(row.row, row.kind, row.cause) for row in passed_over[2:]] == [(2, GAP, "damage")]


def flip_a_bit(folder: Path, number: int, at: int = 100) -> Path:
    path = list_segments(folder)[number].path
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    return path


# ---- without Spark: options ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "path: it is missing"),
        ({"path": "s3://bucket/log"}, "path: s3://bucket/log is not a folder of this host"),
        ({"group": "a"}, "group: no such option; options are path, groups, levels"),
        ({"startingOffset": "latest"}, "startingOffset: only readStream has this option"),
        ({"levels": "SAFE,safer"}, "levels: 'SAFER' in 'SAFE,safer'; it must be one or more of"),
        ({"kinds": "mesage"}, "kinds: 'mesage' in 'mesage'; it must be one or more of message"),
        ({"groups": "a,,b"}, "groups: '' in 'a,,b'; it must be names"),
        ({"columns": "row,rows"}, "columns: 'rows' in 'row,rows'; it must be one or more of"),
        ({"columns": "row, data", "payload": "false"}, "payload: false, and data is among"),
        ({"payload": "no"}, "payload: 'no'; it must be true or false"),
        ({"fromRow": "-1"}, "fromRow: '-1'; it must be the number of a row, or EPOCH:ROW"),
        ({"toRow": "1:"}, "toRow: '1:'; it must be the number of a row, or EPOCH:ROW"),
    ],
)
def test_what_is_wrong_with_an_option_is_reported(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options({"path": "log", **options}, streams=False)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxRowsPerBatch": "0"}, "maxRowsPerBatch: '0'; it must be a whole number from 1"),
        ({"startingOffset": "now"}, "startingOffset: 'now'; it must be earliest, latest, the"),
        ({"failOnDataLoss": "1"}, "failOnDataLoss: '1'; it must be true or false"),
    ],
)
def test_what_is_wrong_with_an_option_of_streams_is_reported(
    options: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options({"path": "log", **options})
    assert str(caught.value).startswith(message)


def test_names_of_options_may_be_in_any_case() -> None:
    every = dict.fromkeys(KNOWN, "")
    every |= {"path": "file:///log", "groups": "a", "levels": "fifo", "kinds": "View"}
    every |= {"fromRow": "7", "toRow": "2:9", "columns": "row", "payload": "TRUE"}
    every |= {"onDamage": "Skip", "startingOffset": "5", "maxRowsPerBatch": "10"}
    every["rowsPerTask"] = "100"
    every["failOnDataLoss"] = "false"
    wanted = ReadOptions(
        logs={Path("/log"): "log"},
        columns=("row",),
        groups=("a",),
        levels=("FIFO",),
        kinds=("view",),
        first=Place(None, 7),
        stop=Place(2, 9),
        skip_damage=True,
        rows_per_task=100,
        rows_per_batch=10,
        start=Place(None, 5),
        fail_on_loss=False,
    )
    for change in (str.lower, str.upper, str):
        assert parse_options({change(name): text for name, text in every.items()}) == wanted


def test_the_name_alone_costs_no_import_of_pyarrow() -> None:
    """Spark imports it for everybody who uses any format that is written in Python."""
    code = "import sys, pyspark_groupcomm; print({'pyarrow', 'pandas', 'trio'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# ---- without Spark: rows ----


@given(st.data())
def test_any_rows_of_any_files_are_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("log")
    for _ in range(data.draw(st.integers(1, 3))):
        sizes = data.draw(st.lists(st.integers(1, 4), max_size=3))
        crash(make_epoch(folder, sizes, live=data.draw(st.integers(0, 3))))
    place = st.tuples(st.none() | st.integers(0, 4), st.integers(0, 20))
    start, stop = data.draw(place), data.draw(place)

    def behind(row: dict[str, Any], place: tuple[int | None, int]) -> bool:
        epoch, number = place
        return row["row"] >= number if epoch is None else (row["epoch"], row["row"]) >= place

    wanted = [row for row in written(folder) if behind(row, start) and not behind(row, stop)]
    texts = [f"{row}" if epoch is None else f"{epoch}:{row}" for epoch, row in (start, stop)]
    epochs = {None, 0, *(row["epoch"] for row in written(folder))}
    if {start[0], stop[0]} <= epochs:
        assert read(folder, fromRow=texts[0], toRow=texts[1]) == wanted
    else:
        with pytest.raises(LogReplaced, match="is of another log"):
            read(folder, fromRow=texts[0], toRow=texts[1])


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"groups": "a"}, [0, 1, 2, 3, 7]),
        ({"groups": "nobody"}, [0, 1]),
        ({"levels": "AGREED"}, [0, 1, 2, 5, 6, 7]),
        ({"kinds": "message,view", "groups": "c"}, [5, 6, 7]),
        ({"columns": "row", "groups": "a", "levels": "SAFE", "kinds": "message"}, [3]),
    ],
)
def test_rows_are_chosen(tmp_path: Path, options: dict[str, str], rows: list[int]) -> None:
    make_epoch(tmp_path, [4], live=4).close()
    assert rows_in(tmp_path, **options) == rows


def test_an_empty_log_has_no_rows(tmp_path: Path) -> None:
    open_log(tmp_path, disk=QuickDisk()).close()
    assert read(tmp_path) == []


def test_tasks_have_nearly_the_same_number_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupcomm_log.sealed.GROUP_BYTES", 1)
    writer = make_epoch(tmp_path, [2, 1, 2])
    for _ in range(9):
        write(writer, 1)  # each call writes a row group
    writer._roll()
    writer.tend()
    for _ in range(5):
        write(writer, 1)
    planner = Planner(tmp_path, Place(None, 1))
    tasks = planner.tasks(planner.parts(), 4)
    options = parse_options({"path": str(tmp_path)})
    read_by = [
        [row for batch in read_parts(task, options, ["row"]) for row in batch["row"].to_pylist()]
        for task in tasks
    ]
    assert read_by == [[1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 11], [12, 13, 14], [15, 16, 17, 18]]
    assert tasks[4][0].at > 0
    flip_a_bit(tmp_path, 3)
    assert rows_in(tmp_path, onDamage="skip", rowsPerTask="4") == [*range(6), 8, 11, *range(14, 19)]
    writer.close()


def test_batches_are_not_tiny(tmp_path: Path) -> None:
    writer = make_epoch(tmp_path, [], live=100)
    options = parse_options({"path": str(tmp_path)})
    planner = Planner(tmp_path)
    (task,) = planner.tasks(planner.parts(), 100)
    assert [batch.num_rows for batch in read_parts(task, options, ["row"])] == [100]
    writer.close()


# ---- without Spark: what changes while it is read ----


def planned(folder: Path, **options: str) -> Callable[[], list[int]]:
    """Plan now, and read when it is called."""
    asked = parse_options({"path": str(folder), **options})
    parts = Planner(folder).parts()
    return lambda: [
        row for batch in read_parts(parts, asked, ["row"]) for row in batch["row"].to_pylist()
    ]


def test_a_live_file_that_is_sealed_in_between_gives_the_same_rows(tmp_path: Path) -> None:
    writer = make_epoch(tmp_path, [2], live=3)
    rows = planned(tmp_path)
    write(writer, 2)
    assert rows() == [*range(5)]
    writer.close()
    assert rows() == [*range(5)]


def test_a_file_that_is_removed_in_between_is_reported(tmp_path: Path) -> None:
    make_epoch(tmp_path, [2, 3]).close()
    rows, going_on = planned(tmp_path), planned(tmp_path, failOnDataLoss="false")
    list_segments(tmp_path)[0].path.unlink()
    with pytest.raises(LogRemoved, match="rows 0 to 1 were removed before they were read"):
        rows()
    assert going_on() == [2, 3, 4]


def test_a_torn_end_is_no_damage_and_rows_that_go_after_planning_are(tmp_path: Path) -> None:
    crash(make_epoch(tmp_path, [2], live=3))
    rows = planned(tmp_path)
    live = live_file(tmp_path)
    live.write_bytes(live.read_bytes()[:-10])
    assert rows_in(tmp_path) == [*range(4)]
    with pytest.raises(LogDamaged, match=r"rows 4 to 4"):
        rows()


def test_damage_in_a_live_file_costs_a_batch(tmp_path: Path) -> None:
    crash(make_epoch(tmp_path, [], live=4))
    live = live_file(tmp_path)
    content = live.read_bytes()
    second = content.index(b"rows:" + b"%019d" % 1)
    live.write_bytes(content[:second] + b"?" + content[second + 1 :])
    with pytest.raises(LogDamaged, match=f"{live.name}.*rows 1 to 1"):
        rows_in(tmp_path)
    found = read(tmp_path, onDamage="skip", groups="b")
    assert [(row["row"], row["kind"]) for row in found] == [(0, GAP), (1, GAP), (3, MESSAGE)]
    assert json.loads(found[1]["data"])["rows"] == [1, 1]


def test_what_a_failed_write_left_is_read_once(tmp_path: Path) -> None:
    """The recorder begins another live file with the rows that it is not sure of."""
    writer = make_epoch(tmp_path, [], live=3)
    old = live_file(tmp_path)
    content = old.read_bytes()
    writer._roll()
    writer._unsealed.clear()
    writer.next_row = 1
    planner = Planner(tmp_path)
    assert planner.end() == Offset(1, 3)
    write(writer, 3)
    assert old.read_bytes() == content
    assert rows_in(tmp_path) == [0, 1, 2, 3]
    parts = planner.parts(Offset(1, 2))
    assert [(part.start, part.stop) for part in parts] == [(2, 4)]
    crash(writer)
