"""Workers that share jobs, as processes at three daemons, while some of them are killed.

    python -m tests.verification.campaigns shared_work --jobs 100000 --workers 8 --kills 50
    python -m tests.verification.campaigns shared_work --waiting 20000

Checked: every job is done; no worker has more jobs than its limit; nothing is left in the end.
Ends with a line of JSON, with the jobs that were done more than once and the jobs a second.
"""

import time
from argparse import Namespace
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

from groupcomm_client import Connection, Position, connect
from groupcomm_client.coordination import Worker
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.terminal import say
from tests.verification.campaigns.programs import Program, until
from tests.verification.campaigns.runner import Found, campaign, option
from tests.verification.campaigns.shared_work_parted import (
    BYTES,
    PATIENCE_S,
    SENT_AT_ONCE,
    run_parted,
)
from tests.verification.campaigns.shared_work_program import RECORD

NAMES: Final = ("alfa", "bravo", "charlie")
BACKLOG: Final = 5000
"""The most jobs that are not done yet."""

REPORT_S: Final = 10.0


class Shop:
    """The workers, and a watcher that is one of them, but gets no jobs."""

    def __init__(
        self, options: Namespace, cluster: LocalCluster, folder: Path, nursery: Any
    ) -> None:
        self.options = options
        self.cluster = cluster
        self.folder = folder
        self.nursery = nursery
        self.workers: list[Program] = []
        self.most_in_flight = 0
        self.killed = 0

    async def open(self, place: int) -> Program:
        """Start a worker at one of the daemons."""
        options = self.options
        words = {
            "--address": self.cluster[NAMES[place % len(NAMES)]].unix,
            "--record": self.folder / f"worker{place}",
            "--at-once": options.at_once,
            "--work-s": options.work_s,
            "--deadline-s": options.deadline_s,
        }
        flat = [str(word) for pair in words.items() for word in pair]
        program = Program("tests.verification.campaigns.shared_work_program", flat)
        await program.start(self.nursery)
        return program

    async def send(self, connection: Connection, watcher: Worker, rest: int, sent: int) -> None:
        """Send jobs, as fast as they are done: few of them wait at a time."""

        queue = watcher.sharing.queue
        body = bytes(BYTES)
        while rest:
            await watcher.driver.until(lambda: watcher.is_current and len(queue.jobs) < BACKLOG)
            count = min(rest, SENT_AT_ONCE)
            jobs = [b"%08d" % (sent + each) + body for each in range(count)]
            await connection.multicast_many("jobs", jobs[:-1])
            last = await connection.multicast_ordered("jobs", jobs[-1])
            await until_known(watcher, last.position)
            rest -= count
            sent += count

    async def watch(self, watcher: Worker) -> None:
        """Note the most jobs that any worker had at a time."""

        def look() -> bool:
            counts = watcher.sharing.queue.workers.values()
            self.most_in_flight = max(self.most_in_flight, *counts, 0)
            return False

        await watcher.driver.until(look)

    async def report(self, watcher: Worker) -> None:
        """Say now and then how far it is."""
        while True:
            await trio.sleep(REPORT_S)
            counts = list(watcher.workers.values())
            say(f"{watcher.waiting} wait, {counts} at workers")

    async def kill(self, rng: Random, watcher: Worker) -> None:
        """Kill a worker while jobs are under way, and start another in its place."""
        place, before = rng.randrange(len(self.workers)), set(watcher.workers)
        await self.workers[place].kill()
        self.killed += 1
        self.workers[place] = await self.open(place)
        await until(
            "the new worker is there",
            lambda: self.all_there(watcher) and set(watcher.workers) != before,
            PATIENCE_S,
        )

    def all_there(self, watcher: Worker) -> bool:
        return len(watcher.workers) == len(self.workers)


def knows(watcher: Worker, place: Position) -> bool:
    """Return whether the watcher has got everything up to a place."""
    known = watcher.sharing.replica.as_of
    return watcher.is_current and known is not None and known >= place


