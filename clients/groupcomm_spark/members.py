"""Who was a member of which group, from where to where in a log, as a frame."""

from pathlib import Path
from typing import TYPE_CHECKING

from groupcomm_log.schema import GAP, PLACE, VIEW
from groupcomm_spark.logs import read
from groupcomm_spark.reading.options import LOG

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession


def membership(spark: "SparkSession", *paths: str | Path) -> "DataFrame":
    """Return a row for each time that a session was a member of a group, as each log has it.

    The columns are `log`, `group` and `who`, the private name of a session; the rows of the log
    from `from_row` on, and before `to_row`; `from_position` and `to_position`, each (view, stamp,
    ring, bundle, message); `joined` and `left`, the causes: `join`, `leave`, `disconnect`,
    `network`, or for `left` also `gap`, where the session of the recorder ended; the membership
    that the next one sees is another row. Who is a member at the end of a log has a `to_row` above
    all rows, and neither `to_position` nor `left`.

    Args:
        spark: session of Spark.
        paths: see `read`; so are the errors.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra
    from pyspark.sql.window import Window  # noqa: PLC0415 - an extra

    columns = ["row", "kind", *PLACE, "sender", "groups", "members", "cause"]
    logs = read(spark, *paths, columns=columns)
    is_session = (f.col("kind") == GAP) & f.col("sender").isNotNull()
    none = f.array().cast("array<string>")
    views = logs.where((f.col("kind") == VIEW) | is_session).select(
        *(LOG, "row", f.explode("groups").alias("group")),
        f.when(is_session, none).otherwise(f.col("members")).alias("members"),
        f.when(is_session, f.lit(GAP)).otherwise(f.col("cause")).alias("cause"),
        f.when(~is_session, f.struct(*PLACE)).alias("position"),
    )
    before = f.lag("members").over(Window.partitionBy(LOG, "group").orderBy("row"))
    changes = views.withColumn("before", f.coalesce(before, none)).select(
        *(LOG, "group", "row", "cause", "position"),
        f.explode(
            f.concat(
                f.transform(f.array_except("members", "before"), _change(is_member=True)),
                f.transform(f.array_except("before", "members"), _change(is_member=False)),
            )
        ).alias("change"),
    )
    next_one = Window.partitionBy(LOG, "group", "change.who").orderBy("row")
    return (
        changes.select(
            *(LOG, "group", "change.who", "change.is_member", f.col("row").alias("from_row")),
            f.coalesce(f.lead("row").over(next_one), f.lit(2**63 - 1)).alias("to_row"),
            f.col("position").alias("from_position"),
            f.lead("position").over(next_one).alias("to_position"),
            f.col("cause").alias("joined"),
            f.lead("cause").over(next_one).alias("left"),
        )
        .where("is_member")
        .drop("is_member")
    )


def _change(*, is_member: bool) -> "Callable[[Column], Column]":
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    return lambda who: f.struct(who.alias("who"), f.lit(is_member).alias("is_member"))
