"""`groupcomm bench`: measure message rates, delays, and their cost."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import (
    daemon_address,
    natural,
    not_negative,
    one_or_more,
    positive,
    probability,
)
from groupcomm.host.parser import keep_old_names
from groupcomm_client import connect
from groupcomm_tools.bench.bare import floor_us
from groupcomm_tools.bench.figures import Figures, as_json, floor_json, machine, middle_of
from groupcomm_tools.bench.matrix import Result, chosen, rows_of, run_matrix
from groupcomm_tools.bench.plan import DAEMONS, Plan, members_of
from groupcomm_tools.bench.report import lines_of, page_of
from groupcomm_tools.bench.runs import measure, open_daemons
from groupcomm_tools.commands.options import add_level_option, changed_options, level_of
from groupcomm_tools.pages.html_page import html
from groupcomm_tools.stopping import run_tasks
from groupcomm_tools.terminal import say
from groupcomm_tools.topology import LINK_PACKET_BYTES, MAX_SITES, SHAPES

_OF_LINKS: Final = ("shape", "delay_ms", "jitter_ms", "loss", "bandwidth_mbit", "members_in")


def _add_site_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options for daemons in several sites."""
    group = parser.add_argument_group("several sites, with a relay of this host between them")
    group.add_argument(
        "--sites", type=one_or_more, metavar="N", default=1, help="number of sites (1)"
    )
    group.add_argument(
        "--shape", choices=SHAPES, default="mesh", help="the sites that have links (mesh)"
    )
    group.add_argument(
        "--delay-ms", type=not_negative, metavar="MS", default=0.0, help="delay of one way (0)"
    )
    group.add_argument(
        "--jitter-ms",
        type=not_negative,
        metavar="MS",
        default=0.0,
        help="maximum of additional delay (0)",
    )
    group.add_argument(
        "--loss",
        type=probability,
        metavar="P",
        default=0.0,
        help="share of datagrams lost on each link (0)",
    )
    group.add_argument(
        "--bandwidth-mbit", type=positive, metavar="M", help="bandwidth of each link (unlimited)"
    )
    group.add_argument(
        "--members-in",
        type=natural,
        metavar="N",
        default=0,
        help="programs are in the first N sites only (all)",
    )


def _site_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of a plan that concern sites.

    Raises:
        ConfigError: an option is out of its range, or needs several sites.
    """
    if not 1 <= options.sites <= MAX_SITES:
        raise ConfigError(f"--sites is {options.sites}; it must be 1 to {MAX_SITES}")
    found = {name: getattr(options, name) for name in _OF_LINKS}
    if options.sites == 1:
        for name, value in found.items():
            if value not in (0, None, "mesh"):
                raise ConfigError(f"--{name.replace('_', '-')} is for several sites; see --sites")
    elif options.address or options.floor:
        raise ConfigError("--sites starts daemons of its own: leave out --address and --floor")
    if not 0 <= options.members_in <= options.sites:
        raise ConfigError(f"--members-in is {options.members_in}; it must be 0 to {options.sites}")
    return {"sites": options.sites, "mbit": found.pop("bandwidth_mbit"), **found}


def _print_sites(figures: Figures) -> None:
    """Print the sites, and the figures of each; nothing if there is one site."""
    plan = figures.plan
    if plan.sites == 1:
        return
    print(
        f"{plan.sites} sites, {plan.shape}; links have {plan.delay_ms:g} ms, jitter"
        f" {plan.jitter_ms:g} ms, loss {plan.loss:g},"
        f" {'any bandwidth' if plan.mbit is None else f'{plan.mbit:g} Mbit/s'}"
    )
    for site, seen in figures.by_site.items():
        told = f"  {site:<12} {seen.msgs_per_s_each:,.0f} messages/s"
        if seen.delay_p50_us is not None:
            told += (
                f"; delay p50 {seen.delay_p50_us / 1000:,.2f}, p99"
                f" {(seen.delay_p99_us or 0) / 1000:,.2f}, max"
                f" {(seen.delay_max_us or 0) / 1000:,.2f} ms"
            )
        print(told)


ROUNDS: Final = 3
DURATION_S: Final = 2.0
OUTPUT: Final = Path("bench.html")
MATRIX_OPTIONS: Final = frozenset({"matrix", "rows", "output", "rounds", "duration_s", "json"})
"""Options that have a meaning with --matrix."""


def add_matrix_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the matrix."""
    group = parser.add_argument_group("the whole table")
    group.add_argument(
        "--matrix",
        action="store_true",
        help="run sizes, levels, sockets, encryption and events in turn, and write a page",
    )
    group.add_argument(
        "--rows", metavar="NAME,...", help="run only these rows, as in 'three-*,delay-*'"
    )
    group.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help=f"the page to write ({OUTPUT})"
    )


