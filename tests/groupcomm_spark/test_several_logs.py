"""Several logs at once, by any spelling of their paths; who was a member; a frame used twice."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import groupcomm_spark
from groupcomm.errors import ConfigError
from groupcomm_log.compaction import compact
from groupcomm_log.errors import LogError, LogRemoved
from groupcomm_log.names import list_segments
from groupcomm_log.schema import GAP, MESSAGE, VIEW, rows_of
from groupcomm_spark.commands.options import read_config
from groupcomm_spark.errors import plain
from groupcomm_spark.reading.options import parse_options
from groupcomm_spark.reading.readers import StreamReader
from groupcomm_spark.verify.files import check_files
from tests.groupcomm_log.make import QuickDisk, open_log, without_a_column
from tests.groupcomm_spark.test_source import flip_a_bit, make_epoch, planned, rows_in, write


def test_logs_are_found_by_lists_patterns_and_relative_paths(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's workers have working folders of their own."""
    monkeypatch.chdir(tmp_path)
    make_epoch(Path("logs/a"), [3, 4]).close()
    writer = make_epoch(Path("logs/b"), [2], live=3)
    wanted = {"a": 7, "b": 5}
    for frame in (
        groupcomm_spark.read(spark, "logs/*", columns=["row"]),
        spark.read.format("groupcomm").option("columns", "log").load(f"{tmp_path}/logs/*"),
        spark.read.format("groupcomm").load([f"{tmp_path}/logs/b", f"{tmp_path}/logs/a"]),
    ):
        found = frame.groupBy("log").count().collect()
        assert {row["log"]: row["count"] for row in found} == wanted
    path = flip_a_bit(Path("logs/a"), 0)
    files = check_files(spark, ["logs/*"])
    assert (files.damaged, files.lost) == ([tmp_path / path], {"a": [(0, 2)]})
    writer.close()


def test_paths_that_name_no_log_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no folder has a name like .*/log-\*"):
        parse_options({"path": f"{tmp_path}/log-*"})
    several = parse_options({"paths": '["log-a", "log-b"]'})
    with pytest.raises(ConfigError, match="a stream reads one log"):
        StreamReader(several, ["row"]).initialOffset()
    with pytest.raises(ConfigError, match="CREATE TEMPORARY VIEW"):
        parse_options({"path": "log", "owner": "ann"})


def test_settings_of_spark_are_read() -> None:
    assert read_config(["a.b=c=d", "e="]) == {"a.b": "c=d", "e": ""}
    with pytest.raises(ConfigError, match=r"--conf is 'a.b'; write KEY=VALUE"):
        read_config(["a.b"])


# ---- who was a member ----


def group_view(group: str, members: str, cause: str, stamp: int) -> dict[str, Any]:
    place = {"view": "1.a.0", "stamp": stamp, "ring": 1, "bundle": 0, "message": 0}
    return {"kind": VIEW, "groups": [group], "members": members.split(), "cause": cause, **place}


def test_who_was_a_member_is_known_at_each_row(spark: SparkSession, tmp_path: Path) -> None:
    session = {"kind": GAP, "groups": ["g", "h"], "sender": "#r#a/1", "data": b"{}"}
    rows = [
        {**session, "cause": "begin"},
        group_view("g", "r ann", "join", 10),
        group_view("h", "r", "join", 20),
        {"kind": MESSAGE, "groups": ["g"], "level": "SAFE", "sender": "ann"},
        group_view("g", "r", "leave", 30),
        group_view("g", "r bob ann", "network", 40),
        {**session, "cause": "reconnect", "sender": "#r#a/2"},
        group_view("g", "r bob", "join", 50),
        {"kind": MESSAGE, "groups": ["g", "h"], "level": "SAFE", "sender": "bob"},
    ]
    writer = open_log(tmp_path / "log", disk=QuickDisk())
    writer.append(rows_of(rows))
    writer.close()
    members = groupcomm_spark.membership(spark, tmp_path / "log")
    end = 2**63 - 1
    found = [
        tuple(row)
        for row in members.select(
            *("group", "who", "from_row", "to_row", "from_position.stamp", "to_position.stamp"),
            *("joined", "left"),
        )
        .orderBy("group", "who", "from_row")
        .collect()
    ]
    assert found == [
        ("g", "ann", 1, 4, 10, 30, "join", "leave"),
        ("g", "ann", 5, 6, 40, None, "network", "gap"),
        ("g", "bob", 5, 6, 40, None, "network", "gap"),
        ("g", "bob", 7, end, 50, None, "join", None),
        ("g", "r", 1, 6, 10, None, "join", "gap"),
        ("g", "r", 7, end, 50, None, "join", None),
        ("h", "r", 2, 6, 20, None, "join", "gap"),
    ]
    messages = groupcomm_spark.read(spark, tmp_path / "log").where("kind = 'message'")
    joined = messages.join(members, "log").where(
        "array_contains(groups, group) and row >= from_row and row < to_row"
    )
    found = [tuple(row) for row in joined.select("row", "who").orderBy("row", "who").collect()]
    assert found == [(3, "ann"), (3, "r"), (8, "bob"), (8, "r")]


