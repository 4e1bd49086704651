"""Many daemons as processes on this computer: times of views, and what they cost while idle.

    python -m tests.verification.campaigns many_daemons --daemons 32 --sites 8
    python -m tests.verification.campaigns many_daemons --daemons 16 --sites 4 --relays

All are on the loopback network, with the timers of `preset = "wan"` unless `--settings` says
others. One after the other: all start at once; they are idle; one is killed, and started again; all
of the last site are killed, and started again. Figures: seconds until the view that has all that
run, from when the last one listens, or was killed; datagrams that a daemon sends a second while
idle, and its processors; the views that a daemon was in, of which five are needed. Checked: each
step ends in the view that it should, in time. With `--relays` they pass on between sites what is
said about views, as only clusters of more than 128 daemons do.
"""

import os
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp
from typing import Any, Final

import trio

from groupcomm_client import connect
from groupcomm_tools.local_cluster import ClusterError, LocalCluster
from groupcomm_tools.terminal import say
from tests.verification.campaigns.memory import resident
from tests.verification.campaigns.runner import Found, campaign, option

WITHIN_S: Final = 240.0
"""The longest time for a view; two processors that run 64 daemons are slow."""

QUIET_S: Final = 10.0
"""From a view to the measurement of idle daemons."""

RELAYS: Final = """\
import os
from pathlib import Path

from groupcomm.config.core import CoreConfig


def has_relays(config):
    (Path(__file__).parent / str(os.getpid())).touch()
    return len(config.sites) > 1


CoreConfig.has_relays = property(has_relays)
CoreConfig.is_large = property(lambda config: True)
"""
"""What each daemon does before all else, so that few of them do what many do, and say so."""

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")


def processor_s(pid: int) -> float:
    """Return the seconds of processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


class Campaign:
    """The cluster, the figures so far, and what went wrong."""

    def __init__(self, cluster: LocalCluster, names: Sequence[str]) -> None:
        self._cluster, self._names = cluster, names
        self.figures: dict[str, Any] = {}
        self.violations: list[str] = []

    async def until_view(self, what: str, names: Sequence[str]) -> None:
        """Note the seconds until these daemons are in one view."""
        began = time.monotonic()
        try:
            await self._cluster.settle(names, WITHIN_S)
        except ClusterError as error:
            self.violations.append(f"{what}: {error}")
        self.figures[f"{what}_s"] = round(time.monotonic() - began, 2)
        say(f"{what}: {self.figures[f'{what}_s']} s")

    async def without(self, what: str, gone: Sequence[str]) -> None:
        """Kill daemons, and start them again."""
        for name in gone:
            self._cluster[name].kill()
        await self.until_view(f"{what}_gone", [each for each in self._names if each not in gone])
        await self.all_do(gone, lambda name: self._cluster[name].start(WITHIN_S))
        await self.until_view(f"{what}_back", self._names)

    async def all_do(self, names: Sequence[str], do: Callable[[str], Awaitable[None]]) -> None:
        """Call a function for each of these daemons, at once."""
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(do, name)

    async def idle(self, seconds: float) -> None:
        """Note what idle daemons cost."""
        await trio.sleep(QUIET_S)
        before = await self._costs()
        began = time.monotonic()
        await trio.sleep(seconds)
        after, took = await self._costs(), time.monotonic() - began
        sent, used = (
            [(after[name][which] - before[name][which]) / took for name in self._names]
            for which in (0, 1)
        )
        self.figures |= {
            "idle_datagrams_a_second": round(median(sent), 1),
            "idle_datagrams_a_second_most": round(max(sent), 1),
            "idle_processors": round(median(used), 4),
            "memory_mb": round(median(each[2] for each in after.values()) / 1e6, 1),
        }

    async def _costs(self) -> dict[str, tuple[float, float, float]]:
        found: dict[str, tuple[float, float, float]] = {}
        for name in self._names:
            daemon = self._cluster[name]
            async with connect(str(daemon.unix)) as program:
                sent = (await program.ask("status"))["datagrams"]["sent"]
            found[name] = sent, processor_s(daemon.pid), resident(daemon.pid)
        return found


@campaign(
    option("daemons", 32),
    option("sites", 1),
    option("idle_s", 20.0, "how long they are measured while idle"),
    option("relays", False, "relays pass on what is said about views"),
    option("settings", 'preset = "wan"', "the head of their configuration"),
)
async def run(options: Namespace) -> Found:
    """Run it; return the figures."""
    names = [f"d{number:02}" for number in range(options.daemons)]
    sites = {f"s{site}": names[site :: options.sites] for site in range(options.sites)}
    cluster = LocalCluster(names, options.settings, sites=sites)
    campaign = Campaign(cluster, names)
    folder = Path(mkdtemp())
    if options.relays:
        (folder / "sitecustomize.py").write_text(RELAYS)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    try:
        began = time.monotonic()
        await campaign.all_do(names, lambda name: cluster[name].start(WITHIN_S))
        campaign.figures["started_s"] = round(time.monotonic() - began, 2)
        await campaign.until_view("all", names)
        await campaign.idle(options.idle_s)
        await campaign.without("one", names[-1:])
        await campaign.without("site", [*sites.values()][-1] if options.sites > 1 else names[-2:])
        views = [line["view"] for line in cluster[names[0]].lines() if "daemons" in line]
        if options.relays and len([*folder.glob("[0-9]*")]) < len(names):
            campaign.violations.append("some daemons had no relays")
    finally:
        cluster.close()
        rmtree(folder)
    return {**campaign.figures, "views": len(set(views)), "violations": campaign.violations}