def refuse_changed(
    options: argparse.Namespace, add_options: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Refuse options of a single run, which would have no effect.

    Raises:
        ConfigError: one was given; the text names it.
    """
    for option in changed_options(options, add_options, MATRIX_OPTIONS):
        raise ConfigError(f"{option} is for a single run; the rows of --matrix have their own")


def refuse_without_matrix(options: argparse.Namespace) -> None:
    """Refuse options of the matrix for a single run.

    Raises:
        ConfigError: one was given; the text names it.
    """
    for name in ("rows", "output"):
        if getattr(options, name) is not None:
            raise ConfigError(f"--{name} needs --matrix")


def run_rows(options: argparse.Namespace) -> int:
    """Run the rows and write the page, after ^C with the results so far; return 1 if a row is
    wrong.

    Raises:
        ConfigError: an option is out of its range.
        OSError: the page cannot be written.
    """
    rounds = ROUNDS if options.rounds is None else options.rounds
    duration_s = DURATION_S if options.duration_s is None else options.duration_s
    rows = rows_of(duration_s)
    if options.rows is not None:
        rows = chosen(rows, options.rows)
    output = OUTPUT if options.output is None else options.output
    output.touch()  # an error comes now, and not after a quarter of an hour
    results = [Result(row=row) for row in rows]
    facts = (
        f"{machine()}, groupcomm {version('groupcomm')}",
        f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}; runs of {duration_s:g} s, {rounds} of"
        " each row, in rounds through all; figures are medians, whiskers show least and most",
    )
    try:
        run_tasks(run_matrix, results, rounds, say)
    finally:
        output.write_text(html(page_of(results, facts)), encoding="utf-8")
        say(f"{output} contains the page")
    _print_matrix(results, facts, as_json=options.json)
    return 0 if all(result.is_right for result in results) else 1


def _print_matrix(results: Sequence[Result], facts: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        rows = [result.as_json(results) for result in results]
        json.dump({"machine": machine(), "rows": rows}, sys.stdout)
        print()
        return
    for line in (*facts, *lines_of(results)):
        print(line)


EXAMPLE: Final = "groupcomm bench --size 1000 --senders 3 --duration-s 5"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    _add_load_options(parser)
    parser.add_argument("--bundling", choices=("on", "off"), default="on", help=_BUNDLING_HELP)
    parser.add_argument(
        "--encryption",
        choices=("on", "off"),
        default="on",
        help="encrypt datagrams between daemons (on)",
    )
    parser.add_argument(
        "--packet-bytes",
        type=one_or_more,
        metavar="N",
        help="size of a datagram (60000; 1340 between sites)",
    )
    parser.add_argument(
        "--spin",
        action="store_true",
        help="daemons never sleep: each uses a processor, and delays are shorter",
    )
    parser.add_argument(
        "--idle-sessions", type=natural, metavar="N", default=0, help="programs that do nothing (0)"
    )
    parser.add_argument(
        "--idle-groups",
        type=natural,
        metavar="N",
        default=0,
        help="number of groups of these programs (0)",
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--unix", action="store_true", help="programs use unix sockets (default)")
    way.add_argument("--tcp", action="store_true", help="programs use TCP")
    way.add_argument("--tls", action="store_true", help="programs use TLS, with tokens")
    parser.add_argument(
        "--floor",
        action="store_true",
        help="with --rate: before each run, send the same through relays without any protocol",
    )
    parser.add_argument("--json", action="store_true", help="one object")
    _add_site_options(parser)
    add_matrix_options(parser)


def _add_load_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--daemons",
        type=one_or_more,
        metavar="N",
        help="daemons on this host (3, or two for each site)",
    )
    parser.add_argument(
        "--address",
        type=daemon_address,
        action="append",
        default=[],
        metavar="WHERE",
        help="use this running daemon instead; may be repeated",
    )
    keep_old_names(parser, connect="--address", mbit="--bandwidth-mbit")
    parser.add_argument(
        "--senders", type=one_or_more, metavar="N", default=1, help="programs that send (1)"
    )
    parser.add_argument(
        "--receivers",
        type=one_or_more,
        metavar="N",
        help="programs that receive (one for each daemon)",
    )
    parser.add_argument(
        "--size", type=natural, metavar="N", default=100, help="bytes of a message (100)"
    )
    add_level_option(parser)
    parser.add_argument(
        "--rate",
        type=not_negative,
        default=0.0,
        metavar="R",
        help="messages a second (as many as possible)",
    )
    parser.add_argument(
        "--duration-s", type=positive, metavar="S", help="length of a run (5; 2 with --matrix)"
    )
    parser.add_argument(
        "--rounds",
        type=one_or_more,
        metavar="N",
        help="number of runs, of which the median is shown (1; 3 with --matrix)",
    )


_BUNDLING_HELP: Final = "senders pass many messages at once, or await each one (on)"


def run(options: argparse.Namespace) -> int:
    """Measure; return 1 if a message was lost, duplicated, out of order, or changed."""
    if options.matrix:
        refuse_changed(options, add_options)
        return run_rows(options)
    refuse_without_matrix(options)
    options.rounds = 1 if options.rounds is None else options.rounds
    options.duration_s = 5.0 if options.duration_s is None else options.duration_s
    sites = _site_settings(options)
    if options.daemons is None:
        options.daemons = 3 if options.sites == 1 else 2 * options.sites
    if options.packet_bytes is None:
        options.packet_bytes = 60_000 if options.sites == 1 else LINK_PACKET_BYTES
    if not options.sites <= options.daemons <= len(DAEMONS):
        raise ConfigError(
            f"--daemons is {options.daemons}; it must be {options.sites} to {len(DAEMONS)}"
        )
    if options.floor and (options.address or options.senders > 1 or not 0 < options.rate <= 5_000):
        raise ConfigError("--floor needs one sender, a --rate up to 5000, and daemons of its own")
    plan = Plan(
        daemons=0 if options.address else options.daemons,
        senders=options.senders,
        receivers=1 if options.receivers is None else options.receivers,
        size=options.size,
        level=level_of(options),
        rate=options.rate,
        duration_s=options.duration_s,
        bundling=options.bundling == "on",
        unix=not (options.tcp or options.tls),
        tls=options.tls,
        encryption=options.encryption == "on",
        packet_bytes=options.packet_bytes,
        spin=options.spin,
        idle_sessions=options.idle_sessions,
        idle_groups=options.idle_groups,
        **sites,
    )
    if options.receivers is None:
        plan = attrs.evolve(plan, receivers=len(options.address) or len(members_of(plan)))
    rounds, floors = run_tasks(_run, plan, options)
    if options.json:
        print(json.dumps({"machine": machine(), **as_json(rounds), **floor_json(floors)}))
    else:
        _print_figures(middle_of(rounds))
        for name, value in floor_json(floors).items():
            print(f"{name:<14} {value:,.0f} microseconds, bare relays")
    return 0 if all(figures.is_right for figures in rounds) else 1


async def _run(plan: Plan, options: argparse.Namespace) -> tuple[list[Figures], list[list[float]]]:
    """Return the figures of all runs, and the delays of the relays' runs in turn with them."""
    rounds: list[Figures] = []
    floors: list[list[float]] = []
    if options.address:
        for address in options.address:
            async with connect(address):
                pass  # a missing daemon is named here, and not by each program
        return [await measure(plan, options.address, ()) for _ in range(options.rounds)], floors
    async with open_daemons(plan) as (found, processes):
        for _ in range(options.rounds):
            if options.floor:
                floors.append(await floor_us(plan))
            rounds.append(await measure(plan, found, processes))
    return rounds, floors


def _print_figures(figures: Figures) -> None:
    plan = figures.plan
    print(machine())
    print(
        f"{plan.daemons or 'running'} daemons, {plan.senders} senders, {plan.receivers} receivers,"
        f" {plan.size} bytes, {plan.level.name}, {plan.way},"
        f" {'encrypted' if plan.encryption else 'not encrypted'},"
        f" {'bundled' if plan.bundling else 'one by one'},"
        f" {'as many as possible' if not plan.rate else f'{plan.rate:g}/s'}"
    )
    _print_sites(figures)
    print(
        f"each receiver  {figures.msgs_per_s_each:,.0f} messages/s,"
        f" {figures.mb_per_s_each:,.1f} MB/s; the fastest {figures.msgs_per_s_fastest:,.0f}"
    )
    if figures.delay_p50_us is not None:
        if not plan.rate:
            print(
                "one-way delay  of full queues, as senders are as fast as possible; --rate R shows"
                " it at R messages/s"
            )
        print(
            f"one-way delay  p50 {figures.delay_p50_us:,.0f}, p99 {figures.delay_p99_us:,.0f},"
            f" p99.9 {figures.delay_p999_us:,.0f}, max {figures.delay_max_us:,.0f} microseconds"
        )
    print(
        f"processors     daemons {figures.cpu_daemons:.2f}, senders {figures.cpu_senders:.2f},"
        f" receivers {figures.cpu_receivers:.2f};"
        f" daemons {figures.cpu_s_per_million:.2f} s for a million deliveries"
    )
    if plan.senders > 1:
        print(f"fairness       {figures.jain:.3f} (Jain's index)")
    told = sys.stdout if figures.is_right else sys.stderr
    print(
        f"wrong          lost {figures.lost}, duplicated {figures.duplicated},"
        f" misordered {figures.misordered}, changed {figures.wrong}",
        file=told,
    )
