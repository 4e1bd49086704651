"""The tables of a report. Pure: figures in, rows out."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from groupcomm.level import LEVELS
from groupcomm_spark.report.figures import Figures, Key
from groupcomm_spark.report.histogram import Counts, merge, percentile_ms

BY: Final[dict[str, Callable[[Key], str]]] = {
    "level": lambda key: key.level,
    "group": lambda key: key.groups,
    "sender": lambda key: key.sender,
    "site": lambda key: key.site,
}
"""What delays are told by."""

SHARES: Final = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}

_RANK: Final = {level.name: rank for rank, level in enumerate(LEVELS)}


def as_json(found: Figures) -> dict[str, Any]:
    """All figures for scripts; docs/spark.md has the fields."""
    return {
        "logs": found.logs,
        "seconds": round(found.seconds, 3),
        "messages": found.messages,
        "delays": delay_tables(found),
        "backwards": found.backwards,
        "losses": [loss._asdict() for loss in found.losses],
        "views": [view.told for view in found.views],
    }


def grouped_delays(found: Figures, by: str) -> dict[str, Counter[int]]:
    """Delays by one of BY; levels in their order, others by their count."""
    groups: dict[str, list[Counts]] = {}
    for key, counts in found.delays.items():
        groups.setdefault(BY[by](key), []).append(counts)
    merged = {name: merge(parts) for name, parts in groups.items()}
    if by == "level":
        return dict(sorted(merged.items(), key=lambda item: _RANK[item[0]]))
    return dict(sorted(merged.items(), key=lambda item: (-item[1].total(), item[0])))


def delay_tables(found: Figures) -> dict[str, list[dict[str, Any]]]:
    """Of each of BY its rows: name, count, and percentiles in milliseconds."""
    return {
        by: [
            {"name": name, "count": sum(counts.values()), **_percentiles(counts)}
            for name, counts in grouped_delays(found, by).items()
        ]
        for by in BY
    }


def _percentiles(counts: Counts) -> dict[str, float | None]:
    found = {name: percentile_ms(counts, share) for name, share in SHARES.items()}
    return {name: None if value is None else round(value, 3) for name, value in found.items()}
