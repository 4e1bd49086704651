"""The same plan with more sites, or with more daemons: how does the cost grow?"""

import attrs

from groupcomm.config.view import MAX_RINGS
from groupcomm.errors import ConfigError
from groupcomm.sim.links import TOPOLOGIES, mesh
from groupcomm.sim.plan.topology import Load, Topology
from groupcomm.sim.settings import MAX_DAEMONS
from groupcomm.sim.site_settings import split_evenly


def with_sites(plan: Topology, sites: int) -> Topology:
    """The plan with so many sites: copies of its own in turn, in the same shape.

    The shape is that of the plan (full mesh, chain, star or ring); a plan of another one grows as a
    full mesh. Links are copies of the plan's, in turn. What is sent stays the same; groups have
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
        raise ConfigError("a plan without links does not say what more sites are joined by")
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
    """The plan with so many daemons in all, spread over its sites as evenly as possible.

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


def _copy_load(load: Load, own: int, sites: int) -> Load:
    members = tuple(site for site in range(sites) if site % own in load.members)
    return attrs.evolve(load, members=members or tuple(range(sites)), sender=load.sender % sites)
