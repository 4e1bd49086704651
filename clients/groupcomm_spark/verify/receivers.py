"""The rules that one log alone can break, on all rows of all logs."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from groupcomm_log.schema import MESSAGE, VIEW
from groupcomm_log.stays import KEY
from groupcomm_spark.logs import LOG
from groupcomm_spark.verify.blocks import (
    CODES,
    GROUP_VIEW,
    LINE,
    NUMBERS,
    OTHER,
    LogPlan,
    Plan,
    examine,
)
from groupcomm_spark.verify.stays import Stay

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BLOCK: Final = 200_000
"""Rows that are looked at together: enough for arrays, and some 20 MB."""


def make_plan(stays: Iterable[Stay], log_codes: dict[str, int]) -> Plan:
    """What blocks have to know of stays."""
    by_log: dict[str, list[Stay]] = {}
    for stay in stays:
        by_log.setdefault(stay.log, []).append(stay)
    return {
        log_codes[log]: LogPlan(
            first=np.array([stay.first for stay in of_log], np.int64),
            session=[stay.session for stay in of_log],
            era=[stay.era for stay in of_log],
            view=[stay.view_code for stay in of_log],
            is_known=[_is_known(stay) for stay in of_log],
            daemons=[
                None if stay.daemons is None else np.array(stay.daemon_codes, np.int64)
                for stay in of_log
            ],
        )
        for log, of_log in by_log.items()
    }


def _is_known(stay: Stay) -> bool:
    """Whether it is known which view it is in, if any."""
    return stay.view_code is not None or (bool(stay.member) and not stay.is_behind_gap)


def examine_rows(logs: "DataFrame", plan: Plan) -> pa.Table:
    """Look at all rows; the lines of all blocks (see `blocks`)."""
    schema = ", ".join(f"{field} long" for field in LINE)
    return _numbers(logs).mapInArrow(_examiner(plan), schema).toArrow()


def _examiner(plan: Plan) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= BLOCK:
                yield examine(pa.Table.from_batches(waiting), plan)
                waiting, rows = [], 0
        if rows:
            yield examine(pa.Table.from_batches(waiting), plan)

    return run


def _numbers(logs: "DataFrame") -> "DataFrame":
    """Of each row the numbers that rules speak of; names become hashes."""
    from pyspark.sql.functions import coalesce, col, lit, substring_index, xxhash64  # noqa: PLC0415

    daemon = substring_index(substring_index("sender", "#", -1), "/", 1)
    columns: dict[str, Column | Any] = {
        "log": xxhash64(LOG),
        "row": col("row"),
        "code": _code(),
        "view": xxhash64("view"),
        **{name: coalesce(col(name), lit(-1)) for name in KEY},
        "sender": xxhash64("sender"),
        "daemon": xxhash64(daemon),
        "number": coalesce(col("number"), lit(-1)),
    }
    return logs.select(
        *(columns[name].cast("long").alias(name) for name in NUMBERS),
        col("causal_context").alias("context"),
    )


def _code() -> "Column":
    from pyspark.sql.functions import col, lit, when  # noqa: PLC0415 - an extra

    code = lit(OTHER)
    for level, number in CODES.items():
        code = when(col("level") == level, lit(number)).otherwise(code)
    is_view = col("kind") == VIEW
    return when(col("kind") == MESSAGE, code).when(is_view, lit(GROUP_VIEW)).otherwise(lit(OTHER))
