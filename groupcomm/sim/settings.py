"""Settings of one run: the command line fixes some, the seed draws the rest."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count, islice, pairwise
from random import Random
from typing import Final, TypeAlias

import attrs

from groupcomm.config.core import CoreConfig, CounterStarts, RightLimits, Timing, Windows
from groupcomm.config.view import MAX_RINGS
from groupcomm.errors import ConfigError
from groupcomm.session.daemon_session import SessionLimits
from groupcomm.sim.faults.faults import Faults, draw_faults, fault_names
from groupcomm.sim.network.links import (
    TOPOLOGIES,
    USUAL_JITTER,
    SimulatedLink,
    SitePair,
    check_links,
    equal_links,
    joined,
    longest_way_s,
)
from groupcomm.sim.virtual_time import random_for

Sites: TypeAlias = tuple[tuple[int, ...], ...]
"""For each site the indices of its daemons."""

FEW_SITES: Final = (2, 4)
MOST_DAEMONS: Final = 9
"""The most daemons of a run with few sites, however they are spread."""

MANY_SHARE: Final = 1 / 12
"""The share of many sites among the runs with several sites, which are one in eight of all."""

MANY_SITES: Final = (5, 8)
MOST_IN_A_SITE: Final = 9

SHORTEST_LINK_S: Final = 0.005
LONGEST_LINK_S: Final = 0.08
LONGEST_WAY_S: Final = 0.12
"""The most one-way delay of a link, and of the longest way over links. With twice as much, daemons
whose attempts fail again and again wait so long in between that the 3 s of L1 are too short."""

LEAST_BYTES_PER_S: Final = 1_000_000
"""A rate at which each link carries the packets of nine daemons when views change under load."""

MAX_DAEMONS = 1024
"""The most daemons: a path leads from each one to each other one, and more would need too much
memory."""

ONE_SITE_SHARE = 0.88
SHORTEST_CALM_S = 2.0
MOST_CALMS = 3
"""The most disturbances that fit into a run on average, if it is long enough."""

AFFORDABLE_DAEMONS = 2 * MOST_DAEMONS
"""The number of daemons above which load and faults take a shorter time."""

LINGERS_S = (0.0, 0.0, Timing().linger_s, 0.005)
NOTICE_INTERVALS_S = (Timing().horizon_interval_min_s, 0.02, 0.04, 0.04)
FEW_DAEMONS = (CoreConfig().few_daemons, 0)
MANY_DAEMONS = (CoreConfig().many_daemons, CoreConfig().many_daemons, 0)
TOKEN_BYTES = (CoreConfig().token_bytes, CoreConfig().token_bytes, 120)
RIGHTS = (RightLimits(), RightLimits(idle_s=0.2), RightLimits(most=1, idle_s=1.0))
LEAVE_TIMEOUTS_S = (CoreConfig().leave_timeout_s, CoreConfig().leave_timeout_s, 0.3, 0.0)
SMALL_WINDOWS = Windows(
    visit_bytes=12_000, ring_bytes=30_000, ahead_bytes=20_000, stream_packets=64
)
BACKLOG_CAPS_BYTES = (SessionLimits().backlog_cap_bytes, SessionLimits().backlog_cap_bytes, 4_000)
"""With the last, a few packets, programs are often not read as too much waits for a number."""

ALL_AGREE_SHARE = 0.6
SHORT_TIMEOUT_S = 1.5
"""The silence of a program after which its session ends, in runs in which programs vanish."""

STORM_CAP_BYTES = 130_000
"""Above the largest message of a storm, and low enough for clients to become too slow for it."""


@attrs.frozen(kw_only=True)
class Options:
    """The options that a user fixes for all seeds.

    Attributes:
        daemons: the number of all daemons; None draws 2 to 7 for each seed, and up to 9 for several
            sites.
        sites: the number of sites; None draws 1 for seven of eight seeds, otherwise 2 to 4 and, in
            one seed of a hundred, 5 to 8 of up to 9 daemons each.
        faults: ``all``, ``every``, ``none`` or names of faults with commas between them, see
            faults.py.
        duration_s: simulated seconds with faults and load, before everything settles.
        suite: the suite that protects datagrams, 0 to 2; None draws 0 or 1 for each seed.

    Raises:
        ConfigError: an option has no such value.
    """

    daemons: int | None = None
    sites: int | None = None
    faults: str = "all"
    duration_s: float = 10.0
    suite: int | None = None

    def __attrs_post_init__(self) -> None:
        fault_names(self.faults)  # raises ConfigError
        daemons = MAX_DAEMONS if self.daemons is None else self.daemons
        if not 1 <= daemons <= MAX_DAEMONS:
            raise ConfigError(f"daemons is {daemons}; a simulated cluster has 1 to {MAX_DAEMONS}")
        if self.sites is not None and not 1 <= self.sites <= min(daemons, MAX_RINGS):
            most = min(daemons, MAX_RINGS)
            raise ConfigError(f"sites is {self.sites}; there are 1 to {most}, one daemon each")
        if self.suite not in (None, 0, 1, 2):
            raise ConfigError(f"suite is {self.suite}; it must be 0, 1 or 2")
        if not self.duration_s > 0:
            raise ConfigError(f"duration_s is {self.duration_s}; it must be above 0")


@attrs.frozen(kw_only=True)
class Settings:
    """The settings that one run is made from.

    Attributes:
        seed: the seed of all random sources.
        sites: for each site the indices of its daemons; each site has one ring while all of it hear
            each other.
        links: the links between neighbouring sites. Other sites do not hear each other at all.
        notice_interval_s: the least time between two horizon notices of a ring.
        linger_s: the time for which a resting token stays after a message.
        leave_timeout_s: the time after which a daemon leaves in any case.
        windows: the windows of each ring; with small ones large messages take several visits of the
            token.
        faults: the faults that happen, and their rates.
        suite: 2 if daemons have identities and datagrams are encrypted, 1 if datagrams are
            encrypted, 0 if they have a checksum only.
        packet_limit: the most bytes of a packet before sealing.
        most_rings: the most rings of a view.
        few_daemons: up to so many daemons, messages about views are said in full, and at once.
        many_daemons: with more at several sites, some pass these messages on between the sites.
        token_bytes: the most bytes of a token; with few it does not tell all at each visit.
        rights: the limits of daemons' rights to send.
        starts: the values at which counters start.
        session_timeout_s: the silence of a program after which its session ends; counts for
            programs that send heartbeats.
        unit_us: microseconds of a daemon's processor for each unit of work and each frame that a
            step delivers; 0: only the step itself takes time.
        session_cap_bytes: the output that may wait for one client before it counts as too slow.
        backlog_cap_bytes: the bytes without a number above which a client is not read.
        start_message: the number at which the clients' counts of messages start.
        clock_error_s: the largest error of wall clocks, in both directions, while no fault makes it
            larger.
        duration_s: simulated seconds of load.
        clients: the number of programs that are connected most of the time.
        calm_s: the mean time between two faults that break views, in seconds.
        silence: whether faults continue after the load, until one last message; otherwise they end
            under load.
        core: the daemons that must agree in the end, by index; empty for all.
        readers: whether some programs join groups without their views, which daemons of earlier
            releases do not know.
        minority: whether some programs join a group so that it pauses without a quorum.
        pace: the factor by which the token timeout and the interval of beacons are longer than
            usual: daemons at rest then send that much less.
    """

    seed: int
    sites: Sites
    links: tuple[SimulatedLink, ...] = ()
    notice_interval_s: float = NOTICE_INTERVALS_S[0]
    linger_s: float = Timing().linger_s
    leave_timeout_s: float = LEAVE_TIMEOUTS_S[0]
    windows: Windows = attrs.field(factory=Windows)
    faults: Faults = attrs.field(factory=Faults)
    suite: int = 0
    packet_limit: int = 1340
    most_rings: int = MAX_RINGS
    few_daemons: int = CoreConfig().few_daemons
    many_daemons: int = CoreConfig().many_daemons
    token_bytes: int = CoreConfig().token_bytes
    rights: RightLimits = attrs.field(factory=RightLimits)
    starts: CounterStarts = attrs.field(factory=CounterStarts)
    unit_us: int = 0
    session_cap_bytes: int = SessionLimits().output_cap_bytes
    backlog_cap_bytes: int = SessionLimits().backlog_cap_bytes
    session_timeout_s: float = SessionLimits().session_timeout_s
    start_message: int = 0
    clock_error_s: float = 0.005
    duration_s: float = 10.0
    clients: int = 8
    calm_s: float = 6.0
    silence: bool = False
    core: tuple[int, ...] = ()
    readers: bool = True
    minority: bool = False
    pace: float = 1.0

    def __attrs_post_init__(self) -> None:
        check_links([f"site {site}" for site in range(len(self.sites))], self.links)

    @property
    def daemons(self) -> int:
        """Return the number of daemons."""
        return sum(map(len, self.sites))

    @property
    def bundle_bytes(self) -> int:
        """Return the bytes of a packet that programs fill with one message."""
        return self.packet_limit


def draw_settings(
    seed: int, options: Options, change: Callable[[Faults], Faults] = lambda drawn: drawn
) -> Settings:
    """Draw the settings that `options` leave open.

    Args:
        seed: the seed.
        options: the settings that are fixed.
        change: changes the drawn faults, before what depends on them is drawn.
    """
    rng = random_for(seed, "settings")
    sites = _draw_sites(rng, seed, options)
    several = len(sites) > 1
    faults = draw_faults(
        random_for(seed, "fault settings"),
        options.faults,
        random_for(seed, "link fault settings") if several else None,
        random_for(seed, "host fault settings") if options.faults != "all" else None,
    )
    faults = change(faults)
    daemons = sum(map(len, sites))
    links = draw_links(random_for(seed, "links"), len(sites), daemons, faults) if several else ()
    duration_s = options.duration_s * min(1.0, AFFORDABLE_DAEMONS / daemons)
    # An attacker without a key can forge a checksum, so attackers meet encrypted datagrams only.
    sealed = 1 if faults.attacker or rng.random() < 0.25 else 0
    return Settings(
        seed=seed,
        sites=sites,
        links=links,
        notice_interval_s=random_for(seed, "notices").choice(NOTICE_INTERVALS_S),
        linger_s=random_for(seed, "stay").choice(LINGERS_S),
        leave_timeout_s=random_for(seed, "leaving").choice(LEAVE_TIMEOUTS_S),
        windows=random_for(seed, "windows").choice((Windows(), Windows(), SMALL_WINDOWS)),
        faults=faults,
        suite=sealed if options.suite is None else options.suite,
        packet_limit=rng.choice((1340, 1340, 1340, 8000)),
        few_daemons=random_for(seed, "few").choice(FEW_DAEMONS),
        many_daemons=random_for(seed, "many").choice(MANY_DAEMONS),
        token_bytes=random_for(seed, "token").choice(TOKEN_BYTES),
        rights=random_for(seed, "rights").choice(RIGHTS),
        starts=_draw_starts(random_for(seed, "starts"), faults.counter_bits),
        session_timeout_s=SHORT_TIMEOUT_S if faults.vanish_s else SessionLimits().session_timeout_s,
        session_cap_bytes=STORM_CAP_BYTES if faults.storm else SessionLimits().output_cap_bytes,
        backlog_cap_bytes=random_for(seed, "backlog").choice(BACKLOG_CAPS_BYTES),
        start_message=_draw_start(random_for(seed, "messages"), faults.counter_bits),
        duration_s=duration_s,
        calm_s=max(SHORTEST_CALM_S, duration_s / MOST_CALMS)
        * 4 ** random_for(seed, "calm").random(),
        silence=random_for(seed, "silence").random() < 0.5,
        core=reachable_core(draw_core(seed, daemons), sites, links),
    )


def plain_settings(
    *,
    daemons: int | Sequence[int] = 3,
    sites: int = 1,
    seed: int = 1,
    delay_s: float = 0.05,
    links: Sequence[SimulatedLink] | None = None,
    faults: Faults | None = None,
) -> Settings:
    """Return settings for an experiment: nothing is drawn, and only requested faults happen.

    Args:
        daemons: the number of all daemons, 1 to MAX_DAEMONS; or the number of each site, then
            `sites` is ignored.
        sites: the number of sites, among which the daemons are spread as evenly as possible.
        seed: the seed of the rest: jitter, and the victims of faults.
        delay_s: the one-way delay between any two sites, where no links are given.
        links: the neighbouring sites and the links between them; None: all are neighbours.
        faults: the faults that happen; none by default.

    Raises:
        ConfigError: too many daemons or sites, or links that do not fit them.
    """
    if not isinstance(daemons, int):
        if not all(size > 0 for size in daemons):
            raise ConfigError(f"daemons are {list(daemons)}; each site has at least one")
        spread = in_order(daemons)
        Options(daemons=sum(daemons), sites=len(daemons))  # checks both
    else:
        Options(daemons=daemons, sites=sites)
        spread = split_evenly(daemons, sites)
    return Settings(
        seed=seed,
        sites=spread,
        links=equal_links(len(spread), delay_s) if links is None else tuple(links),
        faults=faults or Faults(),
    )


def _draw_sites(rng: Random, seed: int, options: Options) -> Sites:
    # The second draw is no longer used, but without it seeds with one site would give other runs.
    lot, _, daemons = rng.random(), rng.choice((2, 2, 3)), rng.randint(2, 7)
    if options.sites == 1 or (options.sites is None and lot < ONE_SITE_SHARE):
        return split_evenly(options.daemons or daemons, 1)
    return draw_sites(random_for(seed, "sites"), options.sites, options.daemons)


def draw_core(seed: int, daemons: int) -> tuple[int, ...]:
    """Return the daemons that must agree in the end: all more often than not, otherwise any."""
    rng = random_for(seed, "core")
    if rng.random() < ALL_AGREE_SHARE:
        return tuple(range(daemons))
    return tuple(sorted(rng.sample(range(daemons), rng.randint(1, daemons))))


def _draw_starts(rng: Random, bits: int) -> CounterStarts:
    return CounterStarts(
        **{name: _draw_start(rng, bits) for name in attrs.fields_dict(CounterStarts)}
    )


def _draw_start(rng: Random, bits: int) -> int:
    """Return a little below 2 to the power of `bits`, so that most runs step over it; 0 without
    bits."""
    below = int(10 ** rng.uniform(0.0, 2.0))
    return 2**bits - below if bits else 0


def split_evenly(daemons: int, sites: int) -> Sites:
    """Share `daemons` among `sites` as evenly as possible, in order."""
    bounds = [daemons * site // sites for site in range(sites + 1)]
    return in_order([last - first for first, last in pairwise(bounds)])


def in_order(sizes: Iterable[int]) -> Sites:
    """Return sites of these sizes; the first ones have the first daemons."""
    daemons = count()
    return tuple(tuple(islice(daemons, size)) for size in sizes)


def draw_sites(rng: Random, sites: int | None, daemons: int | None) -> Sites:
    """Draw the number of sites, unless it is fixed, and the size of each of several sites.

    Args:
        rng: the random source for this purpose.
        sites: the number of sites; None to draw 2 to 4 or, in some runs without fixed daemons, up
            to 8.
        daemons: the number of all daemons; None to draw it.
    """
    many = rng.random() < MANY_SHARE
    if sites is None and daemons is None and many:
        most = [rng.randint(1, MOST_IN_A_SITE) for _ in range(rng.randint(*MANY_SITES))]
        return in_order([rng.randint(1, size) for size in most])  # smaller sites are more likely
    few = rng.randint(*FEW_SITES)
    sites = sites or min(few, daemons or few)
    daemons = daemons or rng.randint(sites, max(MOST_DAEMONS, sites))
    bounds = sorted(rng.sample(range(1, daemons), sites - 1))
    return in_order([last - first for first, last in pairwise((0, *bounds, daemons))])


def draw_links(rng: Random, sites: int, daemons: int, faults: Faults) -> tuple[SimulatedLink, ...]:
    """Draw the neighbours of each site, and the properties of each link."""
    names = list(range(sites))
    rng.shuffle(names)  # so that each site may be in the middle of a star
    pairs = TOPOLOGIES[rng.choice(sorted(TOPOLOGIES))](sites)
    found = sorted((min(names[a], names[b]), max(names[a], names[b])) for a, b in pairs)
    lengths = [rng.uniform(SHORTEST_LINK_S, LONGEST_LINK_S) for _ in found]
    links = [
        _draw_link(rng, pair, delay_s, daemons, faults)
        for pair, delay_s in zip(found, lengths, strict=True)
    ]
    shorter = min(1.0, LONGEST_WAY_S / longest_way_s(sites, links))
    return tuple(
        attrs.evolve(link, delay_s=link.delay_s * shorter, jitter_s=link.jitter_s * shorter)
        for link in links
    )


def _draw_link(
    rng: Random, pair: SitePair, delay_s: float, daemons: int, faults: Faults
) -> SimulatedLink:
    jitter, loss, load = rng.random(), rng.random(), rng.random()
    # At a view change all daemons send their state to all others, which grows with the square.
    least = LEAST_BYTES_PER_S * max(1.0, (daemons / MOST_DAEMONS) ** 2)
    return SimulatedLink(
        sites=pair,
        delay_s=delay_s,
        jitter_s=delay_s * max(USUAL_JITTER, jitter * faults.link_jitter),
        loss=loss * faults.link_loss,
        bytes_per_s=least * faults.link_load**load if faults.link_load else None,
    )


def reachable_core(
    core: tuple[int, ...], sites: Sites, links: Sequence[SimulatedLink]
) -> tuple[int, ...]:
    """Return the daemons of `core` that reach its first one when all others are cut off from it.

    A site without a daemon of the core passes nothing on.
    """
    site_of = {daemon: site for site, members in enumerate(sites) for daemon in members}
    among = {site_of[daemon] for daemon in core}
    there = joined(among, [link.sites for link in links], site_of[core[0]])
    return tuple(daemon for daemon in core if site_of[daemon] in there)
