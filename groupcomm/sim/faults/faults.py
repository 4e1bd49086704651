"""The faults of a run and their strengths: drawn from its seed, swarm style.

Each seed switches each fault on with probability 1/2 and draws its strength, so that many runs
lack most faults: a fault that is always there hides the problems that it prevents (Groce et al.,
"Swarm testing", ISSTA 2012). Zero switches a fault off.
"""

from collections.abc import Callable, Iterable
from math import log10
from random import Random
from typing import Any, Final

import attrs

from groupcomm.config.core import Timing
from groupcomm.errors import ConfigError

TOKEN_TIMEOUT_S: Final = Timing().token_timeout_s
LONGEST_JAM_S: Final = 5.0


@attrs.frozen(kw_only=True)
class Faults:
    """The faults of one run.

    Attributes:
        loss: chance that a datagram is lost, 0 to 0.3.
        burst_packets: mean length of bursts in which three of four datagrams are lost, 5 to 200.
        duplication: the probability that a datagram arrives a second time, up to ten token timeouts
            later.
        reorder_packets: the number of later datagrams of its path that may overtake a datagram, to
            64.
        jam_s: the longest time for which a daemon's datagrams are held, to 5.
        corruption: chance that bits flip, the end is cut off or garbage is appended, to 0.02.
        capacity_packets: the datagrams in flight on one path above which they are dropped, 2 to 20.
        slow_factor: the factor by which each step of one daemon takes longer than usual, 10 to
            1000.
        clock_rate: the largest error of a daemon's clock rate, to 0.1; wall clocks jump.
        delay_mean_s: the mean of an exponential delay of every datagram, 0.0001 to 0.1 seconds; a
            few take up to three token timeouts.
        counter_bits: counters start a little below 2 to this power; 31, 32 or 63.
        storm: whether clients join, leave, crash, stop reading and send large messages in masses.
        attacker: whether an attacker without the key replays and forges datagrams.
        cold_s: the time in which the daemons start, with all other faults, to 2.
        partition_s: the longest time of a partition, 0.5 to 5.
        directed_loss: the share of datagrams that one direction of one pair loses, 0.5 to 1; for
            long.
        flap_s: the period with which paths are cut and mended, 0.1 to 3 token timeouts.
        crash_s: the time in which killed daemons start again, to 8.
        pause_s: the longest pause of a daemon, 0.1 to 20 token timeouts.
        disk: daemons are killed and find their disk lost, rolled back, or cloned.
        leave: daemons leave in order and start again.
        files: whether hosts get other configurations, with which their daemons start again.
        ahead_s: the lead of the wall clock with which one daemon starts, 60 to 86,400; it is right
            again soon, and no help to daemons whose disks are damaged later.
        slow_disk_s: the time of a slow disk's write, 0.1 to 10; for some writes, or to the end.
        hung_disk_s: the longest time for which a disk hangs, 0.1 to 10; or to the end.
        full_disk_s: the longest time for which writes of a disk fail, 0.1 to 10; or to the end.
        failing_disk_s: the same, but the failed writes may be durable.
        link_loss: the probability that a link between sites loses a datagram, for the worst link,
            to 0.1.
        link_jitter: the share of its delay by which a link takes longer at times, to 1.
        link_load: the factor by which a link may be wider than the narrowest that carries the load
            of a campaign, 1 to 10; see settings.py.
        link_cut_s: the longest time for which links are cut, alone or several at once, 0.5 to 5.
        link_flap_s: a link is cut and mended again and again with this period, to 3 token timeouts.
        gateways: daemons at the ends of links are killed.
        card_bytes: the longest datagram that a bad network card passes for some seconds, 100 to
            1,200.
        frozen_s: the longest time for which a wall clock stands still, 1 to 100.
        vanish_s: the longest time for which the connection of a program is silent in both
            directions, 0.3 to 10; sometimes the program crashes meanwhile. Sessions have heartbeats
            then, and short timeouts.
    """

    loss: float = 0.0
    burst_packets: int = 0
    duplication: float = 0.0
    reorder_packets: int = 0
    jam_s: float = 0.0
    corruption: float = 0.0
    capacity_packets: int = 0
    slow_factor: int = 0
    clock_rate: float = 0.0
    delay_mean_s: float = 0.0
    counter_bits: int = 0
    storm: bool = False
    attacker: bool = False
    cold_s: float = 0.0
    partition_s: float = 0.0
    directed_loss: float = 0.0
    flap_s: float = 0.0
    crash_s: float = 0.0
    pause_s: float = 0.0
    disk: bool = False
    leave: bool = False
    files: bool = False
    ahead_s: float = 0.0
    slow_disk_s: float = 0.0
    hung_disk_s: float = 0.0
    full_disk_s: float = 0.0
    failing_disk_s: float = 0.0
    link_loss: float = 0.0
    link_jitter: float = 0.0
    link_load: float = 0.0
    link_cut_s: float = 0.0
    link_flap_s: float = 0.0
    gateways: bool = False
    card_bytes: int = 0
    frozen_s: float = 0.0
    vanish_s: float = 0.0

    @property
    def on_paths(self) -> bool:
        """Return whether any fault acts on single datagrams."""
        return any(
            (self.loss, self.burst_packets, self.duplication, self.reorder_packets, self.jam_s)
        ) or any((self.corruption, self.capacity_packets, self.delay_mean_s))

    @property
    def keep_apart(self) -> bool:
        """Return whether a daemon that starts may meet none of those that run."""
        cuts = self.partition_s, self.directed_loss, self.flap_s, self.card_bytes
        return self.on_paths or any(cuts) or any((self.pause_s, self.slow_factor, self.files))


