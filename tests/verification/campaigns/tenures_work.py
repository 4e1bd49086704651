"""Shared work under each fault: each program gives jobs, and works at jobs.

Checked: each job that was accepted is done; each giving of a job is to one worker, and a job is not
done again, unless a worker of it had the fault; and no worker ends a job normally if it has lost
it, and has got a later one since.
"""

from collections import defaultdict
from itertools import pairwise
from typing import Any, Final

import attrs

from groupcomm.errors import OrderUnknown
from groupcomm.level import ServiceLevel
from groupcomm_client.connection import Connection
from groupcomm_client.coordination import JobLost, Worker
from groupcomm_client.coordination.working import work
from tests.verification.campaigns.programs import Program
from tests.verification.campaigns.tenures_player import GROUP, Player, tell

AT_ONCE: Final = 2
GIVE_S: Final = 0.15
WORK_S: Final = (0.005, 0.02, 0.05, 0.1, 0.005, 0.02, 0.05, 1.5)
"""How long a job takes, by its number: some last longer than most faults."""

REPORT_S: Final = 1.0
"""The longest that a report is under way to its place in the order."""

MORE: Final = AT_ONCE + 1
"""A worker that has done so many jobs has got one of them after it began to count."""


async def give_and_work(player: Player) -> None:
    async with (
        player.connection() as giving,
        player.connection() as working,
        work(working, GROUP, name="workers", at_once=AT_ONCE) as worker,
        working.loop.tasks() as tasks,
    ):
        for _ in range(AT_ONCE):
            tasks.start(_work_on, worker, working)
        while not player.stopping.is_set():
            await _give(player.next_name(), giving, worker)
            await giving.loop.sleep(GIVE_S)
        await player.until_ending(working, stopped=True)


async def _give(name: str, giving: Connection, worker: Worker) -> None:
    """Give a job, which is accepted once it has its place while the worker beside knows the set."""
    before = _session_of(worker)
    tell(gives=name)
    try:
        await giving.multicast_ordered(GROUP, name.encode(), level=ServiceLevel.SAFE)
    except OrderUnknown:
        tell(unknown=name)
        return
    is_known = before is not None and before == _session_of(worker)
    tell(**{"accepted" if is_known else "unknown": name})


def _session_of(worker: Worker) -> str | None:
    return str(worker.driver.connection.member) if worker.is_current else None


async def _work_on(worker: Worker, connection: Connection) -> None:
    while True:
        job = await worker.next()
        name = job.data.decode()
        told = {"job": name, "attempt": job.attempt, "id": str(job.id)}
        try:
            async with job:
                tell(entered=True, **told)
                await connection.loop.sleep(WORK_S[int(name.split(".")[1]) % len(WORK_S)])
            tell(done=True, **told)
        except JobLost:
            tell(lost=True, **told)


def is_each_done(programs: list[Program]) -> bool:
    accepted, done = _given_and_done(programs)
    return accepted <= done


def _given_and_done(programs: list[Program]) -> tuple[set[str], set[str]]:
    lines = [line for program in programs for line in program.lines]
    return (
        {line["accepted"] for line in lines if "accepted" in line},
        {line["job"] for line in lines if "done" in line},
    )


def work_of(programs: list[Program], victims: list[tuple[Program | None, int]]) -> dict[str, Any]:
    """Return the results, and the violated expectations.

    Args:
        programs: the programs.
        victims: whom each fault struck, and when all had gone on after it.
    """
    lines = [line for program in programs for line in program.lines]
    accepted, done = _given_and_done(programs)
    wrong = [f"{name} was accepted, and never done" for name in sorted(accepted - done)]
    for name, stays in _stays_of(programs).items():
        if len({stay.entered["id"] for stay in stays}) > 1:
            wrong.append(f"{name} is two jobs")
        for earlier, later in pairwise(sorted(stays, key=lambda stay: stay.entered["attempt"])):
            if earlier.entered["attempt"] == later.entered["attempt"]:
                # Who is cut off right then may be the only one to have what gave it the job.
                if not any(_is_struck(stay, victims) for stay in (earlier, later)):
                    wrong.append(f"{name} was given twice as one attempt")
            elif "done" in earlier.end and not _is_struck(earlier, victims):
                wrong.append(f"{name} was done, and given again")
            elif "done" in earlier.end and _was_told(lines, earlier, later):
                wrong.append(f"{name} was lost, and its worker went on")
    return {
        "accepted": len(accepted),
        "unknown": sum("unknown" in line for line in lines),
        "done": len(done),
        "done_again": sum("done" in line for line in lines) - len(done),
        "lost": sum("lost" in line for line in lines),
        "violations": wrong,
    }


@attrs.frozen
class _Stay:
    """A worker at a job: the lines at the beginning and the end, which is empty without one."""

    who: Program
    entered: dict[str, Any]
    end: dict[str, Any]


def _stays_of(programs: list[Program]) -> dict[str, list[_Stay]]:
    found: dict[str, list[_Stay]] = defaultdict(list)
    for program in programs:
        ends = {
            (line["job"], line["attempt"]): line
            for line in program.lines
            if "done" in line or "lost" in line
        }
        for line in program.lines:
            if "entered" in line:
                end = ends.get((line["job"], line["attempt"]), {})
                found[line["job"]].append(_Stay(program, line, end))
    return found


def _was_told(lines: list[dict[str, Any]], earlier: _Stay, later: _Stay) -> bool:
    """Return whether a worker had got a job, before it ended this one, that somebody gave only when
    another worker had this one: the order has told it of the loss by then."""
    gave = {line["gives"]: line["at"] for line in lines if "gives" in line}
    return any(
        "entered" in line
        and line["at"] < earlier.end["at"]
        and gave[line["job"]] > later.entered["at"]
        for line in earlier.who.lines
    )


def _is_struck(stay: _Stay, victims: list[tuple[Program | None, int]]) -> bool:
    """Return whether a fault struck the worker then, or before a report of that time had its
    place."""
    at = (stay.end or stay.entered)["at"]
    begins = [0, *(until for _, until in victims)]
    return any(
        victim is stay.who and begin - REPORT_S * 1e9 <= at <= until
        for begin, (victim, until) in zip(begins, victims, strict=False)
    )
