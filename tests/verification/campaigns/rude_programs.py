"""Programs without rights that send as much as they can: their effect on others.

    python -m tests.verification.campaigns rude_programs --duration-s 5 --rounds 3

Three sealed daemons and a modest load of AGREED messages of programs with rights. One of the
daemons also has a program without rights, with many connections, which sends one kind of frame as
fast as it is read (rude_frames.py). In each round, and for each kind, the daemons are left alone
(quiet), then the program is rude (rude), and then the host is shared with a process that has
nothing to do with them and uses as much of the processors (burner).

Checked: no view changes, no message is lost, and the 99th percentile of the delays is at most BAR
times that beside the burner, by the median of the rounds.
"""

import statistics
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

from groupcomm_tools.bench.runs import over_tls
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.terminal import say
from tests.groupcomm.sim.rude_frames import ATTACKS
from tests.verification.campaigns.junk import NAMES, Phase, Round, Stage, burners, summary
from tests.verification.campaigns.programs import Program
from tests.verification.campaigns.runner import Found, campaign, option

BAR: Final = 2.0
PHASES: Final = ("quiet", "rude", "burner")
RULES: Final = """
[[access]]
who = "token:bench"
may = ["join", "send", "see-members"]

[[access]]
who = "unix:*"
may = ["admin"]
"""
"""Programs by the unix socket have no rights, but may ask, which is the worst for the daemon."""


class RudeStage(Stage):
    """The daemons, and a program without rights at one of them."""

    kind = ""

    def addresses(self) -> list[str]:
        """Return the addresses for the load's programs: by TLS, with their token."""
        return [f"tls://{daemon.tls}" for daemon in self._daemons]

    async def _capture(self) -> None:
        """Ignore the traffic of daemons, which is not needed."""

    async def play_kind(self, kind: str, nursery: trio.Nursery) -> Round:
        """Return one round with one kind of frame."""
        self._seen = await self._look()
        quiet = await self._phase([], nursery)
        command = [kind, str(self._daemons[1].unix), str(self._options.connections)]
        rude = await self._phase(
            [Program("tests.verification.campaigns.rude_sender", command)], nursery
        )
        share = rude.cpu_others + max(0.0, rude.cpu_daemons - quiet.cpu_daemons)
        return {"quiet": quiet, "rude": rude, "burner": await self._phase(burners(share), nursery)}


def check(kind: str, rounds: Sequence[Round]) -> dict[str, Any]:
    """Return the results of one kind of frame, and the violated expectations."""
    wrong = []
    for name in PHASES:
        phases = [each[name] for each in rounds]
        if views := sum(phase.views for phase in phases):
            wrong.append(f"{kind}: {name}: {views} views were installed")
        if not all(phase.figures.is_right for phase in phases):
            wrong.append(f"{kind}: {name}: messages were lost, doubled or out of order")
    ratios = [p99(each["rude"]) / p99(each["burner"]) for each in rounds]
    ratio = statistics.median(ratios)
    if ratio > BAR:
        wrong.append(f"{kind}: p99 is {ratio:.2f} times that beside the burner: above {BAR}")
    return {
        "ratio_p99": round(ratio, 3),
        "ratios_p99": [round(each, 3) for each in ratios],
        "phases": {name: summary([each[name] for each in rounds]) for name in PHASES},
        "violations": wrong,
    }


def p99(phase: Phase) -> float:
    """Microseconds; inf if nothing came."""
    return phase.figures.delay_p99_us or float("inf")


@campaign(
    option("kinds", tuple(ATTACKS), choices=tuple(ATTACKS)),
    option("connections", 20, "of the rude program"),
    option("duration_s", 5.0, "of each phase"),
    option("rounds", 3),
)
async def run(options: Namespace) -> Found:
    """Run it; return the results, by kind."""
    rounds: dict[str, list[Round]] = {kind: [] for kind in options.kinds}
    policy = 'slow_receivers = "block"\n'
    with TemporaryDirectory(prefix="groupcomm-") as folder, over_tls(Path(folder)) as tls:
        cluster = LocalCluster(NAMES, clients=policy + tls + RULES)
        async with cluster, trio.open_nursery() as nursery:
            await cluster.settle(NAMES)
            stage = RudeStage(cluster, cluster.folder, options)
            for number in range(options.rounds):
                for kind in options.kinds:
                    rounds[kind].append(await stage.play_kind(kind, nursery))
                    found = check(kind, rounds[kind][-1:])
                    line = f"{number + 1} of {options.rounds}: {kind}: p99 x {found['ratio_p99']}"
                    say(line)
            nursery.cancel_scope.cancel()
    checked = {kind: check(kind, found) for kind, found in rounds.items()}
    wrong = [text for found in checked.values() for text in found["violations"]]
    return {"kinds": checked, "violations": wrong}
