"""`groupcomm check`: the checkers verify recorded traces."""

import argparse
import json
import time
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import existing_path
from groupcomm.sim.check import CheckResult
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.check import check_events
from groupcomm_tools.terminal import say
from groupcomm_tools.traces.files import trace_events
from groupcomm_tools.traces.text import readable

EXAMPLE: Final = "groupcomm check trace.jsonl"

SHOWN_VIOLATIONS = 10


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "traces",
        nargs="+",
        type=existing_path,
        metavar="TRACE",
        help="JSON lines, as simulate writes them; or a folder of traces that daemons and programs"
        " of one host have written, which are checked together",
    )
    parser.add_argument(
        "--orders",
        default="fifo,causal",
        metavar="ORDER,...",
        help="that steps of algorithms must have kept: fifo, causal, total, or none (fifo,causal)",
    )
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")


def run(options: argparse.Namespace) -> int:
    """Check all traces; return 0 if every property holds in each of them."""
    started = time.monotonic()
    orders = _orders(options.orders)
    results = []
    for path in options.traces:
        result = check_events(str(path), trace_events(path), orders)
        results.append(result)
        _show(result)
    _show_totals(results, time.monotonic() - started, options.json)
    return 0 if all(result.holds for result in results) else 1


def _orders(text: str) -> set[Order]:
    """Return the orders that the command line names.

    Raises:
        ConfigError: there is no such order.
    """
    names = [name for name in text.split(",") if name and name != "none"]
    known = {order.value: order for order in Order}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"--orders has {name!r}, which is no order; write some of {', '.join(known)}, or"
                " none"
            )
    return {known[name] for name in names}


def _show(result: CheckResult) -> None:
    for violation in result.violations[:SHOWN_VIOLATIONS]:
        say(f"{result.name} violates {violation}")
        for event in violation.events:
            say(f"  {readable(event)}")
    hidden = len(result.violations) - SHOWN_VIOLATIONS
    if hidden > 0:
        say(f"{result.name}: {hidden} more violations")
    if not result.complete:
        say(
            f"{result.name}: the trace does not end with quiet, so missing deliveries were not"
            " checked"
        )


def _show_totals(results: list[CheckResult], wall_s: float, as_json: bool) -> None:
    events = sum(result.events for result in results)
    violations = sum(len(result.violations) for result in results)
    if as_json:
        figures = {
            "traces": len(results),
            "events": events,
            "violations": violations,
            "properties": sorted({v.property for result in results for v in result.violations}),
            "complete": all(result.complete for result in results),
            "wall_s": round(wall_s, 3),
            "events_per_s": round(events / wall_s) if wall_s else 0,
        }
        print(json.dumps(figures))
    else:
        print(f"{len(results)} traces, {events} events, {violations} violations")
