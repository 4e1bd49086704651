"""Figures in virtual time: exact, and the same on each machine with the same release of Python."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

import attrs

from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm_tools.plan.figures import figures_of
from groupcomm_tools.plan.measure import measure as measure_plan
from groupcomm_tools.plan.topology import read_topology, with_daemons, with_sites
from tests.costs.first_views import FORMING, first_view
from tests.costs.idle import FAMILIES, Earlier, exponent, idle
from tests.costs.measure import Load, measure
from tests.groupcomm.sim.stopwatch import delays_after_silence, delays_of

Found = dict[str, float]

Exact: TypeAlias = tuple[str, str, Callable[[], Found]]
"""A load, a system, and the call that measures them."""

RATE: Final = 200
RATES: Final = (20, RATE, 2_000)
GROUPS: Final = (1, 10, 100, 1_000)
TARGETS: Final = (10, 50)
BETWEEN: Final = "three sites of three daemons"
DELAYED, SEED = 100, 1

SHAPES: Final = ((1, 3), (1, 4), (1, 8), (1, 16), (2, 4), (2, 8), (4, 8), (4, 16))
"""Numbers of sites and of daemons in all."""

PLAN: Final = {
    "duration_s": 2,
    "sites": {"a": {"daemons": 2}, "b": {"daemons": 2}},
    "links": [{"between": ["a", "b"], "delay_ms": 20, "bandwidth_mbit": 100}],
    "loads": [
        {
            "group": "all",
            "members": ["a", "b"],
            "sender": "a",
            "level": "AGREED",
            "rate": 50,
            "bytes": 200,
        }
    ],
}
"""Two sites; a sender of 50 AGREED messages a second, and a member at each daemon."""


def costs() -> Iterator[Exact]:
    """Yield the levels at several rates, for three daemons and one sender; and other senders."""
    for rate in RATES:
        for level in LEVELS:
            yield f"{rate:,} a second", level.name, partial(_cost, Load(3, 1, level, rate))
    for senders, name in ((3, "three senders in turn"),):
        for level in LEVELS:
            load = Load(3, senders, level, RATE)
            yield f"{RATE} a second, {name}", level.name, partial(_cost, load)


def groups() -> Iterator[Exact]:
    """Yield AGREED messages to one of several groups, and to several groups at once."""
    usual = Load(3, 1, ServiceLevel.AGREED, RATE)
    for count in GROUPS:
        load = attrs.evolve(usual, groups=count)
        yield f"{count:,} group{'s' * (count > 1)}", "to one of them", partial(_cost, load)
    for count in TARGETS:
        load = attrs.evolve(usual, groups=count, targets=count)
        yield f"{count} groups", "to all of them", partial(_cost, load)


def between() -> Iterator[Exact]:
    """Yield the delays of all levels between sites, in units of the delay of a datagram."""
    for level in LEVELS:
        yield BETWEEN, level.name, partial(_between, level)
    yield "after three seconds of silence", ServiceLevel.AGREED.name, _after_silence


def growth() -> Iterator[Exact]:
    """Yield clusters of several sizes and shapes under one load."""
    for sites, daemons in SHAPES:
        site = f"{sites} site{'s' * (sites > 1)}"
        yield f"{daemons} daemons", site, partial(_grown, sites, daemons)


BEACONS: Final[dict[str, type[Cluster]]] = {"to all": Earlier, "to partners": Cluster}
"""How daemons send beacons: as they did before, and as they do."""


def crowd_name(sites: int, each: int) -> str:
    """Return the name of a large cluster."""
    return f"{sites} site{'s' * (sites > 1)} of {each}"


def crowds() -> Iterator[Exact]:
    """Yield idle large clusters, which grow in several ways."""
    for shapes in FAMILIES.values():
        for shape in shapes:
            for beacons, kind in BEACONS.items():
                yield crowd_name(*shape), beacons, partial(_idle, *shape, kind)


FORMS: Final = {"each to each": False, "relays": True}
"""How daemons tell others of the first view: each tells each other one, or relays pass it on."""


def first_views() -> Iterator[Exact]:
    """Yield first views of large clusters, which grow in two ways."""
    for shapes in FORMING.values():
        for shape in shapes:
            for form, relays in FORMS.items():
                yield crowd_name(*shape), form, partial(_forming, *shape, relays=relays)


def growth_of(shapes: Sequence[tuple[int, int]], costs: Sequence[float]) -> float:
    """Return with which power of the number of daemons costs of a family grow."""
    return exponent([sites * each for sites, each in shapes], costs)


def _forming(sites: int, each: int, *, relays: bool) -> Found:
    found, count = first_view(sites, each, relays=relays), sites * each
    return {"datagrams": found.datagrams / count, "kbytes": found.bytes / 1000 / count}


def _idle(sites: int, each: int, kind: type[Cluster]) -> Found:
    found = idle(sites, each, kind=kind)
    return {"datagrams": found.datagrams, "kbytes": found.bytes / 1000, "most": found.most}


def _cost(load: Load) -> Found:
    return {name: round(value, 2) for name, value in attrs.asdict(measure(load)).items()}


def _between(level: ServiceLevel) -> Found:
    delays = delays_of(level, DELAYED, SEED)
    return {"p50": statistics.median(delays), "p99": delays[len(delays) * 99 // 100]}


def _after_silence() -> Found:
    delays = delays_after_silence(SEED)
    return {"p50": statistics.median(delays), "p99": delays[-1]}


def _grown(sites: int, daemons: int) -> Found:
    plan = with_daemons(with_sites(read_topology(PLAN), sites), daemons)
    figures = figures_of(measure_plan(plan, SEED))
    cost = figures.cost
    return {
        "datagrams": cost.datagrams_per_message or 0.0,
        "steps": cost.steps_per_message or 0.0,
        "idle": cost.idle_datagrams_per_s,
        "forming": float(cost.forming_datagrams),
        "forming_s": cost.forming_s,
        "p50_ms": max(delay.p50_ms or 0.0 for delay in figures.delays),
        "link_kbit": cost.load_kbit_per_s,
    }
