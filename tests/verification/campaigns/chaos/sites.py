"""Clusters of several sites: the lines between them, and their additional disasters."""

from collections.abc import Collection
from math import inf
from random import Random
from typing import Final

import trio

from groupcomm.host.trace_file import now_us
from groupcomm_tools.relay import Line
from groupcomm_tools.topology import BYTES_PER_S, Topology
from tests.verification.campaigns.chaos.disasters import (
    DISASTERS,
    TOKEN_TIMEOUT_S,
    Disaster,
    Outcome,
    start_daemon,
)
from tests.verification.campaigns.chaos.folder_disasters import FOLDER_DISASTERS
from tests.verification.campaigns.chaos.host_disasters import SIZES
from tests.verification.campaigns.chaos.stage import Stage

NAMES: Final = "alfa bravo charlie delta echo foxtrot golf hotel india".split()  # noqa: SIM905
MAX_DAEMONS: Final = len(NAMES)
DELAYS_S: Final = (0.005, 0.08)
LOSSES: Final = (0.0, 0.0, 0.005, 0.01, 0.05)
MEGABITS: Final = (None, None, 10, 100)
QUEUE_S: Final = 0.1
SHAPES: Final = ("mesh", "mesh", "chain")

Link = tuple[str, str]


def one_site(daemons: int) -> Topology:
    """All on one network without any delay."""
    return Topology.of(NAMES[:daemons], 1, Line())


def draw_topology(rng: Random, daemons: int, sites: int) -> Topology:
    """Sites whose links differ: 5 to 80 ms, up to 5 % loss, some of them narrow."""
    if sites == 1:
        return one_site(daemons)
    plain = Topology.of(NAMES[:daemons], sites, Line(), rng.choice(SHAPES))
    return Topology(sites=plain.sites, links={link: _draw_line(rng) for link in plain.links})


def _draw_line(rng: Random) -> Line:
    delay_s, megabit = rng.uniform(*DELAYS_S), rng.choice(MEGABITS)
    return Line(
        delay_s=delay_s,
        jitter_s=delay_s * rng.choice((0.0, 0.1)),
        loss=rng.choice(LOSSES),
        bytes_per_s=None if megabit is None else megabit * BYTES_PER_S,
        queue_s=QUEUE_S,
    )


def describe(topology: Topology) -> str:
    """The lines between sites, in one line of text."""
    return "; ".join(
        f"{one}-{other} {line.delay_s * 1000:.0f} ms, loss {line.loss:g}"
        + (f", {line.bytes_per_s / BYTES_PER_S:g} Mbit/s" if line.bytes_per_s else "")
        for (one, other), line in topology.links.items()
    )


def parts(topology: Topology, without: Collection[Link]) -> list[list[str]]:
    """The daemons that still reach each other once these links are gone, part by part."""
    found = [{site} for site in topology.sites]
    for link in topology.links:
        if link not in without:
            joined = [part for part in found if part & set(link)]
            found = [part for part in found if part not in joined] + [set[str]().union(*joined)]
    return [sorted(n for site in part for n in topology.sites[site]) for part in found]


async def _part(stage: Stage, rng: Random, kind: str, links: Collection[Link]) -> Outcome:
    """Cut links, see the views of all parts, and mend them."""
    at = now_us()
    for link in links:
        stage.relay.cut(stage.topology.between(*link))
    found = parts(stage.topology, links)
    view_ms = max([await stage.view(part, at) for part in found])
    await trio.sleep(rng.uniform(0.0, 1.0))
    stage.relay.mend()
    healed = now_us()
    return Outcome(kind, view_ms if len(found) > 1 else None, await stage.view(stage.names, healed))


