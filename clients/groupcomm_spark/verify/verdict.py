"""What verify says: violations by name, each with its evidence, and what was looked at."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

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
    CAUSAL: "a cause came behind what it caused",
    AGREED_ORDER: "positions do not rise",
    AGREED_SET: "one has an AGREED or SAFE message, another that must have it has not",
    CONTENT: "different messages at one position",
    SAFE: "a SAFE message of a regular view is missing where the view was left alive",
    VIEW_SET: "a RELIABLE, FIFO or CAUSAL message is missing at one who went through the view too",
    DUPLICATE: "a message came twice",
    WRONG_VIEW: "a position in another view than the receiver was in",
    GROUP_VIEW: "a view of a group is missing, differs, or contradicts those around it",
    VS_SET: "who came along is told differently to those who came along together",
    DAEMONS_VIEW: "a view of daemons is told differently, or ids do not rise",
    FOREIGN_SENDER: "the sender's daemon is not in the view",
    NOT_ADDRESSED: "the receiver is in none of the destinations",
    ROW_NUMBERS: "rows are missing or doubled, and no gap tells of it",
    DAMAGE: "bytes are not what was written",
}
"""All names of violations; they stay the same from version to version. docs/spark.md has them."""


@dataclass(frozen=True)
class Violation:
    """One thing that may not be.

    Attributes:
        name: one of NAMES.
        logs: where it shows.
        row: of the first of these; None if it is of no row.
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
    """What was found, and in what.

    Attributes:
        violations: those that are told; of each name at most as many as were asked for.
        counts: of violations, by name, told or not.
        logs: names of those that were verified.
        rows: that were looked at one by one.
        compared: messages that were held against those of another log, by level.
        alone: messages above UNRELIABLE that were not: no other log was promised the same.
        causal_checked: messages of which it is known what they depend on.
        causal_unknown: messages above UNRELIABLE without `causal_context`.
        notes: what else could not be looked at, and why.
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
        """Whether nothing was found."""
        return not self.counts

    def add(self, violation: Violation, count: int = 1) -> None:
        """Keep one; `count` says for how many it stands."""
        assert violation.name in NAMES, violation
        self.violations.append(violation)
        self.counts[violation.name] += count

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
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