async def until_known(watcher: Worker, place: Position) -> None:
    await watcher.driver.until(lambda: knows(watcher, place))


async def run_killed(options: Namespace) -> dict[str, Any]:
    """Run it; return the results."""
    rng = Random(options.seed)
    with TemporaryDirectory(prefix="groupcomm-") as name:
        folder = Path(name)
        async with (
            LocalCluster(NAMES) as cluster,
            trio.open_nursery() as nursery,
        ):
            await cluster.settle(NAMES)
            shop = Shop(options, cluster, folder, nursery)
            async with (
                connect(str(cluster["alfa"].unix)) as sender,
                connect(str(cluster["alfa"].unix)) as connection,
                connection.work(
                    "jobs", name="campaign", at_once=0, deadline_s=options.deadline_s
                ) as watcher,
            ):
                nursery.start_soon(shop.watch, watcher)
                nursery.start_soon(shop.report, watcher)
                for place in range(options.workers):
                    shop.workers.append(await shop.open(place))
                await until("all workers are there", lambda: shop.all_there(watcher), PATIENCE_S)
                wall_s = await work(shop, sender, watcher, rng)
                aside = len(watcher.set_aside)
                for worker in shop.workers:
                    await worker.kill()
            nursery.cancel_scope.cancel()
        return {**check(shop, aside), "jobs_per_s": round(options.jobs / wall_s)}


async def work(shop: Shop, sender: Connection, watcher: Worker, rng: Random) -> float:
    """Send all jobs, with kills in between; return the seconds until all are done."""
    options = shop.options
    began, sent = time.monotonic(), 0
    for number in range(options.kills + 1):
        count = options.jobs * (number + 1) // (options.kills + 1) - sent
        async with trio.open_nursery() as nursery:
            nursery.start_soon(shop.send, sender, watcher, count, sent)
            if number < options.kills:
                await trio.sleep(rng.uniform(0.0, 0.2))
                await shop.kill(rng, watcher)
        sent += count
        if number % 10 == 9:
            say(f"{number + 1} of {options.kills} kills, {sent} jobs")
    last = await sender.multicast_ordered("jobs", b"%08d" % sent)
    await watcher.driver.until(
        lambda: knows(watcher, last.position) and not watcher.sharing.queue.jobs
    )
    return time.monotonic() - began


def check(shop: Shop, aside: int) -> dict[str, Any]:
    """Return the results, and the violated expectations."""
    options = shop.options
    done: Counter[int] = Counter()
    given: Counter[int] = Counter()
    most_held = 0
    for path in shop.folder.glob("worker*"):
        for number, attempt, held in RECORD.iter_unpack(path.read_bytes()):
            done[number] += number < options.jobs  # the last one tells the end
            given[number] = max(given[number], attempt)
            most_held = max(most_held, held)
    wrong = []
    missing = [number for number in range(options.jobs) if number not in done]
    if missing:
        wrong.append(f"{len(missing)} jobs were never done, such as {missing[:3]}")
    if max(most_held, shop.most_in_flight) > options.at_once:
        wrong.append(f"a worker had {max(most_held, shop.most_in_flight)} jobs at a time")
    if aside:
        wrong.append(f"{aside} jobs were set aside")
    return {
        "jobs": options.jobs,
        "workers": options.workers,
        "kills": shop.killed,
        "done": len(+done),
        "done_again": sum(count - 1 for count in (+done).values()),
        "given_again": sum(attempt - 1 for attempt in given.values()),
        "most_in_flight": shop.most_in_flight,
        "at_once": options.at_once,
        "violations": wrong,
    }


@campaign(
    option("jobs", 100_000),
    option("workers", 8),
    option("kills", 50),
    option("seed", 1),
    option("at_once", 64, "limit of a worker"),
    option("work_s", 0.0, "time that jobs take"),
    option("deadline_s", 20.0),
    option("waiting", type=int, text="part the network while so many jobs wait, and kill nobody"),
)
async def run(options: Namespace) -> Found:
    """Run one of both forms; return the results."""
    return await (run_killed if options.waiting is None else run_parted)(options)
