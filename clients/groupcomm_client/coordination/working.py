"""Work that is shared: each message to a group goes to one worker of a set.

::

    async with connect() as connection, connection.work("jobs", name="printers") as worker:
        async for job in worker:
            async with job:
                print(job.data)

docs/work.md has the rules and the promises; `sharing` is the machine behind it, for all loops.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Self, TypeAlias

import attrs

from groupcomm.errors import Code, GroupCommError, LocalProtocolError, SessionEnded
from groupcomm.events import MemberId, Position
from groupcomm.names import check_group
from groupcomm_client.arguments import check_count, check_function, check_seconds
from groupcomm_client.basic_connection import TURNS, BasicConnection
from groupcomm_client.coordination.driving import Driver, Tenure, driving
from groupcomm_client.coordination.limits import clean, text_of
from groupcomm_client.coordination.replica import Send
from groupcomm_client.coordination.rules import RulesDiffer
from groupcomm_client.coordination.sharing import Sharing, Withdraw
from groupcomm_client.coordination.work_messages import Entry, JobId, Settings
from groupcomm_client.coordination.work_queue import MOST_AT_ONCE, Key, WasRefused, WasSetAside
from groupcomm_client.events import Received

AT_ONCE: Final = 16
DEADLINE_S: Final = 60.0
TRIES: Final = 5

MOST_DEADLINE_S: Final = 1e9

MOST_CHANGED: Final = 100_000
"""The most jobs that are put back or discarded at a time: they fit in a message."""

MOST_EVENTS: Final = 1000
"""The jobs that were set aside of which a worker tells a program that does not ask."""


class JobLost(GroupCommError):
    """Raised if a job is another worker's by now; its block was cancelled."""


@attrs.frozen
class SetAside:
    """A job that has failed too often.

    Attributes:
        id: its place in the agreed order.
        data: its data.
        sender: the session that sent it.
        failures: the number of its failures.
        why: why it failed last.
    """

    id: JobId
    data: bytes
    sender: MemberId
    failures: int
    why: str


class Job:
    """A job that this program is to do; as a block, it is done at the end of the block.

    If the block raises an error, the job has failed. If the job is lost, the block is cancelled,
    and JobLost is raised.

    Attributes:
        id: its place in the agreed order, which names it for ever.
        data: its data.
        sender: the session that sent it.
        type: the sender's tag.
        key: its key, if the set has keys.
        attempt: 1 if it was never given before.
        lost: whether it is another worker's by now.
    """

    def __init__(self, worker: "Worker", entry: Entry) -> None:
        self.id: Position = entry.id
        self.data = entry.data
        self.sender = entry.sender
        self.type = entry.type
        self.key = entry.key
        self.attempt = entry.given
        self.lost = False
        self._worker = worker
        self._tenure: Tenure | None = None

    def __repr__(self) -> str:
        return f"<job {self.data[:40]!r} of {self.sender}, attempt {self.attempt}>"

    def done(self) -> None:
        """Report that the job is done; a second call changes nothing."""
        self._worker.let_go(self, lambda sharing: sharing.done(self.id))

    def fail(self, why: str = "") -> None:
        """Report that the job has failed: it is given again, or set aside."""
        why = clean(why)  # first, as this may fail
        self._worker.let_go(self, lambda sharing: sharing.fail(self.id, why))

    def give_back(self) -> None:
        """Have another worker do the job, if there is one; this is no failure of the job."""
        self._worker.let_go(self, lambda sharing: sharing.give_back(self.id))

    def extend(self) -> None:
        """Begin the deadline of the job anew."""
        self._worker.tell(lambda sharing: sharing.extend(self.id))

    def lose(self) -> None:
        """Note that the job is lost, and cancel the waits of its block."""
        self.lost = True
        if self._tenure is not None:
            self._tenure.lose()

    async def __aenter__(self) -> Self:
        tenure = Tenure(self._worker.driver.loop.cancel_scope())
        await tenure.begin()
        with self._worker.driver.thread_lock:
            self._tenure = tenure
            if self.lost:
                tenure.lose()
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> bool:
        tenure = self._tenure
        assert tenure is not None, "the block was entered"
        with self._worker.driver.thread_lock:
            self._tenure = None
        if error is None:
            self.done()
        else:
            self.fail(_text_of(error))
        lost = JobLost(
            "the job was given to another worker, as this program was cut off or took too long:"
            " it may be done twice"
        )
        return await tenure.end(error, lost)


