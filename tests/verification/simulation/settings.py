"""Settings of runs that verify the toolkit: those of any run, and who or what else takes part."""

from random import Random
from typing import Any, Final

import attrs

from groupcomm.config.core import CoreConfig, Rekeying
from groupcomm.engine.segmentation import BUNDLE_PACKET_BYTES
from groupcomm.errors import ConfigError
from groupcomm.sim import settings as simulator
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.settings import Options, Settings, Sites, draw_core, reachable_core
from groupcomm.sim.virtual_time import random_for
from tests.verification.simulation.attackers.roles import (
    NOTHING,
    check_roles,
    draw_epoch_s,
    draw_evicted,
    draw_unit_us,
    least_suite,
)
from tests.verification.simulation.byzantine.liar import Lying, draw_liars, draw_lying
from tests.verification.simulation.segments import SitePaths

ETHERNET: Final = 1472
TUNNEL: Final = 1372
JUMBO: Final = 8972
LOOPBACK: Final = 65_507


@attrs.frozen(kw_only=True)
class VerificationOptions(Options):
    """The options of `Options`, and who or what else takes part.

    Attributes:
        byzantine: whether a daemon of the cluster lies.
        attackers: the roles of attackers that take part, see attackers/roles.py.
        rosters: whether operators add and remove daemons.
        votes: whether they change votes and policy, too.
        versions: whether each start of a daemon may be one of another release.
        targets: whether packets of chosen kinds are lost, held, copied or late, and programs are
            rough; datagrams are not encrypted then, so that the network knows their kinds.
        segments: whether large packets travel in segments, over paths of several sizes.
        minority: whether some programs join groups so that they pause, or leave, without a quorum.

    Raises:
        ConfigError: an option has no such value, or two options exclude each other.
    """

    byzantine: bool = False
    attackers: tuple[str, ...] = ()
    rosters: bool = False
    votes: bool = False
    versions: bool = False
    targets: bool = False
    segments: bool = False
    minority: bool = False

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        check_roles(self.attackers, self.suite, self.daemons)
        if self.votes and not self.rosters:
            raise ConfigError("votes without rosters: they are a part of the roster; ask for both")
        if self.rosters and (self.byzantine or self.attackers):
            raise ConfigError(
                "rosters together with a daemon that lies or with an attacker: a lying daemon can"
                " remove others, so nothing could be checked; run one of them"
            )
        if self.versions and (self.byzantine or self.attackers):
            raise ConfigError(
                "versions together with a daemon that lies or with an attacker: a lying daemon lies"
                " about its versions, too, so nothing could be checked; run one of them"
            )
        if self.targets and (self.suite or self.attackers):
            raise ConfigError(
                "targets together with encryption or an attacker: the network could not know the"
                " kinds of packets; run one of them"
            )
        if self.segments and (self.targets or self.byzantine):
            raise ConfigError(
                "segments together with targets or a daemon that lies: both are for whole"
                " datagrams; run one of them"
            )
        if self.byzantine and self.attackers:
            raise ConfigError(
                "byzantine together with an attacker: a lying daemon does everything "
                "that an attacker must not, so nothing could be checked; run one of them"
            )


@attrs.frozen(kw_only=True)
class VerificationSettings(Settings):
    """The settings of `Settings`, and who or what else takes part.

    Attributes:
        liars: the daemons that lie, by index; the core then consists of others.
        lying: the lies that they send.
        attackers: the roles of attackers that take part.
        evicted: the daemon that is evicted, by index; None for none.
        epoch_s: the time for which a daemon seals with the same keys, in seconds.
        rosters: whether operators add and remove daemons.
        versions: whether each start of a daemon may be one of another release.
        targets: whether packets of chosen kinds suffer, and programs are rough.
        spares: the daemons that the first roster does not have, by index.
        paths: what the paths within sites carry; None if no packet travels in segments.
    """

    liars: tuple[int, ...] = ()
    lying: Lying = attrs.field(factory=Lying)
    attackers: tuple[str, ...] = ()
    evicted: int | None = None
    epoch_s: float = Rekeying().epoch_s
    rosters: bool = False
    votes: bool = False
    versions: bool = False
    targets: bool = False
    spares: tuple[int, ...] = ()
    paths: SitePaths | None = None

    @property
    def bundle_bytes(self) -> int:
        """Return the bytes of a packet that programs fill with one message."""
        return self.packet_limit if self.paths is None else BUNDLE_PACKET_BYTES


