"""Losses of UNRELIABLE messages: what one receiver has not got, and another has.

Messages have numbers in their sender's count, but that goes on with what it sends to others, so a
number that is missing everywhere may never have been for us. What another log has was.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from groupcomm_log.schema import GAP, MESSAGE
from groupcomm_spark.logs import LOG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_UNRELIABLE: Final = "UNRELIABLE"
_FOR_EVER: Final = 2**63 - 1


class Loss(NamedTuple):
    """What one receiver got of one sender's UNRELIABLE messages.

    Attributes:
        log: of the receiver.
        sender: `#user#daemon/connection`.
        got: messages.
        lost: which another log has, between the first and the last that this one has of the sender.
        missing: numbers of the sender that this log does not have, of any level, between these two;
            of a sender that sends to the recorded groups only, that is what was lost.
    """

    log: str
    sender: str
    got: int
    lost: int
    missing: int


def count_losses(logs: "DataFrame") -> list[Loss]:
    """Losses of every sender of UNRELIABLE messages at every log, the greatest first.

    While a recorder was away (a gap row begins a new session) nothing counts as lost.

    Args:
        logs: of `read_logs`, with row, kind, sender, number and level.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    is_unreliable = fn.col("level") == _UNRELIABLE
    messages = logs.where(fn.col("kind") == MESSAGE).select(
        LOG, "row", "sender", "number", is_unreliable.alias("unreliable")
    )
    numbered = (
        messages.join(_sessions(logs), LOG)
        .where(fn.col("row").between(fn.col("start"), fn.col("end")))
        .drop("row", "end")
    )
    spans = (
        numbered.groupBy(LOG, "start", "sender")
        .agg(
            fn.min("number").alias("first"),
            fn.max("number").alias("last"),
            fn.count("*").alias("all"),
            fn.count_if("unreliable").alias("got"),
        )
        .where(fn.col("got") > 0)
    )
    sent = messages.where("unreliable").select("sender", "number").distinct()
    wanted = (
        spans.join(sent, "sender")
        .where(fn.col("number").between(fn.col("first"), fn.col("last")))
        .groupBy(LOG, "start", "sender")
        .agg(fn.count("*").alias("wanted"))
    )
    rows = (
        spans.join(wanted, [LOG, "start", "sender"])
        .groupBy(LOG, "sender")
        .agg(
            fn.sum("got"),
            fn.sum(fn.col("wanted") - fn.col("got")),
            fn.sum(fn.col("last") - fn.col("first") + 1 - fn.col("all")),
        )
        .collect()
    )
    return sorted((Loss(*row) for row in rows), key=lambda loss: (-loss.lost, loss))


def _sessions(logs: "DataFrame") -> "DataFrame":
    """The rows from `start` to `end` of each session of each recorder; a gap begins a new one."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - an extra

    starts: dict[str, list[int]] = {row[LOG]: [0] for row in logs.select(LOG).distinct().collect()}
    for log, row in logs.where(fn.col("kind") == GAP).select(LOG, "row").collect():
        starts[log].append(row)
    spans = [
        (log, start, following - 1)
        for log, rows in starts.items()
        for start, following in pairwise([*sorted(rows), _FOR_EVER])
    ]
    frame = logs.sparkSession.createDataFrame(spans, f"{LOG} string, start long, end long")
    return fn.broadcast(frame)
