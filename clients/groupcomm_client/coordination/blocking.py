"""Coordination of programs that use threads: the calls of `groupcomm_client.coordination` block.

::

    with connect(user="ann") as connection, join_mutex(connection, "press") as mutex:
        with mutex:
            ...  # no other member is in this block
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from groupcomm.events import MemberId, Message
from groupcomm_client.arguments import check_function
from groupcomm_client.blocking import BlockingConnection
from groupcomm_client.coordination import election, mutex, replicated, requests
from groupcomm_client.coordination.blocking_work import BlockingJob, BlockingWorker
from groupcomm_client.coordination.election import Election
from groupcomm_client.coordination.mutex import Mutex
from groupcomm_client.coordination.mutex.resource import Resource
from groupcomm_client.coordination.replica import StateMachine
from groupcomm_client.coordination.replicated import Replicated
from groupcomm_client.coordination.requests import Caller, Request
from groupcomm_client.coordination.working import AT_ONCE, DEADLINE_S, TRIES
from groupcomm_client.thread_loop import run, run_block
from groupcomm_client.waiting import Waiting, shows, waits

__all__ = [
    "BlockingCaller",
    "BlockingElection",
    "BlockingJob",
    "BlockingMutex",
    "BlockingReplicated",
    "BlockingWorker",
    "calling",
    "join_mutex",
    "keep_resource",
    "replicate",
    "serve",
    "stand",
    "use",
    "work",
]


class BlockingMutex(Waiting[Mutex]):
    """One program's side of a mutex, made by `join_mutex`. Threads of one program get it in turn.

    If this program is cut off while it holds the mutex, or its session ends, the calls to this
    library in its block end, and MutexLost is raised at the end of the block at the latest.
    """

    queue = shows(Mutex.queue)
    holds = shows(Mutex.holds)
    token = shows(Mutex.token)

    def __enter__(self) -> None:
        """Wait for this program's turn; raise SessionEnded if the session is over."""
        run(self.awaited.__aenter__())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        return run(self.awaited.__aexit__(kind, error, trace))


@contextmanager
def join_mutex(
    connection: BlockingConnection,
    group: str,
    *,
    form: str = mutex.DEFAULT_FORM,
    programs: int | None = None,
) -> Iterator[BlockingMutex]:
    """Compete for a mutex for the length of a block; see `coordination.join_mutex`."""
    block = mutex.join_mutex(connection.awaited, group, form=form, programs=programs)
    with run_block(block) as awaited:
        yield BlockingMutex(awaited)


@contextmanager
def keep_resource(
    connection: BlockingConnection,
    group: str,
    on_use: Callable[[MemberId, bytes], None],
    *,
    form: str = mutex.DEFAULT_FORM,
    programs: int | None = None,
) -> Iterator[Resource]:
    """Be the resource for the length of a block; see `coordination.keep_resource`.

    `on_use` is called in a thread of its own.
    """
    block = mutex.keep_resource(connection.awaited, group, on_use, form=form, programs=programs)
    with run_block(block) as resource:
        yield resource


def use(held: BlockingMutex, data: bytes) -> None:
    """Ask the resource to act while this program holds the mutex."""
    run(mutex.use(held.awaited, data))


class BlockingElection(Waiting[Election]):
    """One candidate; made by `stand`."""

    leader = shows(Election.leader)
    leads = shows(Election.leads)
    term = shows(Election.term)
    until_leading = waits(Election.until_leading)
    until_changed = waits(Election.until_changed)

    @contextmanager
    def leading(self) -> Iterator[None]:
        """Wait until this program leads; see `coordination.Election.leading`.

        If it loses leadership, the calls to this library in the block end, and LeadershipLost is
        raised at the end of the block at the latest.
        """
        with run_block(self.awaited.leading()):
            yield


@contextmanager
def stand(
    connection: BlockingConnection, group: str, *, candidates: int | None = None
) -> Iterator[BlockingElection]:
    """Be a candidate for the length of a block; see `coordination.stand`."""
    block = election.stand(connection.awaited, group, candidates=candidates)
    with run_block(block) as awaited:
        yield BlockingElection(awaited)


class BlockingReplicated(Waiting[Replicated]):
    """One replica of a state machine; made by `replicate`."""

    is_current = shows(Replicated.is_current)
    until_current = waits(Replicated.until_current)
    submit = waits(Replicated.submit)


@contextmanager
def replicate(
    connection: BlockingConnection,
    group: str,
    machine: StateMachine,
    *,
    replicas: int | None = None,
) -> Iterator[BlockingReplicated]:
    """Be a replica for the length of a block; see `coordination.replicate`.

    `machine` is called in a thread of its own, by one call at a time.
    """
    block = replicated.replicate(connection.awaited, group, machine, replicas=replicas)
    with run_block(block) as awaited:
        yield BlockingReplicated(awaited)


def serve(connection: BlockingConnection, group: str, handler: Callable[[Request], bytes]) -> None:
    """Be a server, until the session ends; see `coordination.serve`.

    Each request is handled in a thread of its own. Another thread ends this one by `close`.
    """

    check_function("handler", handler)

    async def handle(request: Request) -> bytes:
        return handler(request)

    run(requests.serve(connection.awaited, group, handle))


class BlockingCaller(Waiting[Caller]):
    """A program that makes requests; made by `calling`; threads may share it."""

    call = waits(Caller.call)
    call_all = waits(Caller.call_all)


@contextmanager
def calling(connection: BlockingConnection) -> Iterator[BlockingCaller]:
    """Make requests for the length of a block; see `coordination.calling`."""
    with run_block(requests.calling(connection.awaited)) as awaited:
        yield BlockingCaller(awaited)


def work(
    connection: BlockingConnection,
    group: str,
    *,
    name: str,
    at_once: int = AT_ONCE,
    deadline_s: float | None = DEADLINE_S,
    tries: int = TRIES,
    key: Callable[[Message], bytes | None] | None = None,
) -> AbstractContextManager[BlockingWorker]:
    """Be a worker of a set for the length of a block; see `coordination.work`."""
    return connection.work(
        group, name=name, at_once=at_once, deadline_s=deadline_s, tries=tries, key=key
    )