def _text_of(error: BaseException) -> str:
    if not isinstance(error, Exception):
        return "the work on it was cancelled"
    return text_of(error)


Handler: TypeAlias = Callable[[Job], Awaitable[object]]


class Worker:
    """One worker of a set; made by `work`. Iterate over it to get its jobs."""

    def __init__(
        self,
        connection: BasicConnection,
        group: str,
        control: str,
        make: Callable[[BasicConnection], Sharing],
    ) -> None:
        self.group = group
        self._make = make
        self._earlier: Sharing | None = None
        self._jobs: dict[JobId, Job] = {}
        self._aside: deque[SetAside] = deque(maxlen=MOST_EVENTS)
        self._has_news = connection.loop.event()  # for the reporter
        self._waiting = 0  # the number of tasks that wait for a job
        self._calls = 0
        self.driver = Driver(connection, control, self, others=(group,))

    # ---- the set ----

    @property
    def is_current(self) -> bool:
        """Return whether this worker knows the jobs of the set."""
        return self.sharing.is_current and self.driver.is_live

    @property
    def workers(self) -> dict[MemberId, int]:
        """Return the workers of the set, and the number of jobs that each works on."""
        with self.driver.thread_lock:
            return self.sharing.queue.workers

    @property
    def waiting(self) -> int:
        """Return the number of jobs that no worker works on."""
        with self.driver.thread_lock:
            queue = self.sharing.queue
            return len(queue.jobs) - sum(queue.workers.values())

    @property
    def set_aside(self) -> list[SetAside]:
        """Return the jobs that have failed too often, the oldest first."""
        with self.driver.thread_lock:
            aside = self.sharing.queue.aside
            return [_set_aside(aside[id]) for id in sorted(aside)]

    @property
    def since(self) -> Position | None:
        """Return the place from which on the set has been there; earlier messages are no jobs."""
        return self.sharing.queue.since

    @property
    def refused(self) -> int:
        """Return the number of jobs that the set has refused, as it kept too many."""
        return self.sharing.queue.refused

    def put_back(self, jobs: Sequence[JobId]) -> None:
        """Have jobs that were set aside given again.

        Raises:
            LocalProtocolError: these are no identities of jobs, or more than MOST_CHANGED.
        """
        ids = _checked(jobs)
        self.tell(lambda sharing: sharing.put_back(ids))

    def discard(self, jobs: Sequence[JobId]) -> None:
        """Forget jobs that were set aside; raise LocalProtocolError as `put_back` does."""
        ids = _checked(jobs)
        self.tell(lambda sharing: sharing.discard(ids))

    async def next_set_aside(self) -> SetAside:
        """Wait until another job is set aside, or return one of which this program was not told.

        Raises:
            SessionEnded: the session is over.
        """
        while True:
            await self.driver.until(lambda: bool(self._aside))
            with self.driver.thread_lock:
                if self._aside:  # otherwise another task was told
                    return self._aside.popleft()

    async def until_current(self) -> None:
        """Wait until this worker knows the jobs of the set.

        Raises:
            SessionEnded: the session is over.
        """
        await self.driver.until(lambda: self.sharing.is_current and self.driver.session is not None)

    # ---- jobs ----

    async def next(self) -> Job:
        """Wait for the next job; several tasks may wait.

        Raises:
            RulesDiffer: the other workers of the set have other rules.
            SessionEnded: the session is over.
        """
        self._calls += 1
        if not self._calls % TURNS:
            await self.driver.loop.checkpoint()
        while True:
            job = self._pop()
            if job is not None:
                return job
            self._waiting += 1
            try:
                await self.driver.until(self._may_go_on)
            finally:
                self._waiting -= 1

    async def next_batch(self) -> list[Job]:
        """Wait for the next job; return it with all others that are there; see `next`.

        It is cheaper than one call for each.
        """
        jobs = [await self.next()]
        while (job := self._pop()) is not None:
            jobs.append(job)
        return jobs

    def _may_go_on(self) -> bool:
        # Behind the end of the session no job is given, though there may be some.
        has_session = self.driver.session is not None
        return has_session and (self.sharing.has_job or not self.sharing.fits)

    def _pop(self) -> Job | None:
        with self.driver.thread_lock:
            self.driver.check_own()
            if not self.sharing.fits:
                raise RulesDiffer(
                    f"the workers of {self.driver.group!r} have other rules than this one: give"
                    " all of them the same tries and deadline_s, and a key or none;"
                    f" theirs are {self.sharing.queue.settings}"
                )
            entry = None if self.driver.session is None else self.sharing.next_job()
            if entry is None:
                return None
            job = self._jobs[entry.id] = Job(self, entry)
            return job

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Job:
        try:
            return await self.next()
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopAsyncIteration from None
            raise

    async def work_off(self, handler: Handler) -> None:
        """Have a function do the jobs, each in a task of its own; an error is the job's failure.

        It lasts until the session is over. If it is cancelled, it gives its jobs back.

        Raises:
            RulesDiffer, SessionEnded: see `next`.
            LocalProtocolError: the handler is no function.
        """
        check_function("handler", handler)
        self.driver.check_own()
        async with self.driver.loop.tasks() as tasks:
            async for job in self:
                tasks.start(_do, handler, job)

    async def flush(self) -> None:
        """Wait until the other workers know what this one has reported.

        Raises:
            SessionEnded: the session is over.
        """
        await self.driver.until(lambda: self.driver.session is not None and self.sharing.is_quiet)

    # ---- inside ----

    def tell(self, change: Callable[[Sharing], None]) -> None:
        """Change the machine, which has something to say then."""
        self.driver.check_own()
        with self.driver.thread_lock:
            change(self.sharing)
        self._has_news.set()

    def let_go(self, job: Job, change: Callable[[Sharing], None]) -> None:
        """Report about a job that the program has no longer."""
        self.driver.check_own()
        with self.driver.thread_lock:
            if self._jobs.get(job.id) is not job:
                return  # reported before
            del self._jobs[job.id]
            change(self.sharing)
        self._has_news.set()
        if self._waiting:
            self.driver.notify()

    # ---- what the driver tells ----

    is_busy = False

    def begin(self, session: BasicConnection) -> None:
        """See `Participant`."""
        self.sharing = self._make(session)
        if self._earlier is not None:
            self.sharing.succeed(self._earlier)
        if session.view is not None:
            self.sharing.handle(session.view)

    def accept(self, event: Received) -> None:
        """See `Participant`."""
        for action in self.sharing.handle(event):
            match action:
                case Send(data):
                    self.driver.send(data)
                case Withdraw(id):
                    if id in self._jobs:
                        self._jobs[id].lose()
                case WasSetAside(entry):
                    self._aside.append(_set_aside(entry))
                case WasRefused():
                    pass  # `refused` counts it

    def lose(self) -> None:
        """See `Participant`."""
        self._earlier = self.sharing
        for job in self._jobs.values():
            job.lose()

    def changed(self) -> None:
        """See `Participant`."""
        self._has_news.set()

    async def run_reporter(self) -> None:
        """Send what this worker has to say, all of it in one message."""
        loop = self.driver.loop
        while self.driver.ended is None:
            await self._has_news.wait()
            self._has_news = loop.event()
            await loop.checkpoint()  # other tasks may have more to report
            with self.driver.thread_lock:
                if self.driver.session is None:
                    continue
                data = self.sharing.pop_command()
                if data is not None:
                    self.driver.send(data)

    async def run_watch(self) -> None:
        """Look for late jobs now and then."""
        look_s = self.sharing.look_s
        while look_s is not None and self.driver.ended is None:
            await self.driver.loop.sleep(look_s)
            self.tell(lambda sharing: sharing.look(time.monotonic()))


