"""Workers of a set for programs that use threads."""

from collections.abc import Callable
from typing import Self

from groupcomm_client.arguments import check_function
from groupcomm_client.block import Raised
from groupcomm_client.coordination.working import Job, Worker
from groupcomm_client.thread_loop import run
from groupcomm_client.waiting import Events, Waiting, calls, shows, waits


class BlockingJob(Waiting[Job]):
    """A job that this program is to do; see `coordination.Job`.

    If the job is lost, the calls to this library in its block end, and JobLost is raised at the end
    of the block at the latest. Before an important step, `lost` says whether it is.
    """

    def __init__(self, awaited: Job) -> None:
        super().__init__(awaited)
        self.id = awaited.id
        self.data = awaited.data
        self.sender = awaited.sender
        self.type = awaited.type
        self.key = awaited.key
        self.attempt = awaited.attempt
        self.done = awaited.done
        self.fail = awaited.fail
        self.give_back = awaited.give_back
        self.extend = awaited.extend

    @property
    def lost(self) -> bool:
        """Return whether the job is another worker's by now."""
        return self.awaited.lost

    def __enter__(self) -> Self:
        run(self.awaited.__aenter__())
        return self

    def __exit__(self, *raised: *Raised) -> bool:
        return run(self.awaited.__aexit__(*raised))


class BlockingWorker(Events[Worker, Job]):
    """One worker of a set, made by `work`; threads may share it. See `coordination.Worker`."""

    is_current = shows(Worker.is_current)
    workers = shows(Worker.workers)
    waiting = shows(Worker.waiting)
    set_aside = shows(Worker.set_aside)
    since = shows(Worker.since)
    refused = shows(Worker.refused)
    put_back = calls(Worker.put_back)
    discard = calls(Worker.discard)
    next_set_aside = waits(Worker.next_set_aside)
    until_current = waits(Worker.until_current)
    flush = waits(Worker.flush)

    def next(self) -> BlockingJob:
        """Wait for the next job; raise RulesDiffer or SessionEnded if there can be none."""
        return BlockingJob(run(self.awaited.next()))

    def next_batch(self) -> list[BlockingJob]:
        """Wait for the next job; return it with all others that are there."""
        return [BlockingJob(job) for job in run(self.awaited.next_batch())]

    def __next__(self) -> BlockingJob:  # type: ignore[override]
        return BlockingJob(super().__next__())

    def work_off(self, handler: Callable[[Job], object]) -> None:
        """Have a function do the jobs, each in a thread of its own; see `Worker.work_off`."""
        check_function("handler", handler)

        async def handle(job: Job) -> None:
            handler(job)

        run(self.awaited.work_off(handle))
