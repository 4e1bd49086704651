"""Figures of a run of the benchmark: rates, delays, losses, and their cost."""

import os
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

import attrs

from groupcomm.level import AGREED_LEVELS, ServiceLevel
from groupcomm_tools.bench.content import lost_of
from groupcomm_tools.bench.plan import Plan, members_of, topology_of


@attrs.frozen(kw_only=True)
class SiteFigures:
    """Figures of the receivers of one site; delays are as in `Figures`.

    Attributes:
        msgs_per_s_each: rate of the slowest receiver.
    """

    msgs_per_s_each: float
    delay_p50_us: float | None
    delay_p99_us: float | None
    delay_max_us: float | None


def by_site(
    plan: Plan, rates: Sequence[float], delays: Sequence[Sequence[float]]
) -> dict[str, SiteFigures]:
    """Return the figures of receivers by their site; empty if there is one site.

    Args:
        plan: parameters of the run.
        rates: messages a second of each receiver.
        delays: microseconds, for each receiver.
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
    """Return a quantile of sorted values; None if there are no values."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def sites_json(sites: dict[str, SiteFigures]) -> dict[str, Any]:
    """Return the figures by the name of the site, rounded, for JSON."""
    return {
        site: {
            name: None if value is None else round(value, 1)
            for name, value in attrs.asdict(figures).items()
        }
        for site, figures in sites.items()
    }


@attrs.frozen
class CpuUse:
    """Processor seconds used during the measurement, by all programs of each kind together."""

    daemons: float
    senders: float
    receivers: float


@attrs.frozen(kw_only=True)
class Figures:
    """Figures of one run; delays are one way, in microseconds, of messages that carry the time.

    Attributes:
        plan: its parameters.
        msgs_per_s_each: rate of the slowest receiver.
        mb_per_s_each: the same in megabytes.
        msgs_per_s_fastest: rate of the fastest receiver.
        delay_p50_us, delay_p95_us, delay_p99_us, delay_p999_us, delay_max_us: None without such
            messages.
        lost, duplicated, misordered, wrong: messages, summed over receivers; misordered counts
            receivers that saw another order, too, if the level promises one.
        cpu_daemons, cpu_senders, cpu_receivers: their use of processors, in units of one.
        cpu_s_per_million: processor seconds of the daemons for a million deliveries to all
            receivers.
        jain: fairness among senders, 1 if all got the same share (Jain, Chiu and Hawe, 1984).
        by_site: figures of the receivers of each site; empty if there is one site.
    """

    plan: Plan
    msgs_per_s_each: float
    mb_per_s_each: float
    msgs_per_s_fastest: float
    delay_p50_us: float | None
    delay_p95_us: float | None
    delay_p99_us: float | None
    delay_p999_us: float | None
    delay_max_us: float | None
    lost: int
    duplicated: int
    misordered: int
    wrong: int
    cpu_daemons: float
    cpu_senders: float
    cpu_receivers: float
    cpu_s_per_million: float
    jain: float
    by_site: dict[str, SiteFigures] = attrs.field(factory=dict)

    @property
    def is_right(self) -> bool:
        """Return whether every message came once, in order and unchanged; UNRELIABLE ones may be
        lost.
        """
        lost = self.lost if self.plan.level else 0
        return not (lost or self.duplicated or self.misordered or self.wrong)


