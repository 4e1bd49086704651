"""The verdict of the proof: violations by name, each with its evidence, and the extent of the
checks."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from groupcomm_log.view_periods import KEY
from groupcomm_spark.reading.options import LOG
from groupcomm_spark.verify.blocks import What
from groupcomm_spark.verify.numbers import NONE
from groupcomm_spark.verify.receivers import Broken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


AGREED_ORDER: Final = "agreed-order"
AGREED_SET: Final = "agreed-set"
CAUSAL: Final = "causal"
CONTENT: Final = "content"
DAEMONS_VIEW: Final = "daemons-view"
DAMAGE: Final = "damage"
DUPLICATE: Final = "duplicate"
FIFO: Final = "fifo"
FOREIGN_SENDER: Final = "foreign-sender"
GROUP_VIEW: Final = "group-view"
NOT_ADDRESSED: Final = "not-addressed"
ROW_NUMBERS: Final = "row-numbers"
SAFE: Final = "safe"
VIEW_SET: Final = "view-set"
VS_SET: Final = "vs-set"
WRONG_VIEW: Final = "wrong-view"

NAMES: Final = {
    FIFO: "a sender's messages at FIFO or above came in another order than they were sent",
    CAUSAL: "a message came after one that depends on it",
    AGREED_ORDER: "positions do not increase",
    AGREED_SET: "a log lacks an AGREED or SAFE message of another log, which it must have",
    CONTENT: "different messages at one position",
    SAFE: "a SAFE message of a regular view is missing in a log that survived the view",
    VIEW_SET: "a RELIABLE, FIFO or CAUSAL message is missing in a log that has the whole view",
    DUPLICATE: "a message came twice",
    WRONG_VIEW: "a position in another view than the receiver was in",
    GROUP_VIEW: "a view of a group is missing, differs, or contradicts those around it",
    VS_SET: "members that came along together received different vs_sets",
    DAEMONS_VIEW: "logs differ in a view of daemons, or its ids do not increase",
    FOREIGN_SENDER: "the sender's daemon is not in the view",
    NOT_ADDRESSED: "the receiver is in none of the destinations",
    ROW_NUMBERS: "rows are missing or doubled, and no gap explains it",
    DAMAGE: "bytes differ from those that were written",
}
"""All names of violations, which stay the same from version to version. docs/spark.md has them."""


@dataclass(frozen=True)
class Violation:
    """A broken promise.

    Attributes:
        name: the violation's name, one of NAMES.
        logs: the names of the logs in which it shows.
        row: row in the first of these logs; None without a row.
        evidence: a sentence with rows, positions and messages.
    """

    name: str
    logs: tuple[str, ...]
    row: int | None
    evidence: str

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(self.logs)}: {self.evidence}"


@dataclass
class Verdict:
    """The result of a proof.

    Attributes:
        violations: reported violations; of each name at most as many as were requested.
        counts: number of violations by name, reported or not.
        logs: names of the verified logs.
        rows: the number of rows examined one by one.
        compared: the number of messages compared with those of another log, by level.
        alone: the number of messages above UNRELIABLE not compared: no other log was owed the same
            ones.
        causal_checked: the number of messages whose causes are known.
        causal_unknown: the number of messages above UNRELIABLE without `causal_context`.
        notes: further unchecked parts, with the reasons.
    """

    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    logs: list[str] = field(default_factory=list)
    rows: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    alone: int = 0
    causal_checked: int = 0
    causal_unknown: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Return whether nothing was found."""
        return not self.counts

    def add(self, violation: Violation, count: int = 1) -> None:
        """Add a violation, which represents `count` violations."""
        assert violation.name in NAMES, violation
        self.violations.append(violation)
        self.counts[violation.name] += count

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        return {
            "holds": self.holds,
            "counts": dict(self.counts),
            "violations": [
                {"name": v.name, "logs": list(v.logs), "row": v.row, "evidence": v.evidence}
                for v in self.violations
            ],
            "logs": self.logs,
            "rows": self.rows,
            "compared": dict(self.compared),
            "alone": self.alone,
            "causal_checked": self.causal_checked,
            "causal_unknown": self.causal_unknown,
            "notes": self.notes,
        }


_RULES: Final = {
    What.BROKEN_FIFO: FIFO,
    What.BROKEN_AGREED: AGREED_ORDER,
    What.BROKEN_CAUSES: CAUSAL,
    What.WRONG_VIEW: WRONG_VIEW,
    What.FOREIGN_SENDER: FOREIGN_SENDER,
}

_WHY: Final = {
    What.BROKEN_FIFO: "its sender sent it before",
    What.BROKEN_AGREED: "its position is not above that of",
    What.BROKEN_CAUSES: "it comes after a message that depends on it,",
    What.WRONG_VIEW: "the receiver was in another view",
    What.FOREIGN_SENDER: "the sender's daemon is not in the view that the receiver was in",
}

_ORDERS: Final = (What.BROKEN_FIFO, What.BROKEN_AGREED, What.BROKEN_CAUSES)

Rows = dict[tuple[str, int], dict[str, Any]]


def report_broken(
    frame: "Callable[[], DataFrame]",
    broken: Sequence[Broken],
    names: dict[int, str],
    verdict: Verdict,
    most: int,
) -> None:
    """Add the rules that single logs break, with their evidence.

    Args:
        frame: returns all logs in one frame.
        broken: the broken rules.
        names: names of the logs, by code.
        verdict: the verdict to which they are added.
        most: violations of one name that are reported for one log; all are counted.
    """
    told: Counter[tuple[str, int]] = Counter()
    shown: list[Broken] = []
    for each in broken:
        name = _RULES[each.what]
        told[name, each.log] += 1
        if told[name, each.log] <= most:
            shown.append(each)
        else:
            verdict.counts[name] += each.count
    if not shown:
        return
    logs = frame()
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
) -> tuple[Violation, tuple[str, str, Any]]:
    row = rows[log, broken.row]
    if broken.what in _ORDERS:
        for one in (broken.row, broken.earlier):
            message = rows[log, one]
            twins = doubled.get((log, *_identity(message)), [])
            if twins:
                why = f"{_describe(message)} came {len(twins)} times, in rows {_list(twins)}"
                found = Violation(DUPLICATE, (log,), twins[1], why)
                return found, (DUPLICATE, log, _identity(message))
    name = _RULES[broken.what]
    why = f"{_describe(row)}: {_WHY[broken.what]}"
    if broken.earlier != NONE:
        why += f" {_describe(rows[log, broken.earlier])}"
    return Violation(name, (log,), broken.row, why), (name, log, broken.row)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _describe(row: dict[str, Any]) -> str:
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
    """Return the rows of messages that a log has more than once at one position, by log and
    identity.
    """
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
