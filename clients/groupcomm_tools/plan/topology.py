"""A plan: sites, the links between them, and the loads of programs; checked as a whole.

Its tables are read key by key, so that an error names its place. A plan can be copied with more
sites or more daemons, to see how the cost grows.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Final

import attrs

from groupcomm.config.view import MAX_RINGS
from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.names import check_group
from groupcomm.sim.network.links import TOPOLOGIES, SimulatedLink, check_links, mesh
from groupcomm.sim.settings import MAX_DAEMONS, Settings, plain_settings, split_evenly


class TableReader:
    """Reader of one table of a file; it refuses keys that are left over.

    Args:
        where: the name of the table, for people.
        found: the contents of the table in the file.

    Raises:
        ConfigError: from every method; the error names the table and the key.
    """

    def __init__(self, where: str, found: object) -> None:
        if not isinstance(found, dict):
            raise ConfigError(f"{where} is {found!r}; it must be a table")
        self._where = where
        self._left = dict(found)

    def text(self, key: str, usual: str | None = None) -> str:
        """Return a string."""
        value = self._pop(key, usual)
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{self._where}: {key} is {value!r}; it must be a name")
        return value

    def texts(self, key: str) -> list[str]:
        """Return a list of strings."""
        value = self._pop(key, None)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ConfigError(f"{self._where}: {key} is {value!r}; it must be a list of names")
        return value

    def number(self, key: str, least: float, most: float, usual: float | None = None) -> float:
        """Return a number between two others, both included."""
        value = self._pop(key, usual)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{self._where}: {key} is {value!r}; it must be a number")
        if not least <= value <= most:
            up_to = f"to {most:g}" if most < inf else "or more"
            raise ConfigError(f"{self._where}: {key} is {value:g}; it must be {least:g} {up_to}")
        return float(value)

    def whole(self, key: str, least: int, most: int) -> int:
        """Return a whole number between two others, both included."""
        value = self.number(key, least, most)
        if value != int(value):
            raise ConfigError(f"{self._where}: {key} is {value:g}; it must be a whole number")
        return int(value)

    def pop(self, key: str, usual: object = None) -> Any:
        """Remove and return the value of a key, of any type."""
        return self._pop(key, usual)

    def has(self, key: str) -> bool:
        """Return whether the table has a key."""
        return key in self._left

    def end(self) -> None:
        """Check that no key is left."""
        if self._left:
            raise ConfigError(f"{self._where}: there is no key {min(self._left)!r}")

    def _pop(self, key: str, usual: object) -> object:
        if key in self._left:
            return self._left.pop(key)
        if usual is None:
            raise ConfigError(f"{self._where}: {key} is missing")
        return usual


MEGABIT_BYTES: Final = 125_000
LARGEST_MESSAGE: Final = 1_000_000
"""Larger ones are for a bench with real daemons."""

USUAL_DURATION_S: Final = 10.0


@attrs.frozen(kw_only=True)
class PlannedLoad:
    """The messages that one program sends.

    Attributes:
        group: the group that it sends to.
        members: sites, by index; a program at each of their daemons is a member.
        sender: the site of the program that sends.
        level: the level of all messages.
        rate: messages a second.
        bytes: the bytes of a message.
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
        names: the names of the sites.
        sizes: the number of daemons of each site.
        links: the links between sites, by index.
        loads: the loads, all at once.
        duration_s: simulated seconds of load that count.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    links: tuple[SimulatedLink, ...]
    loads: tuple[PlannedLoad, ...]
    duration_s: float = USUAL_DURATION_S

    def settings(self, seed: int) -> Settings:
        """Return the settings of a simulated cluster for the plan."""
        return plain_settings(daemons=self.sizes, links=self.links, seed=seed)

    def link_name(self, near: int, far: int) -> str:
        """Return one direction of a link, as text."""
        return f"{self.names[near]} > {self.names[far]}"


def read_topology(found: Mapping[str, object]) -> Topology:
    """Return the plan in a file.

    Args:
        found: the contents of the file, as TOML gives them; docs/sites.md has all keys.

    Raises:
        ConfigError: a key is missing, unknown or out of its range, or the parts do not fit.
    """
    top = TableReader("the topology", found)
    sites = top.pop("sites")
    if not isinstance(sites, dict) or not sites:
        raise ConfigError("the topology: sites is no table with a site at least, as [sites.hall]")
    names, sizes = tuple(sites), []
    for name, table in sites.items():
        fields = TableReader(f"site {name}", table)
        sizes.append(fields.whole("daemons", 1, MAX_DAEMONS))
        fields.end()
    if sum(sizes) > MAX_DAEMONS:
        raise ConfigError(
            f"there are {sum(sizes)} daemons; the simulator has at most {MAX_DAEMONS}"
        )
    links = tuple(_read_link(names, table) for table in _tables(top, "links"))
    check_links(names, links)
    loads = tuple(_read_load(names, table) for table in _tables(top, "loads"))
    duration_s = top.number("duration_s", 0.1, inf, USUAL_DURATION_S)
    top.end()
    return Topology(
        names=names, sizes=tuple(sizes), links=links, loads=loads, duration_s=duration_s
    )


