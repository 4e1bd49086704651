"""The message table of an autonomous vehicle as a load: real daemons, real programs, figures."""

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from examples.common.command import new_parser, run
from examples.common.stage import Network
from examples.vehicle.report import as_json, as_page, as_text, source_table
from examples.vehicle.runs import Setup, run_once
from examples.vehicle.table import PIECE, TRAJECTORY
from groupcomm.errors import ConfigError
from groupcomm.level import ServiceLevel
from groupcomm_tools.recording.recorder_process import recorded

EPILOG = """\
example: python -m examples.vehicle --daemons 3 --loss 0.01 --delay-ms 1 --chart vehicle.html
exit status: 0 done; 1 failed, or something that must not be lost was; 2 usage; 130 stopped"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser with all options."""
    parser = new_parser("vehicle", __doc__, EPILOG)
    add = parser.add_argument
    add("--seconds", type=float, default=10.0, metavar="S", help="that count (10)")
    add("--daemons", type=int, default=1, metavar="N", help="modules in turn at each (1)")
    add("--loss", type=float, default=0.0, metavar="P", help="of datagrams between daemons (0)")
    add("--delay-ms", type=float, default=0.0, metavar="D", help="between daemons, one way (0)")
    add("--packet-bytes", type=int, default=1340, metavar="B", help="of a datagram (1340)")
    add("--seed", type=int, default=1, metavar="N", help="of what is lost (1)")
    add("--cameras", type=int, default=0, metavar="N", help="18.4 MB/s each, 0 to 5 (0)")
    add("--scale", type=float, default=1.0, metavar="F", help="factor of all rates (1)")
    add("--only", default="", metavar="KIND,...", help="no other kinds of messages")
    add("--level", action="append", default=[], metavar="KIND=LEVEL", help="not the table's")
    add("--pack", type=int, default=1, metavar="N", help="small messages sent together (1)")
    add("--one-by-one", action="store_true", help="these N by a call each, not by one for all")
    add("--piece", type=int, default=PIECE, metavar="N", help="tiles of a piece of the map (32)")
    add("--actuator-receivers", type=int, default=3, metavar="N", help="the source has 3? (3)")
    add(
        "--trajectory-bytes",
        nargs=2,
        type=int,
        default=(TRAJECTORY.least, TRAJECTORY.most),
        metavar=("LEAST", "MOST"),
        help=f"the source has ??? ({TRAJECTORY.least} {TRAJECTORY.most})",
    )
    add("--image-receivers", type=int, default=5, metavar="N", help="of each camera (5)")
    add("--elevation-receivers", type=int, default=0, metavar="N", help="not transmitted (0)")
    add("--table", action="store_true", help="print the source's table, and run nothing")
    add("--record", type=Path, metavar="DIR", help="a log of what is delivered at each daemon")
    add("--json", action="store_true", help="one line of JSON instead of the table")
    add("--chart", type=Path, metavar="FILE.html", help="write a page with charts, too")
    return parser


def setup_of(options: argparse.Namespace) -> Setup:
    """Return the setup that the options describe.

    Raises:
        ConfigError: an option is out of its range.
    """
    if options.seconds <= 0:
        raise ConfigError(f"--seconds is {options.seconds:g}; it must be above 0")
    load = {
        "only": [name for name in options.only.split(",") if name],
        "cameras": options.cameras,
        "scale": options.scale,
        "levels": dict(level_of(text) for text in options.level),
        "pack": options.pack,
        "one_by_one": options.one_by_one,
        "piece": options.piece,
        "reading": {
            "actuator_receivers": options.actuator_receivers,
            "trajectory_bytes": list(options.trajectory_bytes),
            "image_receivers": options.image_receivers,
            "elevation_receivers": options.elevation_receivers,
        },
    }
    network = Network(
        loss=options.loss,
        delay_s=options.delay_ms / 1000,
        packet_bytes=options.packet_bytes,
        seed=options.seed,
    )
    return Setup(
        daemons=options.daemons,
        network=network,
        seconds=options.seconds,
        load=load,
        beside=None if options.record is None else partial(recorded, folder=options.record),
    )


def level_of(text: str) -> tuple[str, ServiceLevel]:
    """Return the kind and the level of KIND=LEVEL."""
    kind, _, level = text.partition("=")
    try:
        return kind, ServiceLevel[level.upper()]
    except KeyError:
        names = ", ".join(each.name.lower() for each in ServiceLevel)
        raise ConfigError(f"--level is {text!r}; write KIND=LEVEL, one of {names}") from None


async def command(options: argparse.Namespace) -> int:
    """Run the vehicle and print its figures; return 1 if a message was lost that must not be."""
    if options.table:
        print("\n".join(source_table()))
        return 0
    result = await run_once(setup_of(options))
    if options.chart is not None:
        options.chart.write_text(as_page(result))
    print(json.dumps(as_json(result)) if options.json else as_text(result), flush=True)
    lost = [
        row.kind.name
        for row in result.rows
        if row.kind.level is not ServiceLevel.UNRELIABLE and row.all.loss
    ]
    if lost:
        print(f"vehicle: lost at a level that loses nothing: {', '.join(lost)}", file=sys.stderr)
    return 1 if lost or result.maps_equal is False else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return its exit status."""
    options = make_parser().parse_args(arguments)
    return run("vehicle", partial(command, options))


if __name__ == "__main__":
    sys.exit(main())
