"""Losses of UNRELIABLE messages: messages that one receiver lacks, but another has.

A sender numbers all its messages, also those to other receivers. So a number that is
missing everywhere may never have been for these receivers; a message in another log was.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from groupcomm_log.schema import GAP, MESSAGE
from groupcomm_spark.reading.options import LOG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_UNRELIABLE: Final = "UNRELIABLE"
_FOR_EVER: Final = 2**63 - 1


class Loss(NamedTuple):
    """The UNRELIABLE messages of one sender at one receiver.

    Attributes:
        log: name of the receiver's log.
        sender: `#user#daemon/connection`.
        got: number of messages received.
        lost: messages in another log, between the first and the last of the sender in this one.
        missing: numbers of the sender that this log lacks, at any level, between these two; if the
            sender sends to the recorded groups only, these were lost.
    """

    log: str
    sender: str
    got: int
    lost: int
    missing: int


def count_losses(logs: "DataFrame") -> list[Loss]:
    """Return the losses of every sender of UNRELIABLE messages at every log, the greatest first.

    Nothing counts as lost while a recorder was away (a gap row begins a new session).

    Args:
        logs: frame of `groupcomm_spark.read`, with row, kind, sender, number and level.
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
    """Return the rows from `start` to `end` of each session of each recorder; a gap begins a
    session.
    """
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
