"""`groupcomm story`: show a simulated cluster, step by step."""

import argparse
import sys
import time
from typing import Final

from groupcomm_lessons.story import NarratedRun

EXAMPLE: Final = "groupcomm story --seed 3"

READING_S = 0.06
"""Pause in seconds after each line on a terminal, so that it can be read."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of the run (default: 1)"
    )


def run(options: argparse.Namespace) -> int:
    """Play the scenario; return 0 if it ends well."""
    pause = READING_S if sys.stdout.isatty() else 0.0

    def tell(line: str) -> None:
        print(line, flush=pause > 0)
        time.sleep(pause)

    return 0 if NarratedRun(options.seed, tell).play() else 1