async def kill_gateway(stage: Stage, rng: Random) -> Outcome:
    """The daemon that serves the links of a site is killed, and started again."""
    victim = stage.topology.sites[rng.choice(list(stage.topology.sites))][0]
    view_ms = await stage.view(stage.others(victim), await stage.kill_daemon(victim))
    await trio.sleep(rng.uniform(0.0, 0.5))
    return Outcome("kill gateway", view_ms, await start_daemon(stage, victim))


async def cut_off_site(stage: Stage, rng: Random) -> Outcome:
    """Nothing passes between a site and all others; in the middle of a chain this parts three."""
    site = rng.choice(list(stage.topology.sites))
    return await _part(stage, rng, "site cut off", [x for x in stage.topology.links if site in x])


async def break_link(stage: Stage, rng: Random) -> Outcome:
    """Cut a link: packets take another way if there is one, otherwise the chain is in two parts."""
    return await _part(stage, rng, "link broken", [rng.choice(list(stage.topology.links))])


async def break_all_links(stage: Stage, rng: Random) -> Outcome:
    """Every site is alone, and all merge at once."""
    return await _part(stage, rng, "all sites apart", list(stage.topology.links))


async def flap_link(stage: Stage, rng: Random) -> Outcome:
    """A link comes and goes, faster and slower than it takes to notice."""
    pairs = list(stage.topology.between(*rng.choice(list(stage.topology.links))))
    for _ in range(rng.randint(3, 6)):
        stage.relay.cut(pairs)
        await trio.sleep(rng.uniform(0.1, 2.0) * TOKEN_TIMEOUT_S)
        stage.relay.mend(pairs)
        await trio.sleep(rng.uniform(0.1, 2.0) * TOKEN_TIMEOUT_S)
    return Outcome("link flapped", None, await stage.view(stage.names, now_us()))


async def split_site(stage: Stage, rng: Random) -> Outcome:
    """The daemons of a site do not hear each other, but other sites: it has two rings then."""
    site = rng.choice(list(stage.topology.sites.values()))
    stage.relay.cut(list(stage.relay.between(site[:1], site[1:])))
    await trio.sleep(rng.uniform(1.0, 3.0))
    await stage.view(stage.names, now_us())
    stage.relay.mend()
    return Outcome("site split inside", None, await stage.view(stage.names, now_us()))


async def hold_link(stage: Stage, rng: Random) -> Outcome:
    """Hold all datagrams on a link, and release them at once."""
    seconds = rng.uniform(0.2, 2.0)
    stage.relay.hold(stage.topology.between(*rng.choice(list(stage.topology.links))), seconds)
    await trio.sleep(seconds)
    return Outcome("link held", None, await stage.view(stage.names, now_us()))


async def lose_long_on_a_link(stage: Stage, rng: Random) -> Outcome:
    """Lose long datagrams between two sites, or between a daemon and all other sites."""
    topology, relay = stage.topology, stage.relay
    site = rng.choice(list(topology.sites.values()))
    victim = rng.choice(site)
    if rng.random() < 0.5:
        pairs = list(topology.between(*rng.choice(list(topology.links))))
    else:
        pairs = [pair for pair in relay.ports if victim in pair and not set(pair) <= set(site)]
    relay.narrow(pairs, rng.choice(SIZES))
    await trio.sleep(rng.uniform(1.0, 6.0))
    relay.narrow(pairs, inf)
    return Outcome(
        "long datagrams lost between sites", None, await stage.view(stage.names, now_us())
    )


SITE_DISASTERS: Final[tuple[Disaster, ...]] = (
    kill_gateway,
    cut_off_site,
    flap_link,
    split_site,
    kill_gateway,
    break_link,
    break_all_links,
    hold_link,
    lose_long_on_a_link,
)

SITES_IN_TURN: Final[tuple[Disaster, ...]] = tuple(
    disaster
    for at, other in enumerate((*DISASTERS, *FOLDER_DISASTERS))
    for disaster in (SITE_DISASTERS[at % len(SITE_DISASTERS)], other)
)
"""The disasters of sites, in turn with all others."""
