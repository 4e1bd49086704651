"""`groupcomm simulate --topology`: find the costs of sites, links and loads."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import existing_file
from groupcomm.host.toml_file import load_toml
from groupcomm_tools.commands.options import changed_options
from groupcomm_tools.pages.html_page import html
from groupcomm_tools.plan.figures import PlanFigures, figures_of
from groupcomm_tools.plan.measure import PlanFailed, measure
from groupcomm_tools.plan.report import page_of
from groupcomm_tools.plan.tables import (
    cost_table,
    daemon_table,
    delay_table,
    lines_of,
    link_table,
    text_of,
)
from groupcomm_tools.plan.topology import Topology, read_topology, with_daemons, with_sites
from groupcomm_tools.terminal import say

OWN: Final = frozenset({"topology", "grow_sites", "grow_daemons", "output", "json", "seeds"})
"""Options that have a meaning with --topology."""

STOPPED: Final = 130
"""Exit status after ^C while the plan was enlarged."""

Growing = list[tuple[str, list[PlanFigures]]]


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a plan."""
    group = parser.add_argument_group("planning")
    group.add_argument(
        "--topology",
        type=existing_file,
        metavar="FILE",
        help="a plan of sites, links and loads as TOML: show its delays, traffic and cost",
    )
    group.add_argument(
        "--grow-sites",
        type=parse_sizes,
        metavar="N,...",
        help="measure the plan with N sites as well, which are copies of its own",
    )
    group.add_argument(
        "--grow-daemons",
        type=parse_sizes,
        metavar="N,...",
        help="also with N daemons in all, spread evenly over its sites",
    )
    group.add_argument("-o", "--output", type=Path, metavar="FILE", help="write a page with charts")


def parse_sizes(text: str) -> list[int]:
    """Return the numbers of a text such as ``2,4,8``."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not of the form N,N,... as in 2,4,8"
        ) from None


def refuse_without_topology(options: argparse.Namespace) -> None:
    """Refuse options of a plan where there is none.

    Raises:
        ConfigError: one was given; the text names it.
    """
    for name in ("grow_sites", "grow_daemons", "output"):
        if getattr(options, name) is not None:
            raise ConfigError(f"--{name.replace('_', '-')} needs --topology")


def refuse_for_plan(
    options: argparse.Namespace, add_options: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Refuse options of a campaign, which would have no effect on a plan.

    Raises:
        ConfigError: one was given; the text names it.
    """
    for option in changed_options(options, add_options, OWN):
        raise ConfigError(f"{option} is for campaigns; with --topology, set it in FILE")
    if len(options.seeds) > 1:
        raise ConfigError("--topology is one run: give one seed, as in --seeds 7")


def run_plan(options: argparse.Namespace) -> int:
    """Run the plan in all its sizes; return 1 if a load was too much for its cluster.

    Raises:
        ConfigError: the file or a size is invalid.
        PlanFailed: daemons of the plan itself did not come to one view.
        OSError: a file cannot be read or written.
    """
    plan, seed = read_plan(options.topology), options.seeds[0]
    sizes = {
        "sites": [with_sites(plan, count) for count in options.grow_sites or ()],
        "daemons": [with_daemons(plan, count) for count in options.grow_daemons or ()],
    }
    if options.output is not None:
        options.output.touch()  # an error comes now, and not after minutes
    found = figures_of(measure(plan, seed))
    growing: Growing = [(what, []) for what, plans in sizes.items() if plans]
    status = _grow(sizes, growing, seed)
    growing = [(what, done) for what, done in growing if done]
    if options.output is not None:
        facts = (
            f"{options.topology.name}, seed {seed}, groupcomm {version('groupcomm')}",
            f"{plan.duration_s:g} simulated seconds of load; the real protocol in virtual time",
        )
        options.output.write_text(html(page_of(found, growing, facts)), encoding="utf-8")
        say(f"{options.output} contains the page")
    _print_figures(found, growing, as_json=options.json)
    wrong = [each.wrong for each in (found, *(one for _, some in growing for one in some))]
    for each in filter(None, wrong):
        say(f"too much: {each}")
    return status or int(any(wrong))


def _grow(sizes: Mapping[str, Sequence[Topology]], growing: Growing, seed: int) -> int:
    """Measure the enlarged plans, one after the other; keep the results if a later one is stopped.

    Return 0, 1 if a cluster did not come to a view, or the exit status after ^C.
    """
    status = 0
    try:
        for what, done in growing:
            for plan in sizes[what]:
                try:
                    done.append(figures_of(measure(plan, seed)))
                except PlanFailed as error:
                    say(f"too much: {error}")
                    status = 1
                    break  # larger plans would not work either
                say(_summary(done[-1]))
    except KeyboardInterrupt:
        say("stopped; so far:")
        return STOPPED
    return status


def read_plan(path: Path) -> Topology:
    """Return the plan in a file.

    Raises:
        ConfigError: the file is not TOML, or the plan is invalid; the text names the file.
        OSError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return read_topology(load_toml(file))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _summary(figures: PlanFigures) -> str:
    cost = figures.cost
    return (
        f"{cost.sites} sites, {cost.daemons} daemons:"
        f" {text_of(cost.datagrams_per_message)} datagrams a message,"
        f" one view after {text_of(cost.forming_s)} s"
    )


def _print_figures(
    found: PlanFigures, growing: Sequence[tuple[str, list[PlanFigures]]], *, as_json: bool
) -> None:
    if as_json:
        grown = {what: [each.as_json() for each in some] for what, some in growing}
        print(json.dumps({**found.as_json(), "growing": grown}))
        return
    tables = [
        ("Delays from multicast to delivery", delay_table(found)),
        ("Links", link_table(found)),
        ("Daemons", daemon_table(found)),
        ("Cost", cost_table([found])),
        *((f"With more {what}", cost_table(some)) for what, some in growing),
    ]
    for place, (title, table) in enumerate(tables):
        print(f"{'' if place == 0 else chr(10)}{title}")
        for line in lines_of(table):
            print(f"  {line}")
