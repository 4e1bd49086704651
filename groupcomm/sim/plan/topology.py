"""What is planned: sites, the links between them, and what programs send; checked as a whole."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

import attrs

from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.names import check_group
from groupcomm.sim.links import Link, check_links
from groupcomm.sim.plan.fields import Fields
from groupcomm.sim.settings import MAX_DAEMONS, Settings, plain_settings

MEGABIT_BYTES: Final = 125_000
LARGEST_MESSAGE: Final = 1_000_000
"""Larger ones are for a bench with real daemons."""

USUAL_DURATION_S: Final = 10.0


@attrs.frozen(kw_only=True)
class Load:
    """What one program sends.

    Attributes:
        group: to whom.
        members: sites, by index; a program at each of their daemons is a member.
        sender: the site of the program that sends.
        level: of all messages.
        rate: messages a second.
        bytes: of a message.
    """

    group: str
    members: tuple[int, ...]
    sender: int
    level: ServiceLevel
    rate: float
    bytes: int


@attrs.frozen(kw_only=True)
class Topology:
    """A plan.

    Attributes:
        names: of the sites.
        sizes: daemons of each site.
        links: between sites, by index.
        loads: all of them at once.
        duration_s: simulated seconds of load that count.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    links: tuple[Link, ...]
    loads: tuple[Load, ...]
    duration_s: float = USUAL_DURATION_S

    def settings(self, seed: int) -> Settings:
        """As a simulated cluster takes it."""
        return plain_settings(daemons=self.sizes, links=self.links, seed=seed)

    def link_name(self, near: int, far: int) -> str:
        """One direction of a link, for people."""
        return f"{self.names[near]} > {self.names[far]}"


def read_topology(found: Mapping[str, object]) -> Topology:
    """Understand a file.

    Args:
        found: what it holds, as TOML gives it; docs/sites.md has all keys.

    Raises:
        ConfigError: a key is missing, unknown or out of its range, or the parts do not fit.
    """
    top = Fields("the topology", found)
    sites = top.take("sites")
    if not isinstance(sites, dict) or not sites:
        raise ConfigError("the topology: sites is no table with a site at least, as [sites.hall]")
    names, sizes = tuple(sites), []
    for name, table in sites.items():
        fields = Fields(f"site {name}", table)
        sizes.append(fields.whole("daemons", 1, MAX_DAEMONS))
        fields.end()
    if sum(sizes) > MAX_DAEMONS:
        raise ConfigError(
            f"there are {sum(sizes)} daemons; the simulator has {MAX_DAEMONS} at most"
        )
    links = tuple(_read_link(names, table) for table in _tables(top, "links"))
    check_links(names, links)
    loads = tuple(_read_load(names, table) for table in _tables(top, "loads"))
    duration_s = top.number("duration_s", 0.1, inf, USUAL_DURATION_S)
    top.end()
    return Topology(
        names=names, sizes=tuple(sizes), links=links, loads=loads, duration_s=duration_s
    )


def _tables(top: Fields, key: str) -> list[object]:
    found = top.take(key, [])
    if not isinstance(found, list):
        raise ConfigError(f"the topology: {key} is no list of tables, as [[{key}]]")
    return found


def _site(where: str, names: Sequence[str], name: str) -> int:
    if name not in names:
        raise ConfigError(f"{where}: there is no site {name!r}; there are: {', '.join(names)}")
    return names.index(name)


def _read_link(names: Sequence[str], table: object) -> Link:
    fields = Fields("a link", table)
    ends = fields.texts("between")
    where = f"the link between {' and '.join(ends)}"
    sites = sorted(_site(where, names, name) for name in ends)
    if len(sites) != 2 or sites[0] == sites[1]:
        raise ConfigError(f"{where}: it must join two different sites")
    delay_ms = fields.number("delay_ms", 0, 10_000)
    megabit = fields.number("bandwidth_mbit", 0.001, inf) if fields.has("bandwidth_mbit") else None
    link = Link(
        sites=(sites[0], sites[1]),
        delay_s=delay_ms / 1000,
        jitter_s=fields.number("jitter_ms", 0, 10_000, delay_ms / 20) / 1000,
        loss=fields.number("loss", 0, 0.99, 0.0),
        bytes_per_s=None if megabit is None else megabit * MEGABIT_BYTES,
        queue_s=fields.number("queue_ms", 1, 60_000, 100.0) / 1000,
    )
    fields.end()
    return link


def _read_load(names: Sequence[str], table: object) -> Load:
    fields = Fields("a load", table)
    group = fields.text("group")
    where = f"the load of group {group}"
    try:
        check_group(group)
    except LocalProtocolError as error:
        raise ConfigError(f"{where}: {error}") from None
    level = fields.text("level", "AGREED").upper()
    if level not in ServiceLevel.__members__:
        known = ", ".join(each.name for each in LEVELS)
        raise ConfigError(f"{where}: level is {level}; there are: {known}")
    load = Load(
        group=group,
        members=tuple(sorted({_site(where, names, name) for name in fields.texts("members")})),
        sender=_site(where, names, fields.text("sender")),
        level=ServiceLevel[level],
        rate=fields.number("rate", 0.01, 100_000),
        bytes=fields.whole("bytes", 8, LARGEST_MESSAGE),
    )
    fields.end()
    if not load.members:
        raise ConfigError(f"{where}: members names no site")
    return load