def widened(settings: Settings, **more: Any) -> VerificationSettings:
    """Return settings in which others take part as well."""
    if isinstance(settings, VerificationSettings):
        return attrs.evolve(settings, **more)
    return VerificationSettings(**{**attrs.asdict(settings, recurse=False), **more})


def widened_options(options: Options) -> VerificationOptions:
    """Return options with which nobody else takes part, unless they say who does."""
    if isinstance(options, VerificationOptions):
        return options
    return VerificationOptions(**attrs.asdict(options, recurse=False))


def draw_settings(seed: int, options: Options) -> VerificationSettings:
    """Draw the settings that `options` leave open."""
    wide = widened_options(options)
    roles = wide.attackers
    drawn = simulator.draw_settings(seed, options, lambda faults: _changed(faults, wide))
    daemons = drawn.daemons
    liars = draw_liars(random_for(seed, "liars"), daemons) if wide.byzantine else ()
    evicted = draw_evicted(random_for(seed, "evicted"), roles, daemons)
    least = 0 if wide.targets else max(drawn.suite, least_suite(roles))
    return widened(
        drawn,
        suite=least if wide.suite is None else wide.suite,
        packet_limit=CoreConfig().packet_limit if wide.segments else drawn.packet_limit,
        core=reachable_core(_core(seed, drawn, wide, liars, evicted), drawn.sites, drawn.links),
        liars=liars,
        lying=draw_lying(random_for(seed, "lying")) if liars else Lying(),
        attackers=roles,
        evicted=evicted,
        epoch_s=draw_epoch_s(random_for(seed, "epochs"), roles),
        unit_us=draw_unit_us(random_for(seed, "units"), roles),
        rosters=wide.rosters,
        votes=wide.votes,
        versions=wide.versions,
        # Where relays pass messages on, all daemons are of one release (docs/compatibility.md).
        many_daemons=CoreConfig().many_daemons if wide.versions else drawn.many_daemons,
        # Rows in full, for releases that read no columns, have no room for requests in few bytes.
        token_bytes=CoreConfig().token_bytes if wide.versions else drawn.token_bytes,
        readers=not wide.versions,
        minority=wide.minority,
        targets=wide.targets,
        paths=_draw_paths(random_for(seed, "paths"), wide) if wide.segments else None,
        spares=draw_spares(random_for(seed, "spares"), drawn.sites)
        if wide.rosters and not wide.votes
        else (),
    )


def _changed(faults: Faults, options: VerificationOptions) -> Faults:
    if options.rosters:  # files do not count any more
        faults = attrs.evolve(faults, files=False)
    if options.targets:
        faults = attrs.evolve(faults, attacker=False)
    if NOTHING in options.attackers:
        faults = attrs.evolve(faults, attacker=True)
    return faults


def _core(
    seed: int,
    drawn: Settings,
    options: VerificationOptions,
    liars: tuple[int, ...],
    evicted: int | None,
) -> tuple[int, ...]:
    """Return the daemons that must agree in the end; never one that is evicted or lies."""
    others = tuple(each for each in range(drawn.daemons) if each not in (*liars, evicted))
    if liars or options.rosters:  # with operators it is up to them which daemons these are
        return others
    return tuple(each for each in draw_core(seed, drawn.daemons) if each != evicted) or others


def _draw_paths(rng: Random, options: VerificationOptions) -> SitePaths:
    """Draw what the paths of a run carry, and say that they carry.

    Only daemons that cut their datagrams can cope with paths that carry less, so with several
    releases none does.
    """
    said, true = rng.choice(
        (
            *((ETHERNET, ETHERNET), (ETHERNET, ETHERNET), (TUNNEL, TUNNEL)),
            *((JUMBO, JUMBO), (LOOPBACK, LOOPBACK)),
            *((JUMBO, ETHERNET), (ETHERNET, TUNNEL), (JUMBO, TUNNEL)),
        )
    )
    return SitePaths(
        said_bytes=said,
        true_bytes=said if options.versions else true,
        segmented_limit=rng.choice((3000, 9000, 60_000, 60_000)),
    )


def draw_spares(rng: Random, sites: Sites) -> tuple[int, ...]:
    """Return daemons that the first roster does not have; it has one of each site at least."""
    found: list[int] = []
    for site in sites:
        found += rng.sample(site, rng.randint(0, len(site) - 1))
    return tuple(sorted(found))
