"""`make performance`: measure every figure of the pages on performance, and write them.

    python -m tests.verification.campaigns performance --rounds 3
    python -m tests.verification.campaigns performance --only levels total --rounds 5
    python -m tests.verification.campaigns performance --render  # pages and pictures from the file

Writes docs/performance.json, the generated blocks of the pages, and docs/figures. A run that is
stopped goes on where it was, if it is started again with the same options within an hour. Exit
status 1 if messages were wrong, or groupcomm could not be measured.
"""

import contextlib
from argparse import Namespace
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
from tests.verification.campaigns.runner import Found, campaign, option

FIGURES_FOLDER: Final = pages.DOCS / "figures"
NAMES: Final = tuple(part.name for part in parts_of(1.0))


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


def measure(parts: Sequence[Part], options: Namespace) -> Found:
    """Measure these parts and write their figures; return what is wrong."""
    session = Session(parts=parts, rounds=options.rounds, duration_s=options.duration_s)
    if options.anew:
        session.end()
    if kept := session.resume():
        tell(f"going on with a run that was stopped: {kept} results are there already")
    trio.run(session.run)
    write(session.recorded(records.read()))
    session.end()
    for (part, system), why in session.failed.items():
        tell(f"{part}: {system} was not measured; its older figures stay: {why}")
    wrong = [*session.wrong]
    wrong += [f"{system} was not measured" for _, system in session.failed if OURS in system]
    return {"not_measured": [system for _, system in session.failed], "violations": wrong}


@campaign(
    option("rounds", 3, type=whole_number(1)),
    option("duration_s", 0.6, "of one; the load lasts half as long before it", type=duration),
    option("only", NAMES, choices=NAMES),
    option("anew", False, "forget a run that was stopped"),
    option("render", False, "measure nothing; pages and pictures from the file"),
)
def run(options: Namespace) -> Found:
    """Measure and write, or only write; what is stopped goes on with the same command."""
    if options.render:
        write(records.read())
        return {"violations": []}
    parts = [part for part in parts_of(options.duration_s) if part.name in options.only]
    return measure(parts, options)
