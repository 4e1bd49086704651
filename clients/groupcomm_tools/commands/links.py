"""`groupcomm links`: change the links between the sites of a cluster, while it works."""

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from groupcomm_tools.commands.connecting import connect_blocking
from groupcomm_tools.commands.options import add_connection_options
from groupcomm_tools.commands.roster_changes import (
    add_change_options,
    ask_roster,
    change_roster,
    link_delay,
    report,
)
from groupcomm_tools.commands.subcommands import (
    JSON,
    Subcommand,
    add_subcommands,
    argument,
    run,
)

__all__ = ["EXAMPLE", "add_options", "run"]

EXAMPLE: Final = "groupcomm links set north-south=40 south-west=15"


LINKS: Final = argument(
    "links",
    nargs="+",
    type=link_delay,
    metavar="SITE-SITE=MS",
    help="two sites, and the delay one way between them in milliseconds",
)
SITES: Final = argument("links", nargs="+", metavar="SITE-SITE", help="the two sites of a link")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    parser.description = (
        f"{parser.description}: packets take the paths with the least sum of delays; if there are"
        " links, they lead from each site to each other site; all daemons agree on a change, as on"
        " those of groupcomm daemons"
    )
    where = ("--address", "--through")
    through = partial(add_connection_options, where=where)
    changes = partial(add_change_options, where=where)
    add_subcommands(
        parser,
        Subcommand("list", _list, "list the sites and the links", "--json", JSON, through),
        Subcommand(
            "set",
            _set,
            "add links, or change their delays",
            "north-south=40 south-west=15",
            *(LINKS, changes),
        ),
        Subcommand(
            "remove",
            _remove,
            "remove links; the others still lead to each site",
            "north-south",
            *(SITES, changes),
        ),
    )


# ---- the verbs ----


def _list(options: argparse.Namespace) -> int:
    with connect_blocking(options) as connection:
        found = ask_roster(connection)
    if options.json:
        sites = sorted({entry["site"] for entry in found["daemons"]})
        print(json.dumps({"sites": sites, "links": found["links"]}, ensure_ascii=False))
    else:
        _print(found)
    return 0


def _set(options: argparse.Namespace) -> int:
    wanted: dict[str, float] = dict(options.links)

    def is_there(links: dict[str, float]) -> bool:
        return all(links.get(link) == delay_ms for link, delay_ms in wanted.items())

    return _change(options, "set-links", wanted, is_there, _phrase(wanted))


def _remove(options: argparse.Namespace) -> int:
    text = f"removed: {', '.join(options.links)}"
    return _change(options, "remove-links", options.links, set(options.links).isdisjoint, text)


def _change(
    options: argparse.Namespace,
    verb: str,
    links: object,
    is_there: Callable[[dict[str, float]], bool],
    text: str,
) -> int:
    """Ask for a change, and wait until the links are there; return the exit status."""
    asked = {"links": links, "force": options.force}
    with connect_blocking(options) as connection:
        found = change_roster(
            connection, options, verb, asked, lambda roster: is_there(_delays(roster))
        )
    return report(options, found, text)


def _delays(roster: dict[str, Any]) -> dict[str, float]:
    """Return the delays of the links in milliseconds, by both names of each link."""
    found = [(link["sites"], link["delay_ms"]) for link in roster["links"]]
    return {"-".join(ends): ms for sites, ms in found for ends in (sites, sites[::-1])}


def _phrase(links: dict[str, float]) -> str:
    return ", ".join(f"{link} has {delay_ms:g} ms" for link, delay_ms in links.items())


# ---- text ----


def _print(roster: dict[str, Any]) -> None:
    """Print the sites with their daemons, and the links with their delays."""
    sites: dict[str, list[str]] = {}
    for entry in roster["daemons"]:
        sites.setdefault(entry["site"], []).append(entry["name"])
    rows = [("site", "daemons"), *((site, ", ".join(sites[site])) for site in sorted(sites))]
    _print_table(rows)
    if roster["links"]:
        print()
        _print_table(
            [
                ("link", "delay"),
                *(
                    ("-".join(link["sites"]), f"{link['delay_ms']:g} ms")
                    for link in roster["links"]
                ),
            ]
        )
    elif len(sites) > 1:
        print("no links: all sites count as equally far")


def _print_table(rows: Sequence[tuple[str, str]]) -> None:
    width = max(len(first) for first, _ in rows)
    for first, second in rows:
        print(f"{first.ljust(width)}  {second}")
