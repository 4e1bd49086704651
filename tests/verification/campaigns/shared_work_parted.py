"""A set of workers with many waiting jobs, while the network is parted, and is whole again.

    python -m tests.verification.campaigns shared_work --waiting 20000

Workers that only look on keep the jobs, one at each of three daemons. One of them is cut off; both
parts get further jobs, and meet. Checked: all have one state with every job; messages of the
exchange are small; and then one worker does each job. Ends with a line of JSON, with the seconds
from the first view of all daemons to one state, and what was sent meanwhile.
"""

import time
from argparse import Namespace
from contextlib import AsyncExitStack
from typing import Any, Final

from groupcomm_client import Connection, connect
from groupcomm_client.coordination import Worker
from groupcomm_client.coordination.parts import PART_BYTES
from groupcomm_tools.running_cluster import RunningCluster
from groupcomm_tools.terminal import say
from tests.verification.campaigns.programs import until

NAMES: Final = "abc"
CUT_OFF: Final = "c"
APART: Final = 500
"""The jobs that each part gets while the network is parted."""

SENT_AT_ONCE: Final = 500
BYTES: Final = 92
"""Of a job, behind its number."""

PATIENCE_S: Final = 120.0


class Watcher:
    """A worker that only looks on, and what it sends."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.sent: list[int] = []
        send = worker.driver.send

        def counted(data: bytes, **options: Any) -> None:
            self.sent.append(len(data))
            send(data, **options)

        worker.driver.send = counted  # type: ignore[method-assign]

    def knows(self, jobs: int) -> bool:
        return self.worker.is_current and len(self.worker.sharing.queue.jobs) == jobs

    def members(self) -> int:
        view = self.worker.sharing.replica.view
        return 0 if view is None else len(view.members)


async def send(connection: Connection, first: int, count: int, size: int) -> None:
    """Send jobs with rising numbers."""
    for start in range(first, first + count, SENT_AT_ONCE):
        numbers = range(start, min(start + SENT_AT_ONCE, first + count))
        jobs = [b"%08d" % number + bytes(size) for number in numbers]
        await connection.multicast_many("jobs", jobs[:-1])
        await connection.multicast_ordered("jobs", jobs[-1])


async def do_all(connection: Connection, options: Namespace, count: int) -> set[int]:
    """Be a worker until so many jobs are done; return their numbers."""
    done: set[int] = set()
    async with connection.work(
        "jobs", name="campaign", at_once=1000, deadline_s=options.deadline_s
    ) as worker:
        while len(done) < count:
            for job in await worker.next_batch():
                done.add(int(job.data[:8]))
                job.done()
        await worker.flush()
    return done


async def run_parted(options: Namespace) -> dict[str, Any]:
    """Run it; return the results."""
    jobs = options.waiting
    with RunningCluster(NAMES, relay=True, seed=options.seed) as cluster:
        async with AsyncExitStack() as stack:
            watchers: dict[str, Watcher] = {}
            senders: dict[str, Connection] = {}
            for name in NAMES:
                address = cluster.address(name)
                senders[name] = await stack.enter_async_context(connect(address))
                connection = await stack.enter_async_context(connect(address))
                work = connection.work(
                    "jobs", name="campaign", at_once=0, deadline_s=options.deadline_s
                )
                watchers[name] = Watcher(await stack.enter_async_context(work))
            every = list(watchers.values())
            await send(senders["a"], 0, jobs, BYTES)
            await until("all know", lambda: all(w.knows(jobs) for w in every), PATIENCE_S)
            say(f"{jobs} jobs wait")
            cluster.partition(CUT_OFF, NAMES.replace(CUT_OFF, ""))
            alone = watchers[CUT_OFF]
            await until(
                "two parts",
                lambda: alone.members() == 1 and watchers["a"].members() == len(NAMES) - 1,
                PATIENCE_S,
            )
            await send(senders["a"], jobs, APART, BYTES)
            await send(senders[CUT_OFF], jobs + APART, APART, BYTES)
            await until("both know", lambda: alone.knows(jobs + APART), PATIENCE_S)
            for watcher in every:
                watcher.sent.clear()
            cluster.heal()
            total = jobs + 2 * APART
            await until(
                "one view", lambda: all(w.members() == len(NAMES) for w in every), PATIENCE_S
            )
            began = time.monotonic()
            await until("one state", lambda: all(w.knows(total) for w in every), PATIENCE_S)
            merged_s = time.monotonic() - began
            states = {watcher.worker.sharing.queue.snapshot() for watcher in every}
            sent = [size for watcher in every for size in watcher.sent]
            done = await do_all(senders["b"], options, total)
    wrong = []
    if len(states) > 1:
        wrong.append(f"there are {len(states)} states")
    if done != set(range(total)):
        wrong.append(f"{total - len(done)} jobs were not done")
    if max(sent) > PART_BYTES + 1000:
        wrong.append(f"a message of {max(sent)} bytes was sent")
    return {
        "waiting": jobs,
        "merged_s": round(merged_s, 2),
        "state_bytes": len(next(iter(states))),
        "sent_bytes": sum(sent),
        "messages": len(sent),
        "done": len(done),
        "violations": wrong,
    }