def figures_of(
    plan: Plan,
    window: tuple[int, int],
    cpu: CpuUse,
    sent: Sequence[dict[str, Any]],
    reports: Sequence[dict[str, Any]],
) -> Figures:
    """Return the figures of a run, from the reports of its programs.

    Args:
        plan: parameters of the run.
        window: begin and end of the measurement, in nanoseconds.
        cpu: processor seconds used in the window.
        sent: report of each sender.
        reports: report of each receiver.
    """
    seconds = (window[1] - window[0]) / 1e9
    rates = [_rate(plan, report, window) for report in reports]
    apart = [[d / 1000 for at, d in r["delays"] if _inside(at, window)] for r in reports]
    delays = sorted(delay for seen in apart for delay in seen)
    accounts = [pair for r in reports for pair in zip(r["accounts"], sent, strict=True)]
    lost = sum(lost_of(a, s["sent"]) for a, s in accounts)
    lost += sum(max(0, s["timed"] - a["timed"]) for a, s in accounts)
    orders = {report["order"] for report in reports}
    is_total = plan.level in AGREED_LEVELS
    deliveries = sum(rates) * seconds
    return Figures(
        plan=plan,
        msgs_per_s_each=min(rates),
        mb_per_s_each=min(rates) * plan.size / 1e6,
        msgs_per_s_fastest=max(rates),
        delay_p50_us=quantile(delays, 0.5),
        delay_p95_us=quantile(delays, 0.95),
        delay_p99_us=quantile(delays, 0.99),
        delay_p999_us=quantile(delays, 0.999),
        delay_max_us=quantile(delays, 1.0),
        lost=lost,
        duplicated=sum(a["duplicated"] for a, _ in accounts),
        misordered=sum(a["misordered"] for a, _ in accounts)
        + sum(r["wrong_timed"] for r in reports)
        + (len(orders) - 1 if is_total else 0),
        wrong=sum(a["wrong"] for a, _ in accounts),
        cpu_daemons=cpu.daemons / seconds,
        cpu_senders=cpu.senders / seconds,
        cpu_receivers=cpu.receivers / seconds,
        cpu_s_per_million=cpu.daemons / deliveries * 1e6 if deliveries else 0.0,
        jain=_jain([s["sent"] + s["timed"] for s in sent]),
        by_site=by_site(plan, rates, apart),
    )


def _inside(at: int, window: tuple[int, int]) -> bool:
    return window[0] <= at <= window[1]


def _rate(plan: Plan, report: dict[str, Any], window: tuple[int, int]) -> float:
    """Return the number of messages a second that a receiver received in the window."""
    timed = sum(_inside(at, window) for at, _ in report["delays"])
    counts = [(0, 0), *map(tuple, report["counts"])]
    got = _at(counts, window[1]) - _at(counts, window[0]) if not plan.is_timed else 0
    return (got + timed) / (window[1] - window[0]) * 1e9


def _at(counts: Sequence[tuple[int, ...]], time_ns: int) -> int:
    """Return the number of messages that had come at a time."""
    return max((count for at, count in counts if at <= time_ns), default=0)


def _jain(shares: Sequence[float]) -> float:
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


_COUNTS: Final = ("lost", "duplicated", "misordered", "wrong")
_DELAYS: Final = (
    "delay_p50_us",
    "delay_p95_us",
    "delay_p99_us",
    "delay_p999_us",
    "delay_max_us",
)
_FLOOR: Final = {"floor_p50_us": 0.5, "floor_p99_us": 0.99}


def machine() -> str:
    """Return a description of the machine."""
    return (
        f"{os.cpu_count()} processors, {platform.system()} {platform.release()},"
        f" {platform.python_implementation()} {platform.python_version()}, trio {version('trio')}"
    )


def middle_of(rounds: Sequence[Figures]) -> Figures:
    """Return the round that is in the middle by its rate."""
    return sorted(rounds, key=lambda figures: figures.msgs_per_s_each)[len(rounds) // 2]


def as_json(rounds: Sequence[Figures]) -> dict[str, Any]:
    """Return the middle run by rate; delays are medians, and counts of errors are sums."""
    found = attrs.asdict(middle_of(rounds), recurse=False)
    plan = attrs.asdict(found.pop("plan"))
    sites = sites_json(found.pop("by_site"))
    for name in _COUNTS:
        found[name] = sum(getattr(each, name) for each in rounds)
    for name in _DELAYS:
        values = [getattr(each, name) for each in rounds]
        known = [value for value in values if value is not None]
        found[name] = statistics.median(known) if known else None
    rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in found.items()}
    return {
        **plan,
        "level": ServiceLevel(plan["level"]).name,
        "rounds": len(rounds),
        **rounded,
        "by_site": sites,
    }


def floor_json(floors: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return quantiles of the delays of bare relays, as medians over the rounds; empty without
    rounds.

    Args:
        floors: sorted delays of each round, in microseconds.
    """
    if not floors:
        return {}
    return {
        name: round(statistics.median(delays[int(part * len(delays))] for delays in floors), 1)
        for name, part in _FLOOR.items()
    }
