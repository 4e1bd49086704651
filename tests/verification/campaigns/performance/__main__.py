"""`make performance`: measure every figure of the pages on performance, and write them.

    python -m tests.verification.campaigns.performance --rounds 3
    python -m tests.verification.campaigns.performance --only levels,total --rounds 5
    python -m tests.verification.campaigns.performance --render  # pages and pictures from the file

Writes docs/performance.json, the generated blocks of the pages, and docs/figures. A run that is
stopped goes on where it was, if it is started again with the same options within an hour. Exit
status 1 if messages were wrong, or groupcomm could not be measured.
"""

import argparse
import contextlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from groupcomm.host.option_types import duration, whole_number
from tests.verification.campaigns.performance import pages, records
from tests.verification.campaigns.performance.blocks import blocks
from tests.verification.campaigns.performance.figures import FIGURES, picture
from tests.verification.campaigns.performance.measuring import Session, tell
from tests.verification.campaigns.performance.parts import OURS, Part, parts_of
from tests.verification.campaigns.performance.records import Data, NotMeasured

FIGURES_FOLDER: Final = pages.DOCS / "figures"
STOPPED: Final = 130


def render(data: Data) -> dict[Path, str]:
    """Return the text of every page and picture for these figures, by path."""
    found = {}
    for name in pages.PAGES:
        path = pages.DOCS / name
        found[path] = pages.fill(path.read_text(), blocks(data))
    for name, chart in FIGURES.items():
        with contextlib.suppress(NotMeasured):
            found[FIGURES_FOLDER / f"{name}.svg"] = picture(chart(data))
    return found


def write(data: Data) -> None:
    """Write the file of figures, the pages and the pictures."""
    FIGURES_FOLDER.mkdir(exist_ok=True)
    records.write(data)
    for path, text in render(records.read()).items():
        path.write_text(text)


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    names = [part.name for part in parts_of(1.0)]

    def parts(text: str) -> list[str]:
        for name in text.split(","):
            if name not in names:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(names)}")
        return text.split(",")

    parser = argparse.ArgumentParser(
        prog="python -m tests.verification.campaigns.performance",
        description="measure the figures of the pages on performance, and write them",
        epilog="example: python -m tests.verification.campaigns.performance --only levels",
    )
    parser.add_argument("--rounds", type=whole_number(1), default=3, metavar="N", help="(3)")
    parser.add_argument(
        "--duration-s",
        type=duration,
        default=0.6,
        metavar="S",
        help="of one measurement (0.6); the load lasts half as long before it",
    )
    parser.add_argument(
        "--only", type=parts, default=names, metavar="PARTS", help=f"of {','.join(names)}"
    )
    parser.add_argument("--anew", action="store_true", help="forget a run that was stopped")
    parser.add_argument(
        "--render", action="store_true", help="measure nothing; pages and pictures from the file"
    )
    return parser.parse_args(arguments)


def measure(parts: Sequence[Part], options: argparse.Namespace) -> int:
    """Measure these parts and write their figures; return the exit status."""
    session = Session(parts=parts, rounds=options.rounds, duration_s=options.duration_s)
    if options.anew:
        session.end()
    if kept := session.resume():
        tell(f"going on with a run that was stopped: {kept} results are there already")
    trio.run(session.run)
    write(session.recorded(records.read()))
    session.end()
    for each in session.wrong:
        tell(f"WRONG: {each}")
    for (part, system), why in session.failed.items():
        tell(f"{part}: {system} was not measured; its older figures stay: {why}")
    ours = any(OURS in system for _, system in session.failed)
    return int(bool(session.wrong) or ours)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; return the exit status."""
    options = options_of(arguments)
    if options.render:
        write(records.read())
        return 0
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # ends all, too
    status = STOPPED
    try:
        parts = [part for part in parts_of(options.duration_s) if part.name in options.only]
        status = measure(parts, options)
    except* KeyboardInterrupt:
        tell("stopped; the same command goes on where it was")
    return status


if __name__ == "__main__":
    sys.exit(main())
