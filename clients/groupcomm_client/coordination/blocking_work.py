"""Workers of a set for programs that use threads."""

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from types import TracebackType
from typing import Self

from groupcomm.errors import Code, SessionEnded
from groupcomm.events import MemberId, Position
from groupcomm_client.arguments import check_function
from groupcomm_client.coordination.working import Job, SetAside, Worker
from groupcomm_client.thread_loop import run, run_block


class BlockingJob:
    """A job that this program is to do; see `coordination.Job`.

    If the job is lost, the calls to this library in its block end, and JobLost is raised at the end
    of the block at the latest. Before an important step, `lost` says whether it is.
    """

    def __init__(self, awaited: Job) -> None:
        self.awaited = awaited
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        return run(self.awaited.__aexit__(kind, error, trace))


class BlockingWorker:
    """One worker of a set, made by `work`; threads may share it. See `coordination.Worker`."""

    def __init__(self, awaited: Worker) -> None:
        self.awaited = awaited
        self.put_back = awaited.put_back
        self.discard = awaited.discard

    @property
    def is_current(self) -> bool:
        """Return whether this worker knows the jobs of the set."""
        return self.awaited.is_current

    @property
    def workers(self) -> dict[MemberId, int]:
        """Return the workers of the set, and the number of jobs that each works on."""
        return self.awaited.workers

    @property
    def waiting(self) -> int:
        """Return the number of jobs that no worker works on."""
        return self.awaited.waiting

    @property
    def set_aside(self) -> list[SetAside]:
        """Return the jobs that have failed too often, the oldest first."""
        return self.awaited.set_aside

    @property
    def since(self) -> Position | None:
        """Return the place from which on the set has been there; earlier messages are no jobs."""
        return self.awaited.since

    @property
    def refused(self) -> int:
        """Return the number of jobs that the set has refused, as it kept too many."""
        return self.awaited.refused

    def next(self) -> BlockingJob:
        """Wait for the next job; raise RulesDiffer or SessionEnded if there can be none."""
        return BlockingJob(run(self.awaited.next()))

    def next_batch(self) -> list[BlockingJob]:
        """Wait for the next job; return it with all others that are there."""
        return [BlockingJob(job) for job in run(self.awaited.next_batch())]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BlockingJob:
        try:
            return self.next()
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopIteration from None
            raise

    def work_off(self, handler: Callable[[Job], object]) -> None:
        """Have a function do the jobs, each in a thread of its own; see `Worker.work_off`."""
        check_function("handler", handler)

        async def handle(job: Job) -> None:
            handler(job)

        run(self.awaited.work_off(handle))

    def next_set_aside(self) -> SetAside:
        """Wait until another job is set aside; raise SessionEnded if the session is over."""
        return run(self.awaited.next_set_aside())

    def until_current(self) -> None:
        """Wait until this worker knows the jobs; raise SessionEnded if the session is over."""
        run(self.awaited.until_current())

    def flush(self) -> None:
        """Wait until the other workers know what this one has reported."""
        run(self.awaited.flush())


@contextmanager
def worker_of(block: AbstractAsyncContextManager[Worker]) -> Iterator[BlockingWorker]:
    """Run the block of a worker; yield the worker for threads."""
    with run_block(block) as awaited:
        yield BlockingWorker(awaited)
