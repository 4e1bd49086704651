"""The tables of sites and links in a configuration: the daemons, and the delays between sites."""

from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Final, TypeAlias

import attrs

from groupcomm.config.core import UNKNOWN_DELAY_S, Setting, shortest_paths
from groupcomm.config.site_links import LONGEST_LINK_US
from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.host.addresses import Address, parse_address
from groupcomm.names import check_daemon
from groupcommd.config.seeds import Seed, parse_host_name

DEFAULT_PACKET_BYTES: Final = 1340
MOST_PACKET_BYTES: Final = 60_000
"""With its seal and headers such a packet passes the internet, tunnels included."""

DEFAULT_DELAY_MS: Final = UNKNOWN_DELAY_S * 1000
LONGEST_DELAY_MS: Final = LONGEST_LINK_US / 1000

Addresses: TypeAlias = str | list[str]
"""The address of a daemon, or one for each of its networks."""


@attrs.frozen(kw_only=True)
class SiteTable:
    """``[sites.NAME]``: the daemons of one fast network, and their multicast group.

    Attributes:
        daemons: each daemon's name and address: an IP address, or the name of its host
            (docs/configuration.md#names-of-hosts), with a port if it is not 4803. A daemon on
            several networks (docs/configuration.md#several-networks) has a list of addresses.
        multicast: a multicast address with a port that reaches all daemons of the site; without it
            each daemon gets its own copy. Other sites do not use it.
    """

    daemons: dict[str, Addresses]
    multicast: str | None = None


@attrs.frozen(kw_only=True)
class LinkTable:
    """``[links.NAME-NAME]``: the properties of the network between two sites.

    Attributes:
        delay_ms: milliseconds one way between the two sites, at the usual worst; 0 to 10,000.
            Packets take the paths with the least sum.
        packet_bytes: bytes of the largest datagram before sealing that passes there, 600 to 60,000;
            the least value of all links and of the key ``packet_bytes`` is used everywhere.
    """

    delay_ms: float = DEFAULT_DELAY_MS
    packet_bytes: int = DEFAULT_PACKET_BYTES


Sites = Mapping[str, SiteTable]
Links = Mapping[str, LinkTable]


def site_of(sites: Sites, daemon: str) -> str:
    """Return the site in which a daemon is listed."""
    return next(site for site, table in sites.items() if daemon in table.daemons)


AddressOrName: TypeAlias = Address | Seed
"""The address of a daemon in digits, or the name of its host, which is looked up."""


def read_place(text: str, key: str) -> AddressOrName:
    """Read the address of a daemon; raise ConfigError, with `key` in the text, if it is none."""
    return parse_host_name(text) or parse_address(text, key)


def read_daemons(sites: Sites, name: str) -> dict[str, tuple[AddressOrName, ...]]:
    """Return the addresses of all listed daemons by name, one for each network.

    Args:
        sites: the sites by name.
        name: the name of a daemon that must be listed.

    Raises:
        ConfigError: a name or an address is wrong, or is listed twice.
    """
    found: dict[str, tuple[AddressOrName, ...]] = {}
    taken: dict[AddressOrName, str] = {}
    for site, table in sites.items():
        key = f"sites.{site}.daemons"
        if not table.daemons:
            raise ConfigError(f"{key} is empty; a site has at least one daemon")
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
            addresses = [read_place(text, f"{key}.{daemon}") for text in texts]
            check_names(addresses, f"{key}.{daemon}")
            for address in addresses:
                if address.port and address in taken:
                    raise ConfigError(f"{key}: {taken[address]} and {daemon} are both at {address}")
                taken[address] = daemon
            found[daemon] = tuple(addresses)
    if name not in found:
        where = f"sites.{next(iter(sites))}.daemons lists" if len(sites) == 1 else "the sites list"
        raise ConfigError(f"name is {name!r}; {where} {', '.join(found)}")
    return found


def check_names(addresses: Sequence[AddressOrName], key: str) -> None:
    """Raise ConfigError if a daemon on several networks is listed with the name of a host."""
    named = [each for each in addresses if isinstance(each, Seed)]
    if named and len(addresses) > 1:
        raise ConfigError(
            f"{key} has {named[0]}: a daemon on several networks has addresses in digits, as a name"
            " does not say which network it is on"
        )


def read_multicast(sites: Sites, name: str) -> Address | None:
    """Return the multicast group of a daemon's site; None without one.

    Raises:
        ConfigError: the address of any site is invalid, or no multicast address.
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
    sites: Sites, daemons: Mapping[str, tuple[AddressOrName, ...]]
) -> tuple[Setting, ...]:
    """Return the settings of sites that should be equal at all daemons, besides the names.

    Args:
        sites: the sites by name.
        daemons: the addresses of all daemons, by name.
    """
    found: list[Setting] = []
    for site, table in sites.items():
        for daemon in table.daemons:
            found.append((f"sites.{site}.daemons.{daemon}", tuple(map(str, daemons[daemon]))))
        if table.multicast is not None:
            found.append((f"sites.{site}.multicast", (table.multicast,)))
    return tuple(sorted(found))


def sites_of_link(text: str, sites: Collection[str]) -> tuple[str, str]:
    """Return the two sites that ``NAME-NAME`` stands for; site names may contain dashes.

    Raises:
        ConfigError: it stands for no pair, or for more than one.
    """
    words = text.split("-")
    halves = [("-".join(words[:at]), "-".join(words[at:])) for at in range(1, len(words))]
    found = [(a, b) for a, b in halves if a in sites and b in sites and a != b]
    if not found:
        known = ", ".join(sites) or "none"
        raise ConfigError(
            f"{text!r} does not name two sites; write SITE-SITE; the sites are: {known}"
        )
    if len(found) > 1:
        ways = " or ".join(f"{a} and {b}" for a, b in found)
        raise ConfigError(f"{text!r} could mean {ways}; rename a site")
    return found[0]


def longest_delay_s(sites: Sites, links: Links) -> float:
    """Return the longest one-way delay between two sites over the shortest path of links.

    Without any link all sites are DEFAULT_DELAY_MS apart; with one site the delay is 0.

    Raises:
        ConfigError: a link is wrong, or no path leads from one site to another.
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
                f"links: no path leads from {one} to {other}; add the link between them:"
                f" [links.{one}-{other}] delay_ms = 40"
            )
    return max(apart.values(), default=0.0)


def link_delays_us(sites: Sites, links: Links) -> tuple[tuple[int, int, int], ...]:
    """Return for each link the indices of its sites, and its delay in microseconds."""
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
    """Return the bytes of a packet that passes everywhere: the least over all sites and links.

    Raises:
        ConfigError: a value is out of its range.
    """
    limits = {"packet_bytes": packet_bytes}
    limits |= {f"links.{name}.packet_bytes": link.packet_bytes for name, link in links.items()}
    for key, value in limits.items():
        if not 600 <= value <= MOST_PACKET_BYTES:
            raise ConfigError(f"{key} is {value}; it must be 600 to {MOST_PACKET_BYTES}")
    if len(sites) > 1 and not links:
        return min(packet_bytes, DEFAULT_PACKET_BYTES)
    return min(limits.values())
