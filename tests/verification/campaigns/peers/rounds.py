"""All systems in turn, again and again: a busy machine affects all of them."""

import sys
from collections.abc import Sequence
from typing import Final

import attrs
import trio

from groupcomm.errors import GroupCommError
from groupcomm_tools.bench.figures import Figures
from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.bench.runs import measure_programs
from tests.verification.campaigns.peers.bare_relays import BareRelays
from tests.verification.campaigns.peers.corosync import Corosync
from tests.verification.campaigns.peers.nats_server import Nats
from tests.verification.campaigns.peers.ours import Ours
from tests.verification.campaigns.peers.peer import Peer
from tests.verification.campaigns.peers.redis_server import Redis
from tests.verification.campaigns.peers.spread import Spread
from tests.verification.campaigns.peers.zeromq import ZeroMq

DELAY_RATE: Final = 200.0
"""Messages a second when delays are measured."""


@attrs.frozen
class Arrangement:
    """Systems that are measured under the same plans.

    Attributes:
        title: the title of the arrangement.
        peers: the systems in their order; ours first.
        plans: the measurements of each.
    """

    title: str
    peers: Sequence[Peer]
    plans: Sequence[Plan]

    def describe(self, plan: Plan) -> str:
        """Return a plan in words."""
        load = f"{plan.rate:g} messages/s" if plan.is_timed else "as many as pass"
        receivers = f"{plan.receivers} receiver{'s' if plan.receivers > 1 else ''}"
        return f"{self.title}: 1 sender, {receivers}, {plan.size} bytes, {load}"


@attrs.define
class Results:
    """The results.

    Attributes:
        figures: the figures of all rounds, by plan (before a system adapted it) and system.
        failed: the reason for which a system was not measured, or no further, by its name.
    """

    figures: dict[tuple[Plan, str], list[Figures]] = attrs.Factory(dict)
    failed: dict[str, str] = attrs.Factory(dict)


def arrangements(duration_s: float, families: Sequence[str]) -> list[Arrangement]:
    """Return all arrangements.

    Args:
        duration_s: the seconds of a measurement; the load lasts half as long before it.
        families: the other systems to measure.
    """

    def plan(daemons: int, receivers: int, size: int = 100, rate: float = 0.0) -> Plan:
        return Plan(
            daemons=daemons,
            receivers=receivers,
            size=size,
            rate=rate,
            duration_s=duration_s,
            warm_up_s=duration_s / 2,
        )

    def chosen(*peers: Peer) -> list[Peer]:
        return [peer for peer in peers if not peer.family or peer.family in families]

    ours = Ours("ours"), Ours("ours, singly", bundling=False)
    plain = Ours("ours, not encrypted", encryption=False)
    return [
        Arrangement(
            "three daemons",
            chosen(*ours, plain, Spread(), Corosync(), Corosync(crypto=True), BareRelays()),
            [*(plan(3, 3, size) for size in (100, 1_000, 8_000)), plan(3, 3, rate=DELAY_RATE)],
        ),
        Arrangement(
            "one daemon or server",
            chosen(*ours, Spread(), Nats(), Redis(), ZeroMq(), BareRelays()),
            [
                *(plan(1, receivers, size) for size in (100, 1_000) for receivers in (1, 5)),
                plan(1, 1, rate=DELAY_RATE),
            ],
        ),
    ]


async def measure_all(found: Sequence[Arrangement], rounds: int) -> Results:
    """Measure each system under each plan, this number of times; print progress on standard
    error."""
    results = Results()
    for arrangement in found:
        for peer in arrangement.peers:
            if reason := peer.missing():
                results.failed[peer.name] = reason
    for number in range(rounds):
        for arrangement in found:
            for plan in arrangement.plans:
                _tell(f"round {number + 1} of {rounds}: {arrangement.describe(plan)}")
                for peer in arrangement.peers:
                    if peer.name not in results.failed:
                        await _measure(peer, plan, results)
    return results


async def _measure(peer: Peer, plan: Plan, results: Results) -> None:
    """Start it, measure it, and keep the results."""
    adapted = peer.adapted(plan)
    if adapted is None:
        return
    try:
        async with peer.open(adapted) as servers:
            figures = await measure_programs(adapted, *servers.commands(adapted), servers.pids)
        results.figures.setdefault((plan, peer.name), []).append(figures)
        shown = figures.delay_p50_us if plan.is_timed else figures.msgs_per_s_each
        _tell(f"  {peer.name:<22}{shown or 0:>12,.0f}")
    except* (GroupCommError, OSError, trio.TooSlowError) as group:
        results.failed[peer.name] = _reason(group)
        _tell(f"  {peer.name} is measured no further: {results.failed[peer.name]}")


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
