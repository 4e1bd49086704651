"""Gateways of several sites are killed under load: the time until traffic flows again.

In rounds, each with a new cluster of two daemons a site. Each round's traces are checked by the
checkers as those of the chaos campaign. They also show when traffic flowed again: every surviving
program got a message of another site in a view that began after the kill. `make sites-kill` runs
it.
"""

from argparse import Namespace
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import attrs

from groupcomm.level import ServiceLevel
from groupcomm_tools.topology import SHAPES, Topology, make_line
from tests.verification.campaigns.chaos.campaign import Campaign, spread
from tests.verification.campaigns.chaos.disasters import TOKEN_TIMEOUT_S
from tests.verification.campaigns.chaos.programs import Load
from tests.verification.campaigns.chaos.sites import MAX_DAEMONS, NAMES, kill_gateway
from tests.verification.campaigns.chaos.traffic import traffic_ms
from tests.verification.campaigns.runner import Found, campaign, option

ALLOWED_S = 0.2
"""Besides the timeout and the ways of the messages that agree on a view."""

LEVELS = (ServiceLevel.RELIABLE, ServiceLevel.AGREED)


@attrs.frozen
class Watcher:
    """Collects the time after each kill, by the lowest level of messages that count."""

    topology: Topology
    found: dict[ServiceLevel, list[float]] = attrs.field(factory=lambda: {x: [] for x in LEVELS})

    def look(self, folder: Path) -> None:
        """A round is over."""
        for level in self.found:
            self.found[level] += traffic_ms(folder, self.topology, level)

    def summary(self, bound_ms: float) -> dict[str, Any]:
        """Return the times as JSON, milliseconds."""
        told: dict[str, Any] = {"bound_ms": round(bound_ms, 1)}
        for level, times in self.found.items():
            finite = [time for time in times if isfinite(time)]
            told[f"{level.name.lower()}_ms"] = {
                **(spread(finite) if finite else {}),
                "over_bound": sum(time > bound_ms for time in times),
                "never": len(times) - len(finite),
            }
        return told


def processor_ticks() -> list[int]:
    """Return the counts of /proc/stat for all processors together."""
    line, *_ = Path("/proc/stat").read_text().splitlines()
    return [int(word) for word in line.split()[1:9]]


def shares(ticks: Sequence[int]) -> dict[str, float]:
    """Return the shares of the processors that all programs had, and that other machines took from
    them."""
    *_, idle, waiting, _, _, stolen = ticks
    total = sum(ticks) or 1
    busy = total - idle - waiting - stolen
    return {"busy": round(busy / total, 3), "stolen": round(stolen / total, 3)}


@campaign(
    option("kills", 100, "in all"),
    option("round", 10, "of one cluster"),
    option("sites", 3, "of two daemons", choices=range(2, MAX_DAEMONS // 2 + 1)),
    option("shape", "mesh", "of the links", choices=SHAPES),
    option("delay_ms", 40.0, "one way"),
    option("jitter_ms", 0.0, "more"),
    option("loss", 0.0, "on links"),
    option("mbit", type=float, text="bandwidth of links (any)"),
    option("rate", 200.0, "messages a second"),
    option("seed", 1, "of load and victims"),
    option("keep", False, "keep all traces"),
)
async def run(options: Namespace) -> Found:
    """Kill and measure; it is not wrong if something takes long, but if it never comes."""
    line = make_line(
        delay_ms=options.delay_ms, jitter_ms=options.jitter_ms, mbit=options.mbit, loss=options.loss
    )
    topology = Topology.of(NAMES[: 2 * options.sites], options.sites, line, options.shape)
    watcher = Watcher(topology)
    load = Load(rate=options.rate, steady=True)
    each = Namespace(**vars(options), disasters=options.kills)
    rounds = Campaign(each, load, [kill_gateway], lambda _: topology, look=watcher.look)
    before = processor_ticks()
    await rounds.run()
    used = [after - then for after, then in zip(processor_ticks(), before, strict=True)]
    bound_s = TOKEN_TIMEOUT_S + 4 * topology.longest_delay_s + ALLOWED_S
    told = {**rounds.figures.found(), **watcher.summary(bound_s * 1000)}
    never = [(level.name, told[f"{level.name.lower()}_ms"]["never"]) for level in LEVELS]
    told["violations"] += [f"{name}: never again: {count}" for name, count in never if count]
    return {"processors": shares(used), **told}