# ---- filters ----


def test_the_filter_of_a_query_is_not_that_of_the_next(spark: SparkSession, tmp_path: Path) -> None:
    """Spark would keep it for the next query of the frame, if that has none."""
    writer = make_epoch(tmp_path, [5], live=5)
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    log = groupcomm_spark.read(spark, tmp_path, columns=["row", "kind"])
    assert log.where("kind = 'view' and row > 5").count() == 1
    assert log.count() == 10
    spark.conf.unset(setting)
    writer.close()


# ---- files that change ----


def test_files_that_are_compacted_in_between_give_the_same_rows(tmp_path: Path) -> None:
    make_epoch(tmp_path, [2, 3]).close()
    make_epoch(tmp_path, [1, 4]).close()
    rows = planned(tmp_path)
    compact(tmp_path, disk=QuickDisk(), wait=lambda: None)
    assert len(list_segments(tmp_path)) == 2
    assert rows() == [*range(10)]
    list_segments(tmp_path)[0].path.unlink()
    with pytest.raises(LogRemoved, match="rows 0 to 1 were removed"):
        rows()


def test_a_worker_without_the_folder_says_so(tmp_path: Path) -> None:
    make_epoch(tmp_path / "log", [2]).close()
    rows = planned(tmp_path / "log")
    shutil.rmtree(tmp_path / "log")
    with pytest.raises(LogError, match="has no such folder; all of Spark's workers need"):
        rows()


@pytest.mark.long
def test_a_frame_may_be_read_while_its_live_part_is_sealed(
    spark: SparkSession, tmp_path: Path
) -> None:
    writer = make_epoch(tmp_path, [2], live=3)
    frame = groupcomm_spark.read(spark, tmp_path, columns=["row"])
    write(writer, 2)
    writer.close()
    assert sorted(row["row"] for row in frame.collect()) == [*range(5)]
    assert rows_in(tmp_path) == [*range(7)]


def test_files_without_a_column_of_later_releases_have_nulls(
    spark: SparkSession, tmp_path: Path
) -> None:
    make_epoch(tmp_path, [3, 2]).close()
    without_a_column(list_segments(tmp_path)[0])
    found = groupcomm_spark.read(spark, tmp_path, columns=["row", "vs_set"]).orderBy("row")
    assert [row["row"] for row in found.collect()] == [*range(5)] == rows_in(tmp_path)
    compact(tmp_path, disk=QuickDisk(), wait=lambda: None)
    assert len(list_segments(tmp_path)) == 1
    assert rows_in(tmp_path) == [*range(5)]


@pytest.mark.long
def test_damage_of_a_live_file_is_an_error_or_a_gap(spark: SparkSession, tmp_path: Path) -> None:
    writer = make_epoch(tmp_path, [], live=3)
    live = next(tmp_path.glob("_live*"))
    content = live.read_bytes()
    at = content.index(b"rows:" + b"%019d" % 1)
    live.write_bytes(content[:at] + b"?" + content[at + 1 :])
    with pytest.raises(Exception) as caught:  # noqa: PT011 - pyspark's own classes
        groupcomm_spark.read(spark, tmp_path).collect()
    assert "rows 1 to 1" in plain(caught.value)
    found = groupcomm_spark.read(spark, tmp_path, skip_damage=True).orderBy("row").collect()
    assert [row["cause"] for row in found][1] == "damage"
    writer.close()
