"""Explore every order of what can happen to a small cluster, and faults among it.

python -m tests.verification.explore start-2 --deviations 1
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import natural, one_or_more, positive
from groupcomm.host.parser import Parser
from groupcomm_tools.terminal import say
from groupcomm_tools.traces.text import readable
from tests.verification.explore.canonical import TICK
from tests.verification.explore.departures import SearchByDepartures
from tests.verification.explore.scenarios import SCENARIOS, Beginning, begin
from tests.verification.explore.script import read_path, write_path
from tests.verification.explore.search import Finding, Progress, Search
from tests.verification.explore.transitions import KINDS, Bounds

INTERRUPTED: Final = 130


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(prog="python -m tests.verification.explore", description=__doc__)
    lines = "; ".join(f"{name}: {each.sentence}" for name, each in SCENARIOS.items())
    parser.add_argument("scenario", nargs="?", choices=[*SCENARIOS], metavar="NAME", help=lines)
    parser.add_argument(
        "--deviations",
        type=natural,
        default=0,
        metavar="N",
        help="the most deviations of all kinds together (default: 0)",
    )
    parser.add_argument(
        "--kinds",
        default=",".join(KINDS),
        metavar="NAME,...",
        help=f"the kinds of deviations (default: {','.join(KINDS)})",
    )
    parser.add_argument(
        "--within-s",
        type=positive,
        default=0.02,
        metavar="T",
        help="simulated seconds in which deviations happen (default: 0.02)",
    )
    parser.add_argument(
        "--departures",
        type=natural,
        metavar="N",
        help="the most departures from the usual order (default: every order)",
    )
    parser.add_argument(
        "--states",
        type=one_or_more,
        default=10**6,
        metavar="N",
        help="stop after N states (default: 1000000)",
    )
    parser.add_argument(
        "--shuffle",
        type=natural,
        metavar="SEED",
        help="try what can happen in another order: with few --states others are reached",
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="write the path to the first finding there"
    )
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="go along such a path, and tell what happens"
    )
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Explore, or replay; return 0 if nothing is wrong, 1 if something is, 2 after wrong usage."""
    options = make_parser().parse_args(arguments)
    try:
        return _run(options)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    if options.replay is not None:
        return _replay(options.replay)
    if options.scenario is None:
        for name, scenario in SCENARIOS.items():
            print(f"{name:10} {scenario.sentence}")
        return 0
    kinds = [kind for kind in options.kinds.split(",") if kind]
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise ConfigError(f"--kinds: {unknown[0]!r} is none of {', '.join(KINDS)}")
    bounds = Bounds(
        most=dict.fromkeys(kinds, options.deviations),
        in_all=options.deviations,
        within_s=options.within_s,
    )
    began = time.monotonic()
    beginning = begin(SCENARIOS[options.scenario], bounds)
    search: Search | SearchByDepartures
    if options.departures is None:
        search = Search(
            beginning, most_states=options.states, shuffle=options.shuffle, report=_tell
        )
    else:
        search = SearchByDepartures(
            beginning,
            most_departures=options.departures,
            most_states=options.states,
            seed=options.shuffle or 0,
            report=_tell,
        )
    try:
        search.run()
    except KeyboardInterrupt:
        _show(options, search.progress, len(beginning.nodes.states), began)
        return INTERRUPTED
    progress = search.progress
    for finding in progress.findings:
        _show_finding(options, beginning, finding)
    _show(options, progress, len(beginning.nodes.states), began)
    return 1 if progress.findings else 0


def _tell(progress: Progress) -> None:
    say(f"{progress.states} states, {progress.ends} ends, {len(progress.findings)} findings")


def _show_finding(options: argparse.Namespace, beginning: Beginning, finding: Finding) -> None:
    say(f"{finding.property}: {finding.text}")
    comment = f"{finding.property}: {finding.text}"
    text = write_path(beginning, options.scenario, finding.moves, comment)
    if options.save is not None and not options.save.exists():
        options.save.write_text(text)
        say(f"see it again with: python -m tests.verification.explore --replay {options.save}")
    elif options.save is None:
        say(text)


def _show(options: argparse.Namespace, progress: Progress, locals_: int, began: float) -> None:
    figures: dict[str, Any] = {
        "scenario": options.scenario,
        "deviations": options.deviations,
        "departures": options.departures,
        "within_s": options.within_s,
        **attrs.asdict(progress, filter=lambda field, _: field.name != "findings"),
        "daemon_states": locals_,
        "violations": len(progress.findings),
        "wall_s": round(time.monotonic() - began, 1),
    }
    if options.json:
        print(json.dumps(figures))
        return
    whole = "all of them within the bounds" if progress.is_complete else "not all of them"
    print(
        f"{progress.states} states, {whole}; {progress.transitions} moves, {progress.ends} ends,"
        f" {len(progress.findings)} violations"
    )


def _replay(file: Path) -> int:
    try:
        path = read_path(file.read_text())
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    for happened in path.replay():
        print(f"{happened.state.elapsed * TICK:.6f} s  {happened.words}")
        if happened.step is None:
            continue
        for event in happened.step.events:
            print(f"              {readable(event)}")
        if happened.step.error:
            print(f"              {happened.step.error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
