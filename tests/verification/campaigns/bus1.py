"""bus1 with real threads for as long as you like: order, causality, and the delays of messages.

python -m tests.verification.campaigns.bus1 --seconds 60 --producers 8 --receivers 4
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from tests.groupcomm_lessons.algorithms.bus_threads import Recorded, Stress, switching


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; return its exit status, 1 for a fault."""
    parser = argparse.ArgumentParser(prog="tests.verification.campaigns.bus1", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, metavar="S", help="(10)")
    parser.add_argument("--producers", type=int, default=8, metavar="N", help="threads (8)")
    parser.add_argument("--receivers", type=int, default=4, metavar="N", help="threads (4)")
    parser.add_argument("--messages", type=int, default=200, metavar="N", help="of each (200)")
    parser.add_argument(
        "--pause-ms", type=float, default=0, metavar="MS", help="of a producer, on average (0)"
    )
    parser.add_argument("--given-up", type=float, default=0.1, metavar="PART", help="(0.1)")
    parser.add_argument(
        "--switch-us", type=float, default=5000, metavar="US", help="of the interpreter (5000)"
    )
    options = parser.parse_args(arguments)
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
    print(json.dumps(_summary(found)))
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults else 0


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


if __name__ == "__main__":
    sys.exit(main())
