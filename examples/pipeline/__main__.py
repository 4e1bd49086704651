"""The pipeline on Spark: the demo and the vehicle are recorded, watched, verified and reported."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from examples.common.command import new_parser, run
from examples.pipeline.stages import play_demo, play_vehicle, report, say, tell_members, verify

EPILOG = """\
example: python -m examples.pipeline --to build/spark
exit status: 0 all promises were kept; 1 one was not, or something failed; 2 usage; 130 stopped"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser with all options."""
    parser = new_parser("pipeline", __doc__, EPILOG)
    add = parser.add_argument
    add("--to", type=Path, default=Path("build/spark"), metavar="DIR", help="(build/spark)")
    add("--seconds", type=float, default=20.0, metavar="S", help="that the vehicle runs (20)")
    add("--loss", type=float, default=0.05, metavar="P", help="of its datagrams are lost (0.05)")
    return parser


async def play(options: argparse.Namespace) -> int:
    """Make the traffic, and record it."""
    folder: Path = options.to
    say("the demo: three daemons, one is killed; recorded at the two others")
    await play_demo(folder / "demo")
    say(f"the vehicle, {options.seconds:g} s, {options.loss:.0%} of its datagrams lost: recorded,")
    say("and watched while it runs (Spark takes a moment to start)")
    heard = await play_vehicle(folder / "vehicle", seconds=options.seconds, loss=options.loss)
    for kind in sorted({(alarm["alarm"], alarm["kind"]) for alarm in heard}):
        count = sum((alarm["alarm"], alarm["kind"]) == kind for alarm in heard)
        say(f"heard from the group of alarms: {kind[0]} of {kind[1]}, {count} times")
    return 0


async def look(options: argparse.Namespace) -> int:
    """Verify the recorded logs, and report on them."""
    for name, more in (("demo", ()), ("vehicle", ("--sent-at", "4"))):
        logs = [options.to / name / daemon for daemon in ("alfa", "bravo")]
        say(f"{name}: did every level keep its promise?")
        verify(*logs)
        say(f"{name}: who was a member when?")
        tell_members(logs[0])
        say(f"{name}: what happened?")
        report(options.to / f"{name}.html", *map(str, logs), *more)
    say(f"look at {options.to / 'vehicle.html'} and {options.to / 'demo.html'}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return its exit status."""
    options = make_parser().parse_args(arguments)
    name = "pipeline"
    for folder in (options.to / "demo", options.to / "vehicle"):
        if folder.exists():
            shutil.rmtree(folder)  # the folder of an earlier run, which must not be continued
    options.to.mkdir(parents=True, exist_ok=True)
    return run(name, partial(play, options)) or run(name, partial(look, options))


if __name__ == "__main__":
    sys.exit(main())
