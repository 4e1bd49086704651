"""Logs on stores: copies of sealed files, where only Spark's own file systems reach them.

Spark (Hadoop) lists and reads them, so whatever has such a file system is a store: s3a, hdfs, abfs.
Nothing of a store passes through Python. There are no live files: a store cannot append.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupcomm.errors import ConfigError
from groupcomm_log.errors import Damage, LogError
from groupcomm_log.manifest import MANIFEST, check_format_of
from groupcomm_log.names import Segment, segments_of, superseded
from groupcomm_spark.errors import plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class StoredLog:
    """A log on a store.

    Attributes:
        url: URL of its folder.
        files: the sealed files by their URLs, in the order of their rows; their paths are names.
    """

    url: str
    files: dict[str, Segment]


def find_logs(spark: "SparkSession", urls: Iterable[str]) -> list[StoredLog]:
    """Return the logs that URLs and patterns (`s3a://bucket/logs/*`) name.

    Raises:
        ConfigError: Spark has no file system for one, or nothing has a name like it.
        LogError: a folder is no log, or a later release has written it.
    """
    return [log for url in urls for log in _logs_like(spark, url)]


def _logs_like(spark: "SparkSession", url: str) -> list[StoredLog]:
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - an extra

    try:
        system, path = _file_system(spark, url)
        found = system.globStatus(path) or []
        folders = sorted(each.getPath().toString() for each in found if each.isDirectory())
        if not folders:
            raise ConfigError(f"path: no folder has a name like {url}")
        return [_log(spark, folder) for folder in folders]
    except Py4JJavaError as error:
        raise ConfigError(
            f"path: {url}: Spark's Java cannot read there: {plain(error)}; a store needs its"
            " package of Maven (--packages, for s3a org.apache.hadoop:hadoop-aws of the version of"
            " the hadoop-client in pyspark's jars) and its settings (--conf spark.hadoop.fs...)"
        ) from None


def _file_system(spark: "SparkSession", url: str) -> tuple[Any, Any]:
    """Return Hadoop's file system and path of a URL."""
    java: Any = spark.sparkContext._jvm
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    path = java.org.apache.hadoop.fs.Path(url)
    return path.getFileSystem(settings), path


def _log(spark: "SparkSession", url: str) -> StoredLog:
    system, path = _file_system(spark, url)
    names = [each.getPath().getName() for each in system.listStatus(path) if each.isFile()]
    segments = [each for each in segments_of(map(Path, names)) if not each.is_live]
    if not segments and MANIFEST not in names:
        raise LogError(f"{url}: there is no log; copy sealed files of a recorder's folder to it")
    if MANIFEST in names:
        _check_format(spark, f"{url}/{MANIFEST}")
    old = superseded(segments)
    return StoredLog(url, {f"{url}/{each.path}": each for each in segments if each not in old})


def _check_format(spark: "SparkSession", url: str) -> None:
    system, path = _file_system(spark, url)
    java: Any = spark.sparkContext._jvm
    stream = system.open(path)
    try:
        check_format_of(url, java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def damages(spark: "SparkSession", log: StoredLog) -> dict[str, Damage]:
    """Return the files whose bytes are not those of the checksum in their name, by URL.

    Java reads all bytes, each file in a task, and holds it in memory then.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    if not log.files:
        return {}
    frame = spark.read.format("binaryFile").load([*log.files])
    name = fn.element_at(fn.split("path", "/"), -1)
    found = frame.select(name.alias("name"), fn.crc32("content").alias("crc"), "length").collect()
    by_name = {str(segment.path): url for url, segment in log.files.items()}
    wrong: dict[str, Damage] = {}
    for row in found:
        url = by_name[row["name"]]
        segment = log.files[url]
        if segment.last is not None and row["crc"] != segment.crc:
            rows = segment.first.row, segment.last.row
            why = "the checksum is not that of its name"
            wrong[url] = Damage(segment.path, 0, row["length"], rows, why)
    return wrong
