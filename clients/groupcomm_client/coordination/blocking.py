"""Coordination of programs that use threads: the calls of `groupcomm_client.coordination` block.

::

    with connect(user="ann") as connection, join_mutex(connection, "press") as mutex:
        with mutex:
            ...  # no other member is in this block

`on_use` and the state machine are called in a thread of their own, a machine by one call at a time.
The calls to this library in a block end once the program has lost what the block is for, and the
error that says so is raised at the end of the block at the latest.
"""

from collections.abc import Callable

from groupcomm_client.arguments import check_function
from groupcomm_client.block import Raised
from groupcomm_client.blocking import BlockingConnection
from groupcomm_client.coordination import election, mutex, replicated, requests, working
from groupcomm_client.coordination.blocking_work import BlockingJob, BlockingWorker
from groupcomm_client.coordination.election import Election
from groupcomm_client.coordination.mutex import Mutex
from groupcomm_client.coordination.replicated import Replicated
from groupcomm_client.coordination.requests import Caller, Request
from groupcomm_client.thread_loop import run
from groupcomm_client.waiting import Waiting, opens, same, shows, waits

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

    def __exit__(self, *raised: *Raised) -> bool:
        return run(self.awaited.__aexit__(*raised))


join_mutex = opens(mutex.join_mutex, BlockingMutex)
keep_resource = opens(mutex.keep_resource, same)


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

    leading = opens(Election.leading, same)


stand = opens(election.stand, BlockingElection)


class BlockingReplicated(Waiting[Replicated]):
    """One replica of a state machine; made by `replicate`."""

    is_current = shows(Replicated.is_current)
    until_current = waits(Replicated.until_current)
    submit = waits(Replicated.submit)


replicate = opens(replicated.replicate, BlockingReplicated)


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


calling = opens(requests.calling, BlockingCaller)
work = opens(working.work, BlockingWorker)
