"""Messages without an order that came twice; of the others their numbers tell (see `blocks`)."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from groupcomm_spark.logs import LOG
from groupcomm_spark.verify.stays import Stay
from groupcomm_spark.verify.verdict import DUPLICATE, Verdict, Violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_doubles(logs: "DataFrame", stays: Sequence[Stay], verdict: Verdict, most: int) -> None:
    """UNRELIABLE and RELIABLE: at most once in a session."""
    from pyspark.sql.functions import col, count, lit, max, min, xxhash64  # noqa: PLC0415

    rows = logs.filter(col("level").isin("UNRELIABLE", "RELIABLE"))
    hashes = rows.select("row", xxhash64(LOG, "sender", "number").alias("hash"))
    found = (
        hashes.groupBy("hash")
        .agg(count(lit(1)).alias("count"), min("row").alias("first"), max("row").alias("last"))
        .filter(col("count") > 1)
        .join(rows.select(LOG, "row", "sender", "number", "level"), col("last") == col("row"))
        .filter(col("hash") == xxhash64(LOG, "sender", "number"))
        .orderBy(LOG, "row")
        .collect()
    )
    told: Counter[str] = Counter()
    for row in found:
        log, first, last = row[LOG], row["first"], row["last"]
        if _session(stays, log, first) != _session(stays, log, last):
            continue  # two sessions may each be told of it
        why = (
            f"{row['level']} of {row['sender']} number {row['number']} came {row['count']} times,"
            f" in rows {first} to {last}"
        )
        told[log] += 1
        if told[log] <= most:
            verdict.add(Violation(DUPLICATE, (log,), last, why))
        else:
            verdict.counts[DUPLICATE] += 1


def _session(stays: Sequence[Stay], log: str, row: int) -> int:
    of_log = [stay for stay in stays if stay.log == log]
    at = bisect_right([stay.first for stay in of_log], row) - 1
    return of_log[at].session if of_log else 0