def _checked(jobs: Sequence[JobId]) -> tuple[JobId, ...]:
    """Return the identities of jobs, for a message about them."""
    ids = tuple(jobs) if isinstance(jobs, Iterable) else (jobs,)
    if len(ids) > MOST_CHANGED or not all(isinstance(each, Position) for each in ids):
        raise LocalProtocolError(
            f"jobs are {len(ids):,} of these: {ids[:1]!r}; write the id of each, at most"
            f" {MOST_CHANGED:,} at a time"
        )
    return ids


def _set_aside(entry: Entry) -> SetAside:
    return SetAside(entry.id, entry.data, entry.sender, entry.failures, entry.why)


async def _do(handler: Handler, job: Job) -> None:
    with suppress(JobLost, Exception):  # the job has failed: the others know why
        async with job:
            try:
                await handler(job)
            except Exception:
                raise
            except BaseException:  # the program ends, which is not the job's fault
                job.give_back()
                raise


def _settings_of(at_once: int, deadline_s: float | None, tries: int, key: Key | None) -> Settings:
    """Check the arguments of `work`; return the rules of the set."""
    check_count("at_once", at_once, 0, MOST_AT_ONCE)
    check_count("tries", tries)
    if (
        deadline_s is not None
        and not 0 < check_seconds("deadline_s", deadline_s) <= MOST_DEADLINE_S
    ):
        raise LocalProtocolError(
            f"deadline_s is {deadline_s}; write above 0 to {MOST_DEADLINE_S:,.0f}, or None"
        )
    if key is not None:
        check_function("key", key)
    deadline_ms = None if deadline_s is None else max(1, round(deadline_s * 1000))
    return Settings(tries, deadline_ms, key is not None)


