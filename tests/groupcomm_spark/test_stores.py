"""Logs that Spark's file systems reach and Python does not: here by a mount table of Hadoop."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import groupcomm_spark
from groupcomm.errors import ConfigError
from groupcomm_log.compaction import compact
from groupcomm_log.errors import LogError
from groupcomm_log.names import list_segments
from groupcomm_spark.commands.options import folder_or_url
from groupcomm_spark.logs import find_all
from groupcomm_spark.urls import is_url
from groupcomm_spark.verify.files import check_files
from groupcomm_spark.verify.job import verify_folders
from tests.groupcomm_log.make import QuickDisk
from tests.groupcomm_spark.test_source import flip_a_bit, make_epoch

Store = Callable[[str], str]


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Store:
    """A store, whose folders are those below `tmp_path`, and what is at a URL there."""
    name = tmp_path.name.replace("_", "-")
    spark.conf.set(f"fs.viewfs.mounttable.{name}.link./logs", tmp_path.as_uri())
    return lambda path: f"viewfs://{name}/logs/{path}"


def test_urls_of_stores_are_told_from_paths() -> None:
    urls = ["s3a://bucket/log", "hdfs://host:8020/log", "abfss://c@a.net/log"]
    paths: list[str | Path] = ["log", "/log", "file:///log", "file:/log", "C://log", Path("x")]
    assert [path for path in [*urls, *paths] if is_url(path)] == urls
    assert folder_or_url(urls[0]) == urls[0]
    assert folder_or_url(Path.cwd().as_uri()) == Path.cwd()


@pytest.mark.long
def test_a_copy_on_a_store_is_a_log(spark: SparkSession, tmp_path: Path, store: Store) -> None:
    """Files that are compacted count once, and those of live rows are not there."""
    make_epoch(tmp_path / "b", [3, 4]).close()
    make_epoch(tmp_path / "b", [2]).close()
    old = tmp_path / "old"
    shutil.copytree(tmp_path / "b", old)
    compact(tmp_path / "b", disk=QuickDisk(), wait=lambda: None)
    for segment in list_segments(old):
        shutil.copy(segment.path, tmp_path / "b")
    shutil.rmtree(old)
    make_epoch(tmp_path / "a", [2], live=3).close()
    frame = groupcomm_spark.read(spark, store("*"), str(tmp_path / "a"), columns=["row"])
    found = frame.groupBy("log").count().collect()
    assert {row["log"]: row["count"] for row in found} == {
        store("a"): 5,
        "b": 9,
        str(tmp_path / "a"): 5,
    }
    assert verify_folders(spark, [store("b")]).rows == 9


@pytest.mark.long
def test_damage_on_a_store_is_found(spark: SparkSession, tmp_path: Path, store: Store) -> None:
    make_epoch(tmp_path / "log", [3, 4]).close()
    path = flip_a_bit(tmp_path / "log", 0)
    files = check_files(spark, [store("log")])
    assert files.damaged == [store(f"log/{path.name}")]
    assert files.lost == {"log": [(0, 2)]}
    rows = groupcomm_spark.read(spark, store("log"), columns=["row"], without=files.damaged)
    assert sorted(row["row"] for row in rows.collect()) == [3, 4, 5, 6]


@pytest.mark.long
def test_what_is_no_log_on_a_store_says_why(
    spark: SparkSession, tmp_path: Path, store: Store
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogError, match=r"empty: there is no log; copy sealed files"):
        find_all(spark, store("empty"))
    with pytest.raises(ConfigError, match=r"no folder has a name like viewfs:.*none"):
        find_all(spark, store("none"))
    (tmp_path / "empty" / "_log.json").write_text('{"format": 2}')
    with pytest.raises(LogError, match="the log has format 2"):
        find_all(spark, store("empty"))
    with pytest.raises(ConfigError, match=r"s3a://b/log: Spark's Java cannot.*S3AFileSystem"):
        find_all(spark, "s3a://b/log")
