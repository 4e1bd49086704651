"""From rules that are broken to sentences: the rows are looked up only now."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from groupcomm_log.stays import KEY
from groupcomm_spark.logs import LOG
from groupcomm_spark.verify import verdict as v
from groupcomm_spark.verify.blocks import NONE, What
from groupcomm_spark.verify.joining import Broken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAMES: Final = {
    What.BROKEN_FIFO: v.FIFO,
    What.BROKEN_AGREED: v.AGREED_ORDER,
    What.BROKEN_CAUSES: v.CAUSAL,
    What.WRONG_VIEW: v.WRONG_VIEW,
    What.FOREIGN_SENDER: v.FOREIGN_SENDER,
}

_WHY: Final = {
    What.BROKEN_FIFO: "its sender sent it before",
    What.BROKEN_AGREED: "its position is not above that of",
    What.BROKEN_CAUSES: "it stands behind what it caused,",
    What.WRONG_VIEW: "the receiver was in another view",
    What.FOREIGN_SENDER: "the sender's daemon is not in the view that the receiver was in",
}

_ORDERS: Final = (What.BROKEN_FIFO, What.BROKEN_AGREED, What.BROKEN_CAUSES)

Rows = dict[tuple[str, int], dict[str, Any]]


def tell_broken(
    logs: "DataFrame",
    broken: Sequence[Broken],
    names: dict[int, str],
    verdict: v.Verdict,
    most: int,
) -> None:
    """Add what single logs break, with its evidence.

    Args:
        logs: all of them.
        broken: what was found.
        names: of logs, by code.
        verdict: to add to.
        most: so many of a name are told of one log; all are counted.
    """
    told: Counter[tuple[str, int]] = Counter()
    shown: list[Broken] = []
    for each in broken:
        name = NAMES[each.what]
        told[name, each.log] += 1
        if told[name, each.log] <= most:
            shown.append(each)
        else:
            verdict.counts[name] += each.count
    if not shown:
        return
    wanted = {(names[b.log], row) for b in shown for row in (b.row, b.earlier) if row != NONE}
    rows = _rows(logs, wanted)
    doubled = _doubled(logs, rows) if any(b.what in _ORDERS for b in shown) else {}
    seen: set[tuple[str, str, Any]] = set()
    for each in shown:
        violation, key = _violation(each, names[each.log], rows, doubled)
        if key not in seen:
            seen.add(key)
            verdict.add(violation, each.count)


def _violation(
    broken: Broken, log: str, rows: Rows, doubled: dict[tuple[Any, ...], list[int]]
) -> tuple[v.Violation, tuple[str, str, Any]]:
    row = rows[log, broken.row]
    if broken.what in _ORDERS:
        for one in (broken.row, broken.earlier):
            message = rows[log, one]
            twins = doubled.get((log, *_identity(message)), [])
            if twins:
                why = f"{_told(message)} came {len(twins)} times, in rows {_list(twins)}"
                found = v.Violation(v.DUPLICATE, (log,), twins[1], why)
                return found, (v.DUPLICATE, log, _identity(message))
    name = NAMES[broken.what]
    why = f"{_told(row)}: {_WHY[broken.what]}"
    if broken.earlier != NONE:
        why += f" {_told(rows[log, broken.earlier])}"
    return v.Violation(name, (log,), broken.row, why), (name, log, broken.row)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _told(row: dict[str, Any]) -> str:
    place = f"{row['view']}/{'.'.join(str(row[name]) for name in KEY)}"
    if row["sender"] is None:
        return f"row {row['row']}, {row['kind']} at {place}"
    return f"row {row['row']}, {row['level']} of {row['sender']} number {row['number']} at {place}"


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["sender"], row["number"]


def _rows(logs: "DataFrame", wanted: set[tuple[str, int]]) -> Rows:
    from pyspark.sql.functions import broadcast  # noqa: PLC0415 - an extra

    spark = logs.sparkSession
    table = spark.createDataFrame(sorted(wanted), f"{LOG} string, row long")
    columns = (LOG, "row", "kind", "view", *KEY, "sender", "number", "level")
    found = logs.select(*columns).join(broadcast(table), [LOG, "row"]).toArrow().to_pylist()
    return {(row[LOG], row["row"]): row for row in found}


def _doubled(logs: "DataFrame", rows: Rows) -> dict[tuple[Any, ...], list[int]]:
    """Of messages that a log has more than once at one position: log and identity, and the rows."""
    from pyspark.sql.functions import broadcast, col, collect_list, size  # noqa: PLC0415

    wanted = {(log, *_identity(row)) for (log, _), row in rows.items() if row["sender"] is not None}
    if not wanted:
        return {}
    schema = f"{LOG} string, sender string, number long"
    table = logs.sparkSession.createDataFrame(sorted(wanted), schema)
    found = (
        logs.select(LOG, "row", "view", *KEY, "sender", "number")
        .join(broadcast(table), [LOG, "sender", "number"])
        .groupBy(LOG, "sender", "number", "view", *KEY)
        .agg(collect_list("row").alias("rows"))
        .filter(size(col("rows")) > 1)
        .collect()
    )
    return {(row[LOG], row["sender"], row["number"]): sorted(row["rows"]) for row in found}