_DRAW: Final[dict[str, tuple[str, Callable[[Random], Any]]]] = {
    "loss": ("loss", lambda rng: 0.3 * rng.random() ** 2),
    "burst": ("burst_packets", lambda rng: rng.randint(5, 200)),
    "duplication": ("duplication", lambda rng: 0.5 * rng.random() ** 2),
    "reorder": ("reorder_packets", lambda rng: rng.randint(2, 64)),
    "jam": ("jam_s", lambda rng: 10 ** rng.uniform(-2.0, log10(LONGEST_JAM_S))),
    "corruption": ("corruption", lambda rng: rng.uniform(0.0, 0.02)),
    "capacity": ("capacity_packets", lambda rng: rng.randint(2, 20)),
    "slow": ("slow_factor", lambda rng: round(10 ** rng.uniform(1.0, 3.0))),
    "clock": ("clock_rate", lambda rng: rng.uniform(0.0, 0.1)),
    "delay": ("delay_mean_s", lambda rng: 10 ** rng.uniform(-4.0, -1.0)),
    "counters": ("counter_bits", lambda rng: rng.choice((31, 32, 63))),
    "storm": ("storm", lambda rng: True),
    "attacker": ("attacker", lambda rng: True),
    "cold": ("cold_s", lambda rng: rng.uniform(0.001, 2.0)),
    "partition": ("partition_s", lambda rng: rng.uniform(0.5, 5.0)),
    "directed": ("directed_loss", lambda rng: rng.choice((1.0, rng.uniform(0.5, 1.0)))),
    "flapping": ("flap_s", lambda rng: 10 ** rng.uniform(-1.0, log10(3.0)) * TOKEN_TIMEOUT_S),
    "crash": ("crash_s", lambda rng: 10 ** rng.uniform(-2.0, log10(8.0))),
    "pause": ("pause_s", lambda rng: 10 ** rng.uniform(-1.0, log10(20.0)) * TOKEN_TIMEOUT_S),
    "disk": ("disk", lambda rng: True),
    "leave": ("leave", lambda rng: True),
    "files": ("files", lambda rng: True),
    "ahead": ("ahead_s", lambda rng: 10 ** rng.uniform(log10(60.0), log10(86_400.0))),
    "slow-disk": ("slow_disk_s", lambda rng: 10 ** rng.uniform(-1.0, 1.0)),
    "hung-disk": ("hung_disk_s", lambda rng: 10 ** rng.uniform(-1.0, 1.0)),
    "full-disk": ("full_disk_s", lambda rng: 10 ** rng.uniform(-1.0, 1.0)),
    "failing-disk": ("failing_disk_s", lambda rng: 10 ** rng.uniform(-1.0, 1.0)),
}