def _tables(top: TableReader, key: str) -> list[object]:
    found = top.pop(key, [])
    if not isinstance(found, list):
        raise ConfigError(f"the topology: {key} is no list of tables, as [[{key}]]")
    return found


def _site(where: str, names: Sequence[str], name: str) -> int:
    if name not in names:
        raise ConfigError(f"{where}: there is no site {name!r}; there are: {', '.join(names)}")
    return names.index(name)


def _read_link(names: Sequence[str], table: object) -> SimulatedLink:
    fields = TableReader("a link", table)
    ends = fields.texts("between")
    where = f"the link between {' and '.join(ends)}"
    sites = sorted(_site(where, names, name) for name in ends)
    if len(sites) != 2 or sites[0] == sites[1]:
        raise ConfigError(f"{where}: it must join two different sites")
    delay_ms = fields.number("delay_ms", 0, 10_000)
    megabit = fields.number("bandwidth_mbit", 0.001, inf) if fields.has("bandwidth_mbit") else None
    link = SimulatedLink(
        sites=(sites[0], sites[1]),
        delay_s=delay_ms / 1000,
        jitter_s=fields.number("jitter_ms", 0, 10_000, delay_ms / 20) / 1000,
        loss=fields.number("loss", 0, 0.99, 0.0),
        bytes_per_s=None if megabit is None else megabit * MEGABIT_BYTES,
        queue_s=fields.number("queue_ms", 1, 60_000, 100.0) / 1000,
    )
    fields.end()
    return link


def _read_load(names: Sequence[str], table: object) -> PlannedLoad:
    fields = TableReader("a load", table)
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
    load = PlannedLoad(
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


def with_sites(plan: Topology, sites: int) -> Topology:
    """Return the plan with this number of sites: copies of its own in turn, in the same shape.

    The shape is that of the plan (full mesh, chain, star or ring); a plan of another one grows as a
    full mesh. Links are copies of the plan's, in turn. The loads stay the same; groups have
    members in all copies of their sites.

    Raises:
        ConfigError: there are too few or too many, or too many daemons in them.
    """
    own = len(plan.names)
    if not 1 <= sites <= MAX_RINGS:
        raise ConfigError(f"{sites} sites cannot be planned; a view has 1 to {MAX_RINGS}")
    sizes = tuple(plan.sizes[site % own] for site in range(sites))
    _check_daemons(sum(sizes))
    pairs = {link.sites for link in plan.links}
    shape = next((make for make in TOPOLOGIES.values() if make(own) == pairs), mesh)
    if sites > 1 and not plan.links:
        raise ConfigError("a plan without links does not say which links join more sites")
    links = tuple(
        attrs.evolve(plan.links[place % len(plan.links)], sites=pair)
        for place, pair in enumerate(sorted(shape(sites)))
    )
    names = tuple(
        plan.names[site % own] + (f" {site // own + 1}" if site >= own else "")
        for site in range(sites)
    )
    loads = tuple(_copy_load(load, own, sites) for load in plan.loads)
    return attrs.evolve(plan, names=names, sizes=sizes, links=links, loads=loads)


def with_daemons(plan: Topology, daemons: int) -> Topology:
    """Return the plan with this number of daemons, spread over its sites as evenly as possible.

    Raises:
        ConfigError: there are fewer than sites, or too many.
    """
    sites = len(plan.names)
    if daemons < sites:
        raise ConfigError(f"{daemons} daemons cannot be planned; each of {sites} sites has one")
    _check_daemons(daemons)
    return attrs.evolve(plan, sizes=tuple(map(len, split_evenly(daemons, sites))))


def _check_daemons(daemons: int) -> None:
    if daemons > MAX_DAEMONS:
        raise ConfigError(f"{daemons} daemons cannot be planned; the simulator has {MAX_DAEMONS}")


def _copy_load(load: PlannedLoad, own: int, sites: int) -> PlannedLoad:
    members = tuple(site for site in range(sites) if site % own in load.members)
    return attrs.evolve(load, members=members or tuple(range(sites)), sender=load.sender % sites)
