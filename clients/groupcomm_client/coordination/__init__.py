"""Coordination of programs by groups, views and the agreed order.

These functions take a connection of trio or asyncio. `groupcomm_client.coordination.blocking` has
the same functions for programs that use threads.
"""

from groupcomm_client.coordination.election import Election, LeadershipLost, stand
from groupcomm_client.coordination.mutex import Mutex, MutexLost, join_mutex, keep_resource, use
from groupcomm_client.coordination.objects import (
    ReplicatedCounter,
    ReplicatedDict,
    ReplicatedLatch,
    ReplicatedQueue,
    open_counter,
    open_dict,
    open_latch,
    open_queue,
)
from groupcomm_client.coordination.replica import StateMachine, StateUnavailable
from groupcomm_client.coordination.replicated import OutcomeUnknown, Replicated, replicate
from groupcomm_client.coordination.requests import (
    Caller,
    CallFailed,
    NoReply,
    Replies,
    Request,
    calling,
    serve,
)
from groupcomm_client.coordination.rules import RulesDiffer
from groupcomm_client.coordination.semaphore import (
    PermitLost,
    ReplicatedSemaphore,
    open_semaphore,
)
from groupcomm_client.coordination.working import (
    Job,
    JobLost,
    SetAside,
    Worker,
    work,
)

__all__ = [
    "CallFailed",
    "Caller",
    "Election",
    "Job",
    "JobLost",
    "LeadershipLost",
    "Mutex",
    "MutexLost",
    "NoReply",
    "OutcomeUnknown",
    "PermitLost",
    "Replicated",
    "ReplicatedCounter",
    "ReplicatedDict",
    "ReplicatedLatch",
    "ReplicatedQueue",
    "ReplicatedSemaphore",
    "Replies",
    "Request",
    "RulesDiffer",
    "SetAside",
    "StateMachine",
    "StateUnavailable",
    "Worker",
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
