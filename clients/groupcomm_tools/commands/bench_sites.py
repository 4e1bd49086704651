"""Options of `groupcomm bench` for daemons in several sites."""

import argparse
from typing import Any, Final

from groupcomm.errors import ConfigError
from groupcomm_tools.bench.figures import Figures
from groupcomm_tools.topology import MAX_SITES, SHAPES

_OF_LINKS: Final = ("shape", "delay_ms", "jitter_ms", "loss", "mbit", "members_in")


def add_site_options(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    group = parser.add_argument_group("several sites, with a relay of this host in between")
    group.add_argument("--sites", type=int, metavar="N", default=1, help="that are apart (1)")
    group.add_argument("--shape", choices=SHAPES, default="mesh", help="which have links (mesh)")
    group.add_argument("--delay-ms", type=float, metavar="MS", default=0.0, help="one way (0)")
    group.add_argument("--jitter-ms", type=float, metavar="MS", default=0.0, help="more (0)")
    group.add_argument(
        "--loss", type=float, metavar="P", default=0.0, help="of datagrams on each link (0)"
    )
    group.add_argument("--mbit", type=float, metavar="M", help="bandwidth of each link (any)")
    group.add_argument(
        "--members-in",
        type=int,
        metavar="N",
        default=0,
        help="programs are in the first N sites only (all)",
    )


def site_settings(options: argparse.Namespace) -> dict[str, Any]:
    """What a plan says of sites.

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
    elif options.connect or options.floor:
        raise ConfigError("--sites is for own daemons, and without --floor")
    if not 0 <= options.members_in <= options.sites:
        raise ConfigError(f"--members-in is {options.members_in}; it must be 0 to {options.sites}")
    return {"sites": options.sites, **found}


def tell_sites(figures: Figures) -> None:
    """Say it to people; nothing with one site."""
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
