"""The tables of sites and links in a configuration: who is where, and how far sites are apart."""

from collections.abc import Collection, Mapping
from math import inf
from typing import Final, TypeAlias

import attrs

from groupcomm.config.core import Setting, shortest_paths
from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.host.addresses import Address, parse_address
from groupcomm.names import check_daemon

DEFAULT_PACKET_BYTES: Final = 1340
"""With seal and headers it passes the internet, tunnels included."""

DEFAULT_DELAY_MS: Final = 100.0
"""Between two sites where nothing is said: most paths on earth are shorter."""

LONGEST_DELAY_MS: Final = 10_000.0

Addresses: TypeAlias = str | list[str]
"""One address of a daemon, or one on each network that it is on."""


@attrs.frozen(kw_only=True)
class SiteTable:
    """``[sites.NAME]``: the daemons of one fast network, and how to reach all at once."""

    daemons: dict[str, Addresses]
    multicast: str | None = None


@attrs.frozen(kw_only=True)
class LinkTable:
    """``[links.NAME-NAME]``: what the network between two sites is like."""

    delay_ms: float = DEFAULT_DELAY_MS
    packet_bytes: int = DEFAULT_PACKET_BYTES


Sites = Mapping[str, SiteTable]
Links = Mapping[str, LinkTable]


def site_of(sites: Sites, daemon: str) -> str:
    """The site in which a daemon is listed."""
    return next(site for site, table in sites.items() if daemon in table.daemons)


def read_daemons(sites: Sites, name: str) -> dict[str, tuple[Address, ...]]:
    """Where all listed daemons are, by name: one address for each network.

    Args:
        sites: by name.
        name: of a daemon that must be among them.

    Raises:
        ConfigError: a name or an address is wrong, or stands twice.
    """
    found: dict[str, tuple[Address, ...]] = {}
    taken: dict[Address, str] = {}
    for site, table in sites.items():
        key = f"sites.{site}.daemons"
        if not table.daemons:
            raise ConfigError(f"{key} lists nobody; a site has at least one daemon")
        for daemon, where in table.daemons.items():
            try:
                check_daemon(daemon)
            except LocalProtocolError as error:
                raise ConfigError(f"{key}: {error}") from None
            if daemon in found:
                raise ConfigError(f"{key}: {daemon} is in sites.{site_of(sites, daemon)}, too")
            texts = [where] if isinstance(where, str) else where
            if not texts:
                raise ConfigError(f"{key}.{daemon} is empty; a daemon has at least one address")
            addresses = [parse_address(text, f"{key}.{daemon}") for text in texts]
            for address in addresses:
                if address.port and address in taken:
                    raise ConfigError(f"{key}: {taken[address]} and {daemon} are both at {address}")
                taken[address] = daemon
            found[daemon] = tuple(addresses)
    if name not in found:
        where = f"sites.{next(iter(sites))}.daemons lists" if len(sites) == 1 else "the sites list"
        raise ConfigError(f"name is {name!r}; {where} {', '.join(found)}")
    return found


def read_multicast(sites: Sites, name: str) -> Address | None:
    """What reaches all daemons of one daemon's site at once, if the file says so.

    Raises:
        ConfigError: an address is none, or no multicast address; of whatever site.
    """
    found = {}
    for site, table in sites.items():
        if table.multicast is None:
            continue
        key = f"sites.{site}.multicast"
        address = found[site] = parse_address(table.multicast, key)
        if not address.is_multicast:
            raise ConfigError(
                f"{key} is {address}; a multicast address is needed, such as 239.192.0.7"
            )
    return found.get(site_of(sites, name))


def advised_settings(
    sites: Sites, daemons: Mapping[str, tuple[Address, ...]]
) -> tuple[Setting, ...]:
    """Return the settings of sites that should be equal at all daemons, besides who is listed.

    Args:
        sites: by name.
        daemons: where all are, by name.
    """
    found: list[Setting] = []
    for site, table in sites.items():
        for daemon in table.daemons:
            found.append((f"sites.{site}.daemons.{daemon}", tuple(map(str, daemons[daemon]))))
        if table.multicast is not None:
            found.append((f"sites.{site}.multicast", (table.multicast,)))
    return tuple(sorted(found))


def sites_of_link(text: str, sites: Collection[str]) -> tuple[str, str]:
    """The two sites that ``NAME-NAME`` stands for; site names may have dashes of their own.

    Raises:
        ConfigError: it stands for none, or for more than one pair.
    """
    words = text.split("-")
    halves = [("-".join(words[:at]), "-".join(words[at:])) for at in range(1, len(words))]
    found = [(a, b) for a, b in halves if a in sites and b in sites and a != b]
    if not found:
        known = ", ".join(sites) or "none"
        raise ConfigError(f"{text!r} names no two sites; write SITE-SITE. Sites: {known}")
    if len(found) > 1:
        ways = " or ".join(f"{a} and {b}" for a, b in found)
        raise ConfigError(f"{text!r} could mean {ways}; rename a site")
    return found[0]


def longest_delay_s(sites: Sites, links: Links) -> float:
    """The longest one-way delay between two sites along the shortest way of links; 0 with one.

    Without any link all sites are DEFAULT_DELAY_MS apart.

    Raises:
        ConfigError: a link is wrong, or no way leads from one site to another.
    """
    pairs = _pairs(sites, links)
    if not links and len(sites) > 1:
        return DEFAULT_DELAY_MS / 1000
    delays: dict[tuple[str, str], float] = {}
    for name, link in links.items():
        if not 0 <= link.delay_ms <= LONGEST_DELAY_MS:
            raise ConfigError(
                f"links.{name}: delay_ms is {link.delay_ms:g}; it must be 0 to {LONGEST_DELAY_MS:g}"
            )
        delays[pairs[name]] = link.delay_ms / 1000
    apart = shortest_paths(sites, delays)
    for (one, other), delay in apart.items():
        if delay == inf:
            raise ConfigError(
                f"links: no way leads from {one} to {other}; say how far apart they are:"
                f" [links.{one}-{other}] delay_ms = 40"
            )
    return max(apart.values(), default=0.0)


def link_delays_us(sites: Sites, links: Links) -> tuple[tuple[int, int, int], ...]:
    """Per link its sites, by their places among `sites`, and its delay in microseconds."""
    places = {site: place for place, site in enumerate(sites)}
    return tuple(
        (places[one], places[other], round(links[name].delay_ms * 1000))
        for name, (one, other) in _pairs(sites, links).items()
    )


def _pairs(sites: Sites, links: Links) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for name in links:
        try:
            pair = sites_of_link(name, sites)
        except ConfigError as error:
            raise ConfigError(f"links: {error}") from None
        for other, theirs in found.items():
            if set(theirs) == set(pair):
                raise ConfigError(f"links: {other} and {name} are the same link; keep one of them")
        found[name] = pair
    return found


def packet_limit(packet_bytes: int, sites: Sites, links: Links) -> int:
    """Bytes of a packet that passes everywhere: the least over all sites and links.

    Raises:
        ConfigError: one of them is out of its range.
    """
    limits = {"packet_bytes": packet_bytes}
    limits |= {f"links.{name}.packet_bytes": link.packet_bytes for name, link in links.items()}
    for key, value in limits.items():
        if not 600 <= value <= 60_000:
            raise ConfigError(f"{key} is {value}; it must be 600 to 60000")
    if len(sites) > 1 and not links:
        return min(packet_bytes, DEFAULT_PACKET_BYTES)
    return min(limits.values())
