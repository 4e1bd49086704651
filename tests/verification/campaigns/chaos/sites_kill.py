"""Gateways of several sites are killed under load: the time until traffic flows again.

In rounds, each with a new cluster of two daemons a site. Each round's traces are checked by the
checkers as those of the chaos campaign. They also show when traffic flowed again: every surviving
program got a message of another site in a view that began after the kill. `make sites-kill` runs
it.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import attrs
import trio

from groupcomm.level import ServiceLevel
from groupcomm_tools.topology import SHAPES, Topology, make_line
from tests.verification.campaigns.chaos.campaign import Campaign, spread
from tests.verification.campaigns.chaos.disasters import TOKEN_TIMEOUT_S
from tests.verification.campaigns.chaos.programs import Load
from tests.verification.campaigns.chaos.sites import MAX_DAEMONS, NAMES, kill_gateway
from tests.verification.campaigns.chaos.traffic import traffic_ms

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill and measure; return 0 if nothing was wrong, however long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, metavar="N", help="in all (100)")
    parser.add_argument("--round", type=int, default=10, metavar="N", help="of one cluster (10)")
    parser.add_argument("--sites", type=int, default=3, metavar="N", help="of two daemons (3)")
    parser.add_argument("--shape", choices=SHAPES, default="mesh", help="of the links (mesh)")
    parser.add_argument("--delay-ms", type=float, default=40.0, metavar="MS", help="one way (40)")
    parser.add_argument("--jitter-ms", type=float, default=0.0, metavar="MS", help="more (0)")
    parser.add_argument("--loss", type=float, default=0.0, metavar="P", help="on links (0)")
    parser.add_argument("--mbit", type=float, metavar="M", help="bandwidth of links (any)")
    parser.add_argument("--rate", type=float, default=200.0, help="messages a second (200)")
    parser.add_argument("--seed", type=int, default=1, help="of load and victims (1)")
    parser.add_argument("--keep", action="store_true", help="keep all traces")
    options = parser.parse_args(arguments)
    if not 2 <= options.sites <= MAX_DAEMONS // 2:
        parser.error(f"--sites is {options.sites}; it must be 2 to {MAX_DAEMONS // 2}")
    line = make_line(
        delay_ms=options.delay_ms, jitter_ms=options.jitter_ms, mbit=options.mbit, loss=options.loss
    )
    topology = Topology.of(NAMES[: 2 * options.sites], options.sites, line, options.shape)
    options.disasters = options.kills
    watcher = Watcher(topology)
    load = Load(rate=options.rate, steady=True)
    campaign = Campaign(options, load, [kill_gateway], lambda _: topology, look=watcher.look)
    before = processor_ticks()
    trio.run(campaign.run)
    used = [after - then for after, then in zip(processor_ticks(), before, strict=True)]
    bound_s = TOKEN_TIMEOUT_S + 4 * topology.longest_delay_s + ALLOWED_S
    told = {
        "processors": shares(used),
        **campaign.figures.summary(),
        **watcher.summary(bound_s * 1000),
    }
    print(json.dumps(told))
    never = sum(told[f"{level.name.lower()}_ms"]["never"] for level in LEVELS)
    return 1 if told["violations"] or told["failures"] or never else 0


if __name__ == "__main__":
    sys.exit(main())
