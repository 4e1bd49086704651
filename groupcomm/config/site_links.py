"""Links between sites, as a roster has them: pairs of neighbours, with their delays.

Pure values.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

from groupcomm.errors import ConfigError

LONGEST_LINK_US: Final = 10_000_000
"""The longest delay of a link, microseconds."""

SitePair: TypeAlias = tuple[str, str]
"""The names of two sites, in order."""

SiteLink: TypeAlias = tuple[str, str, int]
"""The names of two neighbouring sites, in order, and the one-way delay in microseconds."""


def pair_of_sites(one: str, other: str) -> SitePair:
    """Return two sites as a link names them."""
    return min(one, other), max(one, other)


def check_links(
    sites: Collection[str], links: Mapping[SitePair, int], *, none_allowed: bool
) -> None:
    """Check links between sites: if there are any, they lead from each site to each other site.

    Args:
        sites: the names of all sites.
        links: the one-way delays in microseconds.
        none_allowed: whether there may be no links between several sites.

    Raises:
        ConfigError: a link is wrong, or no path leads from one site to another.
    """
    for pair, delay_us in links.items():
        if pair[0] == pair[1] or not set(pair).issubset(sites):
            raise ConfigError(
                f"link {'-'.join(pair)} does not join two sites; the sites are:"
                f" {', '.join(sorted(sites))}"
            )
        if not 0 <= delay_us <= LONGEST_LINK_US:
            raise ConfigError(
                f"link {'-'.join(pair)}: its delay is {delay_us / 1000:g} ms; it must be 0 to"
                f" {LONGEST_LINK_US / 1000:g} ms"
            )
    if not links and none_allowed:
        return
    first, *others = sorted(sites)
    reached = reached_from(first, links)
    for site in others:
        if site not in reached:
            raise ConfigError(
                f"no path of links leads from site {first} to site {site}: give a link that leads"
                " there, too"
            )


def reached_from(site: str, links: Iterable[SitePair]) -> set[str]:
    """Return the sites to which paths of links lead from a site, and the site itself."""
    pairs, reached, before = list(links), {site}, 0
    while len(reached) > before:
        before = len(reached)
        for pair in pairs:
            if reached.intersection(pair):
                reached.update(pair)
    return reached
