"""Coordination of programs that use threads: the calls of `groupcomm_client.coordination` block.

::

    with connect(user="ann") as connection, join_mutex(connection, "press") as mutex:
        with mutex:
            ...  # no other member is in this block

`on_use` and the state machine are called in a thread of their own, a machine by one call at a time.
The calls to this library in a block end once the program has lost what the block is for, and the
error that says so is raised at the end of the block at the latest.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from groupcomm_client.arguments import check_function
from groupcomm_client.block import Raised
from groupcomm_client.blocking import BlockingConnection
from groupcomm_client.coordination import (
    election,
    mutex,
    objects,
    replicated,
    requests,
    semaphore,
    working,
)
from groupcomm_client.coordination.blocking_work import BlockingJob, BlockingWorker
from groupcomm_client.coordination.election import Election
from groupcomm_client.coordination.mutex import Mutex
from groupcomm_client.coordination.objects import (
    DictWatch,
    ReadyObject,
    ReplicatedCounter,
    ReplicatedDict,
    ReplicatedLatch,
    ReplicatedQueue,
)
from groupcomm_client.coordination.replicated import Replicated
from groupcomm_client.coordination.requests import Caller, Request
from groupcomm_client.coordination.semaphore import ReplicatedSemaphore
from groupcomm_client.thread_loop import run
from groupcomm_client.waiting import Events, Waiting, calls, opens, same, shows, waits

__all__ = [
    "BlockingCaller",
    "BlockingDictWatch",
    "BlockingElection",
    "BlockingJob",
    "BlockingMutex",
    "BlockingReplicated",
    "BlockingReplicatedCounter",
    "BlockingReplicatedDict",
    "BlockingReplicatedLatch",
    "BlockingReplicatedQueue",
    "BlockingReplicatedSemaphore",
    "BlockingWorker",
    "calling",
    "join_mutex",
    "keep_resource",
    "open_counter",
    "open_dict",
    "open_latch",
    "open_queue",
    "open_semaphore",
    "replicate",
    "serve",
    "stand",
    "use",
    "work",
]


Ready = TypeVar("Ready", bound=ReadyObject[Any])


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


class _BlockingObject(Waiting[Ready]):
    is_current = shows(ReadyObject.is_current)
    until_current = waits(ReadyObject.until_current)


class BlockingReplicatedDict(_BlockingObject[ReplicatedDict[Any]]):
    """A dict that programs share; made by `open_dict`; threads may share it, too."""

    get = calls(ReplicatedDict[Any].get)
    entry = calls(ReplicatedDict[Any].entry)
    copy = calls(ReplicatedDict[Any].copy)
    put = waits(ReplicatedDict.put)
    delete = waits(ReplicatedDict.delete)

    def watch(self) -> "BlockingDictWatch":
        """Return an iterator over changes; see `ReplicatedDict.watch`."""
        return BlockingDictWatch(self.awaited.watch())


class BlockingDictWatch(Events[DictWatch[Any], Mapping[str, Any]]):
    """Changes of a dict; made by `BlockingReplicatedDict.watch`."""


class BlockingReplicatedCounter(_BlockingObject[ReplicatedCounter]):
    """A number that programs share; made by `open_counter`."""

    value = shows(ReplicatedCounter.value)
    add = waits(ReplicatedCounter.add)
    until_changed = waits(ReplicatedCounter.until_changed)


class BlockingReplicatedLatch(_BlockingObject[ReplicatedLatch]):
    """A latch that programs share; made by `open_latch`."""

    remaining = shows(ReplicatedLatch.remaining)
    count_down = waits(ReplicatedLatch.count_down)
    until_open = waits(ReplicatedLatch.until_open)


class BlockingReplicatedQueue(_BlockingObject[ReplicatedQueue[Any]]):
    """A queue that programs share; made by `open_queue`."""

    put = waits(ReplicatedQueue.put)
    get = waits(ReplicatedQueue[Any].get)

    def __len__(self) -> int:
        """Return the number of values here."""
        return len(self.awaited)


class BlockingReplicatedSemaphore(_BlockingObject[ReplicatedSemaphore]):
    """Permits that programs share; made by `open_semaphore`."""

    holders = shows(ReplicatedSemaphore.holders)
    permit = opens(ReplicatedSemaphore.permit, same)


open_dict = opens(objects.open_dict, BlockingReplicatedDict)
open_counter = opens(objects.open_counter, BlockingReplicatedCounter)
open_latch = opens(objects.open_latch, BlockingReplicatedLatch)
open_queue = opens(objects.open_queue, BlockingReplicatedQueue)
open_semaphore = opens(semaphore.open_semaphore, BlockingReplicatedSemaphore)


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