_DRAW_BETWEEN_SITES: Final[dict[str, tuple[str, Callable[[Random], Any]]]] = {
    "link-loss": ("link_loss", lambda rng: 0.1 * rng.random() ** 2),
    "link-jitter": ("link_jitter", lambda rng: rng.uniform(0.05, 1.0)),
    "bandwidth": ("link_load", lambda rng: 10 ** rng.random()),
    "links": ("link_cut_s", lambda rng: rng.uniform(0.5, 5.0)),
    "link-flapping": ("link_flap_s", lambda rng: 10 ** rng.uniform(-1.0, 0.5) * TOKEN_TIMEOUT_S),
    "gateways": ("gateways", lambda rng: True),
}

_DRAW_OF_HOSTS: Final[dict[str, tuple[str, Callable[[Random], Any]]]] = {
    "card": ("card_bytes", lambda rng: round(10 ** rng.uniform(2.0, 3.08))),
    "frozen-clock": ("frozen_s", lambda rng: 10 ** rng.uniform(0.0, 2.0)),
    "vanishing": ("vanish_s", lambda rng: 10 ** rng.uniform(-0.5, 1.0)),
}

_DRAW_ALL: Final = _DRAW | _DRAW_BETWEEN_SITES | _DRAW_OF_HOSTS

FAULT_NAMES: Final = tuple(_DRAW_ALL)
"""Names of all faults, as the command line takes them."""


def names_of(faults: Faults) -> tuple[str, ...]:
    """Return the names of the faults that are on."""
    return tuple(name for name, (field, _) in _DRAW_ALL.items() if getattr(faults, field))


def draw_faults(
    rng: Random,
    wanted: str,
    between_sites: Random | None = None,
    of_hosts: Random | None = None,
) -> Faults:
    """Draw the faults of one run.

    Args:
        rng: the run's source for this purpose.
        wanted: ``all`` or ``every`` (each with probability 1/2), ``none``, or names with commas
            between them (each of them, for certain).
        between_sites: the random source for faults between sites; None in a run with one site,
            which has no such faults, whatever is wanted.
        of_hosts: the random source for faults of single hosts; None for ``all``, which has none of
            these: seeds stay as they were before there were any.

    Raises:
        ConfigError: a name is not one of FAULT_NAMES.
    """
    names = fault_names(wanted)
    drawn = _draw(_DRAW, rng)
    if between_sites is not None:
        drawn |= _draw(_DRAW_BETWEEN_SITES, between_sites)
    if of_hosts is not None:
        drawn |= _draw(_DRAW_OF_HOSTS, of_hosts)
    on = [name for name, (lot, _) in drawn.items() if (lot if names is None else name in names)]
    return Faults(**{_DRAW_ALL[name][0]: drawn[name][1] for name in on})


def _draw(
    table: dict[str, tuple[str, Callable[[Random], Any]]], rng: Random
) -> dict[str, tuple[bool, Any]]:
    """Return whether each fault is on, and how strong.

    Every one draws both, so that --faults with some names keeps strengths.
    """
    return {name: (rng.random() < 0.5, draw(rng)) for name, (_, draw) in table.items()}


def fault_names(wanted: str) -> frozenset[str] | None:
    """Parse the command line's choice of faults; None means a draw for each.

    Raises:
        ConfigError: a name is not one of FAULT_NAMES.
    """
    if wanted in ("all", "every"):
        return None
    names: Iterable[str] = () if wanted == "none" else wanted.split(",")
    for name in names:
        if name not in _DRAW_ALL:
            known = ", ".join(FAULT_NAMES)
            raise ConfigError(f"no fault is named {name!r}; there are: all, every, none, {known}")
    return frozenset(names)
