"""Medians and ratios of the figures, for people and for scripts."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

from groupcomm_tools.bench.figures import Figures, as_json
from groupcomm_tools.bench.plan import Plan
from tests.verification.campaigns.peers.peer import Peer
from tests.verification.campaigns.peers.rounds import Arrangement, Results

OURS: Final = "ours"
"""The system to which ratios relate all others."""

Measure = Callable[[Figures], float | None]


def rate(figures: Figures) -> float:
    """Return messages a second that each receiver got."""
    return figures.msgs_per_s_each


def p50_us(figures: Figures) -> float | None:
    """Median of the one-way delays."""
    return figures.delay_p50_us


def p99_us(figures: Figures) -> float | None:
    """Return the 99th percentile of one-way delays."""
    return figures.delay_p99_us


def cpu_us(figures: Figures) -> float | None:
    """Processor time of all programs together, for a message that all receivers get.

    Other work on the machine changes this much less than it does the rate.
    """
    used = figures.cpu_daemons + figures.cpu_senders + figures.cpu_receivers
    return used / figures.msgs_per_s_each * 1e6 if figures.msgs_per_s_each else None


def median(rounds: Sequence[Figures], measure: Measure) -> float | None:
    """Return the median of all rounds that have a figure."""
    values = [value for each in rounds if (value := measure(each)) is not None]
    return statistics.median(values) if values else None


def ratio(ours: Sequence[Figures], theirs: Sequence[Figures], measure: Measure) -> float | None:
    """Return the median of ours / theirs in each round, since a disturbed round disturbs both."""
    pairs = [(measure(a), measure(b)) for a, b in zip(ours, theirs, strict=False)]
    values = [a / b for a, b in pairs if a is not None and b]
    return statistics.median(values) if values else None


def text(found: Sequence[Arrangement], results: Results) -> str:
    """Tables."""
    lines = []
    for arrangement in found:
        for plan in arrangement.plans:
            rows = [
                _row(peer.name, plan, results)
                for peer in arrangement.peers
                if (plan, peer.name) in results.figures
            ]
            lines += ["", arrangement.describe(plan), _head(plan), *rows]
    lines += ["", "Way of sending:"]
    lines += [f"  {peer.name:<22}{peer.sending}" for peer in _all_peers(found)]
    lines += [f"{name} was not measured: {why}" for name, why in results.failed.items()]
    return "\n".join(lines[1:])


def _head(plan: Plan) -> str:
    columns = ("p50 us", "ours/it", "p99 us", "ours/it") if plan.is_timed else ("msgs/s", "ours/it")
    numbers = "".join(f"{column:>12}" for column in columns)
    return f"  {'':<22}{numbers}{'cpu us/msg':>12}   cpu: servers, sender, receivers"


def _row(name: str, plan: Plan, results: Results) -> str:
    rounds, ours = results.figures[plan, name], results.figures.get((plan, OURS), [])
    measures: tuple[Measure, ...] = (p50_us, p99_us) if plan.is_timed else (rate,)
    numbers = "".join(
        f"{median(rounds, measure) or 0:>12,.0f}{ratio(ours, rounds, measure) or 0:>12.2f}"
        for measure in measures
    )
    numbers += f"{median(rounds, cpu_us) or 0:>12,.1f}"
    cpu = [
        statistics.median(values)
        for values in zip(
            *((each.cpu_daemons, each.cpu_senders, each.cpu_receivers) for each in rounds),
            strict=True,
        )
    ]
    return f"  {name:<22}{numbers}   {', '.join(f'{value:.2f}' for value in cpu)}{_wrong(rounds)}"


def _wrong(rounds: Sequence[Figures]) -> str:
    """Return the errors of all rounds; empty if there were none."""
    names = ("lost", "duplicated", "misordered", "wrong")
    counts = {name: sum(getattr(each, name) for each in rounds) for name in names}
    told = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    return f"   {told}" if told else ""


def as_object(found: Sequence[Arrangement], results: Results) -> dict[str, Any]:
    """Return the same as JSON; medians as of `groupcomm bench --json`, with ratios."""
    return {
        "settings": [
            {
                "arrangement": arrangement.title,
                "systems": [
                    _cell(peer, plan, results)
                    for peer in arrangement.peers
                    if (plan, peer.name) in results.figures
                ],
            }
            for arrangement in found
            for plan in arrangement.plans
        ],
        "not_measured": results.failed,
    }


def _cell(peer: Peer, plan: Plan, results: Results) -> dict[str, Any]:
    rounds, ours = results.figures[plan, peer.name], results.figures.get((plan, OURS), [])
    measures = {"msgs_per_s_each": rate, "delay_p50_us": p50_us, "delay_p99_us": p99_us}
    return {
        "system": peer.name,
        "sending": peer.sending,
        **as_json(rounds),
        **{f"ours_to_{name}": ratio(ours, rounds, measure) for name, measure in measures.items()},
        "cpu_us_per_message": median(rounds, cpu_us),
        "each_round": [{name: measures[name](each) for name in measures} for each in rounds],
    }


def _all_peers(found: Sequence[Arrangement]) -> list[Peer]:
    """Return each once."""
    return list({peer.name: peer for each in found for peer in each.peers}.values())
