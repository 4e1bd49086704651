"""Five programs at three daemons enter a mutex thousands of times, and holders are killed.

    python -m tests.verification.campaigns mutex --acquisitions 10000 --kills 20

Judged by a lock of the host, which each holder takes without waiting, and by the times at which
programs went in and out. Ends with one line of JSON.
"""

import statistics
import time
from argparse import Namespace
from itertools import pairwise
from random import Random
from typing import Any, Final

import trio

from groupcomm_client.coordination.mutex import FORMS
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.terminal import say
from tests.verification.campaigns.programs import Program, until
from tests.verification.campaigns.runner import Found, campaign, option

DAEMONS: Final = ("alfa", "bravo", "charlie")
PROGRAMS: Final = 5
STAY_S: Final = 0.0005
"""The time for which a holder stays in, so that another one could meet it there."""


class Contest:
    """The programs, and the number of times that each has been in.

    Attributes:
        lock: the file that holders lock; it names the last holder.
        killed: processes that were killed, also those that had just gone out or had not said yet
            that they were in: the kernel may end the connection of any of them before its lock.
        killed_inside: how many of those were inside.
    """

    def __init__(self, cluster: LocalCluster, form: str, acquisitions: int) -> None:
        self.lock = cluster.folder / "lock"
        self.lock.write_bytes(b"%12d" % 0)
        self.share = acquisitions // PROGRAMS
        self.killed: set[int] = set()
        self.killed_inside = 0
        self.programs = [
            Program(
                "tests.verification.campaigns.mutex_program",
                [
                    *("--address", str(cluster[DAEMONS[number % len(DAEMONS)]].unix)),
                    *("--form", form, "--lock", str(self.lock), "--stay-s", str(STAY_S)),
                ],
            )
            for number in range(PROGRAMS)
        ]

    def times_in(self, program: Program) -> int:
        return sum("entered" in line for line in program.lines)

    async def start(self, program: Program, nursery: trio.Nursery) -> None:
        await program.start(nursery, "--times", str(self.share - self.times_in(program)))

    async def kill_holder(self, nursery: trio.Nursery) -> bool:
        """Kill the program that is in, and start it again; return whether it was still in."""
        holder = int(self.lock.read_bytes())
        for program in self.programs:
            if holder > 0 and program.running and program.pid == holder:
                if self.times_in(program) >= self.share:
                    return False
                at = time.monotonic_ns()  # the program was in until this time at least
                await program.kill()
                inside = bool(program.lines) and "entered" in program.lines[-1]
                program.lines.append({"killed": at})
                self.killed.add(holder)
                self.killed_inside += inside
                await self.start(program, nursery)
                return inside
        return False

    @property
    def total(self) -> int:
        return sum(map(self.times_in, self.programs))


def stays(program: Program) -> list[tuple[int, int]]:
    """From when to when it was in; until it was killed, if it was killed inside."""
    found: list[tuple[int, int]] = []
    entered: int | None = None
    for line in program.lines:
        if "entered" in line:
            entered = line["entered"]
        elif entered is not None and ("out" in line or "killed" in line):
            found.append((entered, line.get("out") or line["killed"]))
            entered = None
    return found


def results_of(contest: Contest, kills: int) -> dict[str, Any]:
    """Return the results, and the violated expectations."""
    wrong = [
        f"process {line['met']} was still in, says the lock"
        for program in contest.programs
        for line in program.lines
        if "met" in line and line["met"] not in contest.killed
    ]
    everybody = sorted(stay for program in contest.programs for stay in stays(program))
    wrong += [f"two are in at {b[0]}" for a, b in pairwise(everybody) if b[0] < a[1]]
    if contest.killed_inside < kills:
        wrong.append(f"only {contest.killed_inside} of {kills} holders were killed")
    wrong += [
        f"program {number} ended with status {program.status}"
        for number, program in enumerate(contest.programs)
        if program.status != 0
    ]
    waits = [
        [(line["entered"] - line["asked"]) / 1e6 for line in program.lines if "entered" in line]
        for program in contest.programs
    ]
    return {
        "acquisitions": contest.total,
        "kills": contest.killed_inside,
        "violations": wrong,
        "per_program": [len(each) for each in waits],
        "wait_p50_ms": [round(statistics.median(each), 2) for each in waits],
        "wait_max_ms": [round(max(each), 1) for each in waits],
    }


@campaign(
    option("acquisitions", 10_000),
    option("kills", 20),
    option("form", "agreed", choices=FORMS),
    option("seed", 1),
)
async def run(options: Namespace) -> Found:
    """Run it; return the results."""
    rng, acquisitions = Random(options.seed), options.acquisitions
    async with LocalCluster(DAEMONS) as cluster, trio.open_nursery() as nursery:
        await cluster.settle(DAEMONS)
        contest = Contest(cluster, options.form, acquisitions)
        for program in contest.programs:
            await contest.start(program, nursery)
        for number in range(options.kills):
            due = acquisitions * (number + 1) // (options.kills + 2)
            await until(f"{due} acquisitions", lambda due=due: contest.total >= due)  # type: ignore[misc]
            while not await contest.kill_holder(nursery):
                await trio.sleep(rng.uniform(0.0, 0.003))
            say(f"{contest.total} acquisitions, {contest.killed_inside} holders killed")
        everybody = contest.programs
        await until("the end of all programs", lambda: not any(p.running for p in everybody), 300)
        await until("all that they said", lambda: contest.total >= PROGRAMS * contest.share)
    return results_of(contest, options.kills)
