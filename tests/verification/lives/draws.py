"""The settings of a long life, and those of each of its episodes: drawn from its seed."""

from random import Random
from typing import Final

import attrs

from groupcomm.sim.faults.faults import Faults, draw_faults
from groupcomm.sim.virtual_time import random_for
from tests.verification.simulation.settings import (
    VerificationOptions,
    VerificationSettings,
    draw_settings,
)

HOUR_S: Final = 3600.0

SHORTEST_EPISODE_S: Final = 5.0
LONGEST_EPISODE_S: Final = 40.0
"""The time of faults and load, in seconds at pace 1."""

SHORTEST_CALM_S: Final = 2.0
LONGEST_CALM_S: Final = 10.0
"""The mean time between two faults that break views, in seconds at pace 1."""

MEAN_QUIET_S: Final = 1200.0
"""The mean time from the rest after an episode to the next episode, in seconds at any pace."""

IDLE_SHARE: Final = 0.2
"""The share of episodes without load: faults hit a cluster that does nothing."""

ABSENT_SHARE: Final = 0.25
"""The share of quiet times for which a daemon is down."""

APART_SHARE: Final = 0.15
"""The share of quiet times for which the network is partitioned."""

MOST_WORDS: Final = 4
"""The most messages of a quiet time: a token that rests for long must still be fetched."""


@attrs.frozen(kw_only=True)
class LifeOptions(VerificationOptions):
    """Options of a long life; the duration of `Options` does not count.

    Attributes:
        hours: the simulated time, in hours.
        pace: the factor of the token timeout, of the interval of beacons, and with them of the
            lengths of faults.
        bad_clocks: whether clocks always run wrong, jump, stand still, and start ahead.
        first: the number of the first episode; with a later one than 0, a new cluster meets the
            later episodes of the same life.
        last: the number of the last episode; None for none, as long as the hours last.
    """

    hours: float = 24.0
    pace: float = 1.0
    bad_clocks: bool = False
    first: int = 0
    last: int | None = None


def draw_life(seed: int, options: LifeOptions) -> VerificationSettings:
    """Draw the settings of a life.

    Its faults are those of hosts and clocks that any of its episodes may have.
    """
    settings = draw_settings(seed, attrs.evolve(options, faults="every"))
    faults = attrs.evolve(settings.faults, cold_s=0.0)
    if options.bad_clocks:
        rng = random_for(seed, "bad clocks")
        wrong = draw_faults(rng, "clock,frozen-clock,ahead", None, rng)
        names = ("clock_rate", "frozen_s", "ahead_s")
        faults = attrs.evolve(faults, **{name: getattr(wrong, name) for name in names})
    return attrs.evolve(
        settings,
        faults=faults,
        core=tuple(range(settings.daemons)),
        pace=options.pace,
        calm_s=LONGEST_CALM_S * options.pace,
        duration_s=options.hours * HOUR_S,
    )


@attrs.frozen(kw_only=True)
class Episode:
    """A time of faults, and of load before, among and after them.

    Attributes:
        settings: those of the life, with the faults of the episode and the calm between them.
        lasts_s: the time of faults, in seconds.
        load: whether programs send and come and go.
        silence: whether the load ends before the faults; otherwise after them.
    """

    settings: VerificationSettings
    lasts_s: float
    load: bool
    silence: bool


def draw_episode(life: VerificationSettings, number: int) -> Episode:
    """Draw an episode: each of the faults is on with probability 1/2, as in any run.

    What outlives an episode is the same in all of a life: the rates and errors of clocks, whether
    one may start ahead, the starts of counters, whether datagrams are sealed, and the caps of
    sessions.
    """
    rng = random_for(life.seed, f"episode {number}")
    whole, several = life.faults, len(life.sites) > 1
    faults = draw_faults(rng, "every", rng if several else None, rng)
    faults = attrs.evolve(
        faults,
        clock_rate=whole.clock_rate,
        counter_bits=whole.counter_bits,
        cold_s=0.0,
        frozen_s=faults.frozen_s if whole.frozen_s else 0.0,
        ahead_s=faults.ahead_s if whole.ahead_s else 0.0,
        attacker=faults.attacker and whole.attacker,
        storm=faults.storm and whole.storm,
        # Where a clock may be behind, no clock shows that a disk has lost something.
        disk=faults.disk and not (whole.clock_rate or whole.frozen_s),
        files=faults.files and not life.rosters,
    )
    lasts_s = rng.uniform(SHORTEST_EPISODE_S, LONGEST_EPISODE_S) * life.pace
    calm_s = rng.uniform(SHORTEST_CALM_S, LONGEST_CALM_S) * life.pace
    return Episode(
        settings=attrs.evolve(life, faults=_slower(faults, life.pace), calm_s=calm_s),
        lasts_s=lasts_s,
        load=rng.random() >= IDLE_SHARE,
        silence=rng.random() < 0.5,
    )


def _slower(faults: Faults, pace: float) -> Faults:
    """Return faults that last as many token timeouts at this pace as they do at pace 1."""
    names = ("partition_s", "flap_s", "crash_s", "pause_s", "link_cut_s", "link_flap_s")
    return attrs.evolve(faults, **{name: getattr(faults, name) * pace for name in names})


def draw_quiet_s(rng: Random) -> float:
    """Draw the time from an episode to the next."""
    return rng.expovariate(1.0 / MEAN_QUIET_S)
