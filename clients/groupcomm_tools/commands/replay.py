"""`groupcomm replay`: send recorded messages again, in their order."""

import argparse
import json
from typing import TYPE_CHECKING, Final

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import LEVEL_NAMES, existing_folder, level_name, one_or_more
from groupcomm.level import ServiceLevel
from groupcomm.names import check_destination
from groupcomm_tools.commands.connecting import connect_trio
from groupcomm_tools.commands.log import FROM_HELP, Damages, batches_from
from groupcomm_tools.commands.options import add_connection_options, need_pyarrow
from groupcomm_tools.stopping import run_tasks
from groupcomm_tools.terminal import say

if TYPE_CHECKING:
    from groupcomm_tools.recording.replay import Replay

EXAMPLE: Final = "groupcomm replay chat-log --from @2026-01-31T12:00 --rate 2x --to test"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("folder", type=existing_folder, metavar="DIR", help="folder of the log")
    parser.add_argument("--from", dest="start", default="begin", metavar="WHERE", help=FROM_HELP)
    parser.add_argument(
        "--rate", default="1x", help="1x is the recorded pace, 2x twice as fast, or max (1x)"
    )
    parser.add_argument("--to", metavar="GROUP", help="destination instead of the recorded groups")
    parser.add_argument(
        "--level",
        type=level_name,
        choices=LEVEL_NAMES,
        help="level instead of the recorded ones; fifo keeps the order",
    )
    parser.add_argument("--count", type=one_or_more, metavar="N", help="end after N messages")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Send all messages; return 0 once the daemon has accepted them, 1 if the log was damaged."""
    need_pyarrow("reads logs")
    from groupcomm_tools.recording.replay import Replay  # noqa: PLC0415 - an extra

    damages = Damages()
    replay = Replay(
        batches_from(options, damages),
        speed=parse_rate(options.rate),
        to=None if options.to is None else check_destination(options.to),
        level=None if options.level is None else ServiceLevel[options.level.upper()],
        count=options.count,
    )
    run_tasks(_run, options, replay)
    if options.json:
        print(json.dumps({"sent": replay.sent, "gaps": replay.gaps, "left_out": replay.left_out}))
    else:
        say(f"{replay.sent} messages sent, {replay.gaps} gaps passed over")
        if replay.left_out:
            say(f"{replay.left_out} private messages left out; --to sends them to a group")
    return 1 if damages.found else 0


def parse_rate(text: str) -> float | None:
    """Return the speed in multiples of the recorded pace; None for as fast as possible.

    Raises:
        ConfigError: the text names no speed.
    """
    if text == "max":
        return None
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise ConfigError(f"--rate {text}: it must be max, or a number above 0 such as 2x")
    return speed


async def _run(options: argparse.Namespace, replay: "Replay") -> None:
    async with connect_trio(options) as connection:
        await replay.run(connection)
