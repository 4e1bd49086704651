"""Several runs of one plan, and the machine that they ran on, as a script reads them."""

import os
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

import attrs

from groupcomm.level import ServiceLevel
from groupcomm_tools.bench.figures import Figures
from groupcomm_tools.bench.sites import as_json as sites_json

_COUNTS: Final = ("lost", "duplicated", "misordered", "wrong")
_DELAYS: Final = (
    "delay_p50_us",
    "delay_p95_us",
    "delay_p99_us",
    "delay_p999_us",
    "delay_max_us",
)
_FLOOR: Final = {"floor_p50_us": 0.5, "floor_p99_us": 0.99}


def machine() -> str:
    """What it ran on."""
    return (
        f"{os.cpu_count()} processors, {platform.system()} {platform.release()},"
        f" {platform.python_implementation()} {platform.python_version()}, trio {version('trio')}"
    )


def middle_of(rounds: Sequence[Figures]) -> Figures:
    """The round in the middle by its rate."""
    return sorted(rounds, key=lambda figures: figures.msgs_per_s_each)[len(rounds) // 2]


def as_json(rounds: Sequence[Figures]) -> dict[str, Any]:
    """The middle run by its rate; delays are medians, counts of what went wrong are sums."""
    found = attrs.asdict(middle_of(rounds), recurse=False)
    plan = attrs.asdict(found.pop("plan"))
    sites = sites_json(found.pop("by_site"))
    for name in _COUNTS:
        found[name] = sum(getattr(each, name) for each in rounds)
    for name in _DELAYS:
        values = [getattr(each, name) for each in rounds]
        known = [value for value in values if value is not None]
        found[name] = statistics.median(known) if known else None
    rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in found.items()}
    return {
        **plan,
        "level": ServiceLevel(plan["level"]).name,
        "rounds": len(rounds),
        **rounded,
        "by_site": sites,
    }


def floor_json(floors: Sequence[Sequence[float]]) -> dict[str, float]:
    """Quantiles of the delays of bare relays, medians over the rounds; nothing if there were none.

    Args:
        floors: by round, sorted delays in microseconds.
    """
    if not floors:
        return {}
    return {
        name: round(statistics.median(delays[int(part * len(delays))] for delays in floors), 1)
        for name, part in _FLOOR.items()
    }
