"""Logs as one DataFrame: the fast way, for jobs that read everything once.

Spark's own Parquet reader reads the sealed files, many times as fast as any reader in Python. The
live part is at most one file, and is read here.
"""

from collections.abc import Collection, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from groupcomm_log.errors import LogError
from groupcomm_log.reader import LogReader, OnDamage
from groupcomm_log.schema import SCHEMA, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG: Final = "log"
"""The column with the name of the log; the other columns are those of a log."""


def read_logs(
    spark: "SparkSession",
    folders: Sequence[Path],
    columns: Sequence[str] | None = None,
    *,
    on_damage: OnDamage | None = None,
    without: Collection[Path] = (),
) -> "DataFrame":
    """Return the rows of logs, in no particular order, with a column LOG in front.

    Args:
        spark: session of Spark.
        folders: folders of the logs; each is known by its name, or by its path where names are
            equal.
        columns: columns of the logs; None for all. Spark reads no others from the disk.
        on_damage: called for damaged parts of live files; None: LogDamaged is raised. Sealed files
            are only checked by the checksums of their pages; `groupcomm_spark.verify` checks them
            whole.
        without: sealed files to leave out.

    Raises:
        LogError: a folder is no log, or there are none.
        OSError: one cannot be read.
    """
    names = list(SCHEMA.names if columns is None else columns)
    labels = name_logs(folders)
    parts = [
        _read_one(spark, folder, labels[folder], names, on_damage, without)
        for folder in dict.fromkeys(folders)
    ]
    if not parts:
        raise LogError("no log is named; groupcomm record writes one")
    return reduce(_union, parts)


def name_logs(folders: Sequence[Path]) -> dict[Path, str]:
    """Return the name of each log."""
    names = [folder.resolve().name for folder in dict.fromkeys(folders)]
    return {
        folder: name if names.count(name) == 1 else str(folder)
        for folder, name in zip(dict.fromkeys(folders), names, strict=True)
    }


def _read_one(
    spark: "SparkSession",
    folder: Path,
    label: str,
    columns: list[str],
    on_damage: OnDamage | None,
    without: Collection[Path],
) -> "DataFrame":
    from pyspark.sql.functions import lit  # noqa: PLC0415 - an extra

    reader = LogReader(folder) if on_damage is None else LogReader(folder, on_damage)
    segments = [segment for segment in reader.segments() if segment.path not in without]
    live = [segment for segment in segments if segment.is_live]
    batches = list(reader.batches(live[0].first, columns=columns)) if live else []
    sealed = [str(segment.path) for segment in segments if not segment.is_live]
    parts = [spark.read.parquet(*sealed).select(*columns)] if sealed else []
    if batches or not sealed:  # Spark makes no frame from a table without batches
        schema = schema_of(columns)
        table = pa.Table.from_batches(batches or [pa.RecordBatch.from_pylist([], schema)], schema)
        parts.append(spark.createDataFrame(table))
    return reduce(_union, parts).select(lit(label).alias(LOG), *columns)


def _union(one: "DataFrame", other: "DataFrame") -> "DataFrame":
    return one.unionByName(other)
