"""Other systems and ours under the same load, in turn.

    python -m tests.verification.campaigns.peers.bench --rounds 3 --only nats --json figures.json

Prints medians and ratios. Ends with status 0 if ours was measured and each of its messages was
right, whatever happened to the others; `make bench-peers` installs the others as far as it can.
"""

import argparse
import json
import math
import signal
import sys
from pathlib import Path
from typing import Final

import trio

from groupcomm_tools.bench.figures import machine
from tests.verification.campaigns.peers.rounds import (
    Arrangement,
    Results,
    arrangements,
    measure_all,
)
from tests.verification.campaigns.peers.table import OURS, as_object, text

FAMILIES: Final = ("spread", "corosync", "nats", "redis", "zmq")


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Measure other systems and ours under the same load, in turn.",
        epilog="example: python -m tests.verification.campaigns.peers.bench --rounds 5 --only nats",
    )
    parser.add_argument("--rounds", type=_rounds, default=3, metavar="N", help="(3)")
    parser.add_argument(
        "--duration-s",
        type=_seconds,
        default=2.0,
        metavar="S",
        help="of one measurement (2); the load lasts half as long before it",
    )
    parser.add_argument(
        "--only",
        type=_families,
        default=list(FAMILIES),
        metavar="NAMES",
        help=f"of {','.join(FAMILIES)}; ours and bare relays are always measured",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, too")
    return parser.parse_args(arguments)


def _families(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in FAMILIES:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(FAMILIES)}")
    return names


def _rounds(text: str) -> int:
    if (count := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 at least")
    return count


def _seconds(text: str) -> float:
    if not 0 < (seconds := float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return seconds


def run(found: list[Arrangement], options: argparse.Namespace) -> int:
    """Measure, print, and say whether ours was right."""
    results = trio.run(measure_all, found, options.rounds)
    print(f"{machine()}; {options.rounds} rounds of {options.duration_s:g} s, medians")
    print()
    print(text(found, results))
    if options.json:
        shape = {"machine": machine(), "rounds": options.rounds, **as_object(found, results)}
        options.json.write_text(json.dumps(shape, indent=1) + "\n")
    return 0 if ours_is_right(results) else 1


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


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # ends all, too
    status = 130
    try:
        status = run(arrangements(options.duration_s, options.only), options)
    except* KeyboardInterrupt:
        print("interrupted; everything that was started has been stopped", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
