"""bus1 with real threads for as long as you like: order, causality, and the delays of messages.

python -m tests.verification.campaigns bus1 --seconds 60 --producers 8 --receivers 4
"""

import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from tests.groupcomm_lessons.algorithms.bus_threads import Recorded, Stress, switching
from tests.verification.campaigns.runner import Found, campaign, option


def figures_of(run: Recorded) -> dict[str, Any]:
    """Return the times of sendings, and the times from a sending to its receipt."""
    durations = sorted(run.durations_s())
    delays = sorted(run.delays_s())
    return {
        "messages": len(durations),
        "sending_us": _percentiles(durations),
        "to_receipt_us": _percentiles(delays),
    }


def _percentiles(values: Sequence[float]) -> list[int]:
    """Median, 99th percentile and maximum, in microseconds."""
    chosen = values[len(values) // 2], values[len(values) * 99 // 100], values[-1]
    return [round(value * 1e6) for value in chosen]


def _summary(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return medians over the runs of each figure; of the maxima the highest, too."""
    told: dict[str, Any] = {
        "runs": len(found),
        "messages": sum(figures["messages"] for figures in found),
        "one_lock_for_all": getattr(sys, "_is_gil_enabled", lambda: True)(),
    }
    for key in ("sending_us", "to_receipt_us"):
        columns = zip(*(figures[key] for figures in found), strict=True)
        median, high, most = (statistics.median(column) for column in columns)
        worst = max(figures[key][2] for figures in found)
        told[key] = {"median": median, "p99": high, "max": most, "worst": worst}
    return told


@campaign(
    option("seconds", 10.0),
    option("producers", 8, "threads"),
    option("receivers", 4, "threads"),
    option("messages", 200, "of each producer"),
    option("pause_ms", 0.0, "of a producer, on average"),
    option("given_up", 0.1, "part of the messages"),
    option("switch_us", 5000.0, "of the interpreter"),
)
def play(options: Namespace) -> Found:
    """Run until the time is over, at least once; return figures and faults of all runs."""
    ends, faults = time.monotonic() + options.seconds, list[str]()
    found: list[dict[str, Any]] = []
    with switching(options.switch_us / 1e6):
        while not found or time.monotonic() < ends:
            stress = Stress(
                options.producers,
                options.receivers,
                options.messages,
                seed=len(found),
                given_up=options.given_up,
                pause_s=options.pause_ms / 1000,
            )
            run = stress.play()
            faults += [f"seed {len(found)}: {fault}" for fault in run.faults()]
            found.append(figures_of(run))
    return {**_summary(found), "violations": faults}
