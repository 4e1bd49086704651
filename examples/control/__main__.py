"""An estimator and a controller hold a pole upright over a group, through a network with faults."""

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from examples.common.command import new_parser, run
from examples.control.sweep import Sweep, as_json, as_svg, as_text
from groupcomm.errors import ConfigError
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_tools.pages.line_chart import page

EPILOG = """\
example: python -m examples.control --levels unreliable,agreed --losses 0,0.05,0.2
exit status: 0 done, 1 failed, 2 usage, 130 stopped"""

ALL_LEVELS = ",".join(level.name.lower() for level in LEVELS)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser with all options."""
    parser = new_parser("control", __doc__, EPILOG)
    add = parser.add_argument
    add("--levels", default=ALL_LEVELS, metavar="L,...", help="service levels (all six)")
    add("--losses", default="0,0.05,0.2", metavar="P,...", help="of datagrams (0,0.05,0.2)")
    add("--delays-ms", default="0,10,40", metavar="D,...", help="one way (0,10,40)")
    add("--seconds", type=float, default=6.0, metavar="S", help="of each loop (6)")
    add(
        "--rounds",
        type=int,
        default=1,
        metavar="N",
        help="number of runs, of which medians are shown (1)",
    )
    add("--json", action="store_true", help="one line of JSON instead of the table")
    add("--chart", type=Path, metavar="FILE", help="write a picture (.svg) or a page (.html)")
    return parser


def sweep_of(options: argparse.Namespace) -> Sweep:
    """Return the sweep that the options describe.

    Raises:
        ConfigError: an option is out of its range.
    """
    for name in ("seconds", "rounds"):
        if getattr(options, name) <= 0:
            raise ConfigError(f"--{name} is {getattr(options, name)}; it must be above 0")
    losses = numbers("--losses", options.losses)
    if any(loss > 1 for loss in losses):
        raise ConfigError(f"--losses is {options.losses}; each must be 0 to 1")
    return Sweep(
        delays_ms=numbers("--delays-ms", options.delays_ms),
        losses=losses,
        levels=[level_of(name) for name in options.levels.split(",")],
        seconds=options.seconds,
    )


def numbers(name: str, text: str) -> list[float]:
    """Return the numbers, from 0 on, of a list with commas."""
    try:
        found = [float(each) for each in text.split(",")]
    except ValueError:
        raise ConfigError(f"{name} is {text!r}; write numbers with commas between them") from None
    if any(not 0 <= each < float("inf") for each in found):
        raise ConfigError(f"{name} is {text}; each must be at least 0")
    return found


def level_of(name: str) -> ServiceLevel:
    """Return the level of a name."""
    try:
        return ServiceLevel[name.upper()]
    except KeyError:
        raise ConfigError(f"no level is named {name!r}; there are: {ALL_LEVELS}") from None


async def command(options: argparse.Namespace) -> int:
    """Run the sweep, and print its results."""
    sweep = sweep_of(options)
    for number in range(options.rounds):
        await sweep.round(seed=number)
        print(f"round {number + 1} of {options.rounds} is over", file=sys.stderr, flush=True)
    found = sweep.medians
    if options.chart is not None:
        svg = as_svg(found)
        as_page = options.chart.suffix != ".svg"
        options.chart.write_text(
            page("A loop over a group", svg, as_text(found)) if as_page else svg
        )
    print(json.dumps(as_json(found)) if options.json else as_text(found), flush=True)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return its exit status."""
    options = make_parser().parse_args(arguments)
    return run("control", partial(command, options))


if __name__ == "__main__":
    sys.exit(main())
