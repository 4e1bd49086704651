"""Runs over several sites: which daemons there are, where programs connect, and what they saw."""

from collections.abc import Sequence
from typing import Any

import attrs

from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.topology import Topology, make_line

DAEMONS = ("alfa", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel")


@attrs.frozen(kw_only=True)
class SiteFigures:
    """What the receivers of one site have seen; delays as in Figures.

    Attributes:
        msgs_per_s_each: what the slowest of them got.
    """

    msgs_per_s_each: float
    delay_p50_us: float | None
    delay_p99_us: float | None
    delay_max_us: float | None


def topology_of(plan: Plan) -> Topology:
    """The sites of a plan's daemons, and what lies between them."""
    line = make_line(
        delay_ms=plan.delay_ms, jitter_ms=plan.jitter_ms, mbit=plan.mbit, loss=plan.loss
    )
    return Topology.of(DAEMONS[: plan.daemons], plan.sites, line, plan.shape)


def members_of(plan: Plan) -> list[str]:
    """The daemons that programs connect to, in turn."""
    chosen = list(topology_of(plan).sites.values())[: plan.members_in or plan.sites]
    return [name for names in chosen for name in names]


def by_site(
    plan: Plan, rates: Sequence[float], delays: Sequence[Sequence[float]]
) -> dict[str, SiteFigures]:
    """What receivers saw, by the site that they are in; empty with one site.

    Args:
        plan: of the run.
        rates: of each receiver, messages a second.
        delays: of each receiver, microseconds.
    """
    if plan.sites == 1:
        return {}
    topology, members = topology_of(plan), members_of(plan)
    places = [topology.site_of(members[at % len(members)]) for at in range(len(rates))]
    found: dict[str, SiteFigures] = {}
    for site in dict.fromkeys(places):
        here = [at for at, place in enumerate(places) if place == site]
        ordered = sorted(delay for at in here for delay in delays[at])
        found[site] = SiteFigures(
            msgs_per_s_each=min(rates[at] for at in here),
            delay_p50_us=quantile(ordered, 0.5),
            delay_p99_us=quantile(ordered, 0.99),
            delay_max_us=quantile(ordered, 1.0),
        )
    return found


def quantile(ordered: Sequence[float], part: float) -> float | None:
    """Of sorted values; None if there are none."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def as_json(sites: dict[str, SiteFigures]) -> dict[str, Any]:
    """By name, rounded."""
    return {
        site: {
            name: None if value is None else round(value, 1)
            for name, value in attrs.asdict(figures).items()
        }
        for site, figures in sites.items()
    }