@asynccontextmanager
async def work(
    connection: BasicConnection,
    group: str,
    *,
    name: str,
    at_once: int = AT_ONCE,
    deadline_s: float | None = DEADLINE_S,
    tries: int = TRIES,
    key: Key | None = None,
) -> AsyncIterator[Worker]:
    """Be a worker of a set for the length of a block.

    At the end of the block the jobs of this worker are given to others.

    Args:
        connection: a connection for this alone; nothing else may receive from it. With
            ``reconnect=True`` the next session is another worker: the jobs of the earlier one are
            lost (JobLost), and go to whoever is there.
        group: the group whose messages are jobs.
        name: the name of the set; its workers join the group ``GROUP.NAME``, too.
        at_once: the number of jobs that the program has at a time; 0: it gets none, and keeps the
            state of the set.
        deadline_s: the seconds that a worker has for a job; None: as long as it takes.
        tries: the failures after which a job is set aside.
        key: returns the key of a message, or None; jobs of one key are done one at a time, in
            order. If it raises, or returns something else, the job has no key. It must depend on
            nothing but the message, and be the same at all workers.

    Raises:
        LocalProtocolError: an argument is invalid.
        AccessRefused: the daemon's rules do not allow to join the groups, or no longer.
        SessionEnded: the session is over, and no other follows.
    """
    control = check_group(f"{check_group(group)}.{check_group(name)}")
    settings = _settings_of(at_once, deadline_s, tries, key)

    def make(session: BasicConnection) -> Sharing:
        return Sharing(session.member, group, control, settings=settings, at_once=at_once, key=key)

    worker, loop = Worker(connection, group, control, make), connection.loop
    # The jobs' group is joined first: so none is missing behind the join of the other one.
    joined, others, running = connection.group(group), driving(worker.driver), loop.tasks()
    async with joined, others, running as tasks:
        tasks.start(worker.run_reporter)
        tasks.start(worker.run_watch)
        try:
            yield worker
        except Exception:
            await _say_the_last(worker)
            raise
        await _say_the_last(worker)


async def _say_the_last(worker: Worker) -> None:
    with suppress(SessionEnded):
        await worker.driver.connection.part(worker.flush)
