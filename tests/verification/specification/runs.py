"""Runs of the simulator that are also compared with the specification.

    python -m tests.verification.specification.runs --seeds 1:1000

takes the options of `groupcomm simulate`, and does the same.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.sim import run as simulator
from groupcomm.sim.run import RunResult
from groupcomm.sim.settings import Options, Settings
from groupcomm_tools.commands import simulate
from tests.verification.specification.refinement import Refinement

COMMAND: Final = "python -m tests.verification.specification.runs"


def run_seed(
    seed: int, options: Options, write: Callable[[bytes], object] | None = None
) -> RunResult:
    """Run one seed; see the simulator's function of this name."""
    return simulator.run_seed(seed, options, write, Refinement)


def run(settings: Settings, write: Callable[[bytes], object] | None = None) -> RunResult:
    """Run with these settings; see the simulator's function of this name."""
    return simulator.run(settings, write, Refinement)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all seeds; return 0 if every property holds in every run."""
    parser = argparse.ArgumentParser(description=__doc__)
    simulate.add_options(parser)
    try:
        return simulate.run(parser.parse_args(arguments), run_seed, COMMAND)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
