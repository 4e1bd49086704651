"""The number of events that the checkers check in a second: the first 10^5, and all of 10^6.

    python tests/groupcomm/sim/bench_checkers.py

A generated history of 5 daemons in 2 rings is checked slice by slice, as a simulation would do it,
and forgotten at once; only the checking is timed, in time of the processor.
"""

import gc
import time
from collections.abc import Iterator

from groupcomm.sim.checkers import Checkers
from groupcomm.trace.events import TraceEvent
from tests.verification.generators import History

SIZES = (100_000, 1_000_000)


def slices(events: int) -> Iterator[list[TraceEvent]]:
    """Yield a history of about this many events, some thousands at a time."""
    history = History(1, daemons=5, rings=2, clients=10)
    made = 0
    while made < events:
        history.play(20)
        yield history.log.events
        made += len(history.log.events)
        history.log.events.clear()
    history.settle()
    yield history.log.events


def measure(events: int) -> tuple[int, float]:
    """Return the number of checked events, and the processor seconds that they took."""
    checkers, checked, took = Checkers(), 0, 0.0
    feed = checkers.feed
    for part in slices(events):
        started = time.process_time()
        for event in part:
            feed(event)
        took += time.process_time() - started
        checked += len(part)
    started = time.process_time()
    checkers.finish()
    took += time.process_time() - started
    assert not checkers.violations, checkers.violations
    return checked, took


def main() -> None:
    """Print one line for each size."""
    for size in SIZES:
        gc.collect()
        checked, took = min((measure(size) for _ in range(3)), key=lambda result: result[1])
        each = took / checked
        print(f"{checked:9,} events: {1 / each:9,.0f} events/s, {each * 1e6:.2f} us an event")


if __name__ == "__main__":
    main()
