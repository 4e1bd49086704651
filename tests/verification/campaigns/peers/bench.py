"""Other systems and ours under the same load, in turn.

    python -m tests.verification.campaigns peers.bench --rounds 3 --only nats

Prints medians and ratios. It is passed if ours was measured and each of its messages was
right, whatever happened to the others; `make bench-peers` installs the others as far as it can.
"""

from argparse import Namespace
from typing import Final

from groupcomm.host.option_types import duration, whole_number
from groupcomm_tools.bench.figures import machine
from tests.verification.campaigns.peers.rounds import (
    Results,
    arrangements,
    measure_all,
)
from tests.verification.campaigns.peers.table import OURS, as_object, text
from tests.verification.campaigns.runner import Found, campaign, option

FAMILIES: Final = ("spread", "corosync", "nats", "redis", "zmq")


def ours_is_right(results: Results) -> bool:
    """Return whether ours was measured, and every message came in order."""
    ours = [
        figures
        for (_, name), rounds in results.figures.items()
        if name.startswith(OURS)
        for figures in rounds
    ]
    if any(name.startswith(OURS) for name in results.failed):
        return False
    return bool(ours) and all(figures.is_right for figures in ours)


@campaign(
    option("rounds", 3, type=whole_number(1)),
    option("duration_s", 2.0, "of one; the load lasts half as long before it", type=duration),
    option("only", FAMILIES, "ours and bare relays are always measured", choices=FAMILIES),
)
async def run(options: Namespace) -> Found:
    """Measure all, and print the tables."""
    found = arrangements(options.duration_s, options.only)
    results = await measure_all(found, options.rounds)
    print(f"{machine()}; {options.rounds} rounds of {options.duration_s:g} s, medians\n")
    print(text(found, results))
    wrong = [] if ours_is_right(results) else ["ours was not measured, or its messages were wrong"]
    return {"machine": machine(), **as_object(found, results), "violations": wrong}
