"""Logs as one DataFrame: the fast way, for jobs that read everything.

Spark's own Parquet reader reads the sealed files, many times as fast as any reader in Python. Only
the live part, at most one file of each log, comes from the format "groupcomm".
"""

from collections.abc import Collection, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from groupcomm_log.errors import LogError
from groupcomm_log.reader import LogReader
from groupcomm_spark.reading.options import COLUMNS, LOG, folders_of, name_logs, spark_schema
from groupcomm_spark.stores import StoredLog, find_logs
from groupcomm_spark.urls import is_url

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(
    spark: "SparkSession",
    *paths: str | Path,
    columns: Sequence[str] = COLUMNS[1:],
    skip_damage: bool = False,
    without: Collection[Path | str] = (),
) -> "DataFrame":
    """Return the rows that logs have now, in no particular order, with a column `log` in front.

    A frame that is used after retention or compaction has removed one of its files fails; read the
    logs again then.

    Args:
        spark: session of Spark.
        paths: folders of the logs, or patterns such as ``logs/*``; each log is known by its
            folder's name, or by its path where names are equal. Or URLs, `s3a://bucket/log`, of
            folders to which sealed files were copied, where Spark has a file system for them.
        columns: columns of the logs. Spark reads no others from the disk.
        skip_damage: a row of kind `gap` stands in place of damaged rows of live files; else the
            query fails. Sealed files are only checked by the checksums of their pages;
            `groupcomm_spark.verify` checks them whole.
        without: sealed files to leave out, by path or URL.

    Raises:
        ConfigError: Spark has no file system for a path, or nothing has a name like a pattern.
        LogError: a folder is no log, or there are none.
        OSError: one cannot be read.
    """
    logs = find_all(spark, *paths)
    if not logs:
        raise LogError("no log is named; groupcomm record writes one")
    frames: list[DataFrame] = []
    for log, place in logs.items():
        if isinstance(place, StoredLog):
            files = [url for url in place.files if url not in without]
            frames += _sealed(spark, files, log, columns)
        else:
            frames += _frames(spark, place, log, columns, skip_damage, without)
    none = [] if frames else [spark.createDataFrame([], spark_schema([LOG, *columns]))]
    return reduce(lambda one, other: one.unionByName(other), frames + none)


def find_all(spark: "SparkSession", *paths: str | Path) -> dict[str, Path | StoredLog]:
    """Return folders, and logs on stores, by the names of the logs; see `read`."""
    folders = folders_of(*(path for path in paths if not is_url(path)))
    stored = {log.url: log for log in find_logs(spark, map(str, filter(is_url, paths)))}
    places: list[Path | str] = [*folders, *stored]
    names = name_logs(places).items()
    return {log: place if isinstance(place, Path) else stored[place] for place, log in names}


def _sealed(
    spark: "SparkSession", files: Sequence[str], log: str, columns: Sequence[str]
) -> list["DataFrame"]:
    """Return the rows of sealed files of one log, if there are any."""
    from pyspark.sql.functions import lit  # noqa: PLC0415 - an extra

    if not files:
        return []
    schema = spark_schema(COLUMNS[1:])  # files of earlier releases may lack columns
    return [spark.read.schema(schema).parquet(*files).select(lit(log).alias(LOG), *columns)]


def _frames(
    spark: "SparkSession",
    folder: Path,
    log: str,
    columns: Sequence[str],
    skip_damage: bool,
    without: Collection[Path | str],
) -> list["DataFrame"]:
    """Return the sealed and the live rows of one log, if it has any."""
    from pyspark.sql.functions import lit  # noqa: PLC0415 - an extra

    reader = LogReader(folder)
    segments = reader.segments()
    end = reader.end()
    live = next((segment.first for segment in segments if segment.is_live), end)
    sealed = [str(s.path) for s in segments if s.first < live and s.path not in without]
    frames = _sealed(spark, sealed, log, columns)
    if live < end:
        options = {
            "fromRow": f"{live.epoch}:{live.row}",
            "toRow": f"{end.epoch}:{end.row}",
            "columns": ",".join(columns),
            "onDamage": "skip" if skip_damage else "fail",
        }
        rows = spark.read.format("groupcomm").options(**options).load(str(folder))
        frames.append(rows.select(lit(log).alias(LOG), *columns))
    return frames
