"""`make campaigns`: each row, one line of JSON with its figures and its bars.

    python -m tests.verification.campaigns bounds                  # the bars are for this scale
    python -m tests.verification.campaigns bounds --rows joins churn --rounds 3
    python -m tests.verification.campaigns bounds --scale 0.02     # a quick try

Exit status 1 if the median of a figure is above its bar.
"""

import json
import statistics
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from groupcomm_tools.terminal import say
from tests.verification.campaigns.bounds.rows import ROWS, measure
from tests.verification.campaigns.runner import Found, campaign, option


def missed(rounds: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence for each bar that the median of the rounds of a row misses."""
    bars = rounds[0]["bars"]
    medians = {name: statistics.median(each["bars"][name][0] for each in rounds) for name in bars}
    return [
        f"{rounds[0]['row']}: {name} is {medians[name]:g}: above {most:g}"
        for name, (_, most) in bars.items()
        if medians[name] > most
    ]


@campaign(
    option("rows", tuple(ROWS), choices=tuple(ROWS)),
    option("scale", 1.0, "of all numbers and times"),
    option("rounds", 1),
)
async def run(options: Namespace) -> Found:
    """Return each round of each row, and the bars that were missed."""
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        for row in options.rows:  # in turn: other work on the machine affects all of them
            found.setdefault(row, []).append(await measure(row, options.scale))
            say(json.dumps(found[row][-1]))
    return {"rows": found, "violations": [t for rounds in found.values() for t in missed(rounds)]}
