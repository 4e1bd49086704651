"""`make campaigns`: each row, one line of JSON with its figures and its bars.

    python -m tests.verification.campaigns.bounds                  # the bars are for this scale
    python -m tests.verification.campaigns.bounds --rows joins churn --rounds 3
    python -m tests.verification.campaigns.bounds --scale 0.02     # a quick try

Exit status 1 if the median of a figure is above its bar.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import trio

from tests.verification.campaigns.bounds.rows import ROWS, measure


def missed(rounds: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence for each bar that the median of the rounds of a row misses."""
    bars = rounds[0]["bars"]
    medians = {name: statistics.median(each["bars"][name][0] for each in rounds) for name in bars}
    return [
        f"{rounds[0]['row']}: {name} is {medians[name]:g}: above {most:g}"
        for name, (_, most) in bars.items()
        if medians[name] > most
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each run; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.verification.campaigns.bounds", description=__doc__
    )
    parser.add_argument("--rows", nargs="+", choices=tuple(ROWS), default=tuple(ROWS))
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers and times (1)")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args(arguments)
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        for row in options.rows:  # in turn: other work on the machine affects all of them
            found.setdefault(row, []).append(trio.run(measure, row, options.scale))
            print(json.dumps(found[row][-1]), flush=True)
    texts = [text for rounds in found.values() for text in missed(rounds)]
    print("\n".join(texts), file=sys.stderr)
    return 1 if texts else 0


if __name__ == "__main__":
    sys.exit(main())
