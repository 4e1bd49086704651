"""The commands of workers that share jobs, and the state of their queue, as msgpack."""

from typing import TypeAlias

import msgspec

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import MemberId
from groupcomm_client.undecodable import UNDECODABLE

JobId: TypeAlias = Position
"""A job is named by its place in the agreed order, for ever."""

Stretch: TypeAlias = tuple[JobId, JobId]
"""Jobs of one view of daemons: the first, the last, and all of the group between them."""


class Settings(msgspec.Struct, frozen=True, array_like=True):
    """The rules of a worker set; all of its workers have the same.

    Attributes:
        tries: the failures after which a job is set aside.
        deadline_ms: the time that a worker has for a job; None: as long as it takes.
        keyed: whether jobs have keys.
    """

    tries: int
    deadline_ms: int | None
    keyed: bool


class Ready(msgspec.Struct, frozen=True, tag="rd", array_like=True):
    """A worker takes jobs from here on, up to `at_once` at a time; 0: no more of them."""

    at_once: int
    settings: Settings


class Report(msgspec.Struct, frozen=True, tag="rp", array_like=True):
    """The news of one worker, many jobs in one message.

    Attributes:
        done: jobs that are done.
        failed: jobs that have failed here: the number of the assignment, and why.
        late: jobs whose worker takes too long: the number of the assignment, and of its
            extensions.
        extended: jobs that this worker still works on: the number of the assignment.
        returned: jobs that this worker gives back: the number of the assignment.
    """

    done: tuple[JobId, ...] = ()
    failed: tuple[tuple[JobId, int, str], ...] = ()
    late: tuple[tuple[JobId, int, int], ...] = ()
    extended: tuple[tuple[JobId, int], ...] = ()
    returned: tuple[tuple[JobId, int], ...] = ()


class PutBack(msgspec.Struct, frozen=True, tag="pb", array_like=True):
    """Jobs that were set aside are to be given again; they have failed 0 times."""

    jobs: tuple[JobId, ...]


class Discard(msgspec.Struct, frozen=True, tag="dc", array_like=True):
    """Jobs that were set aside are not needed any more."""

    jobs: tuple[JobId, ...]


WorkCommand: TypeAlias = Ready | Report | PutBack | Discard


class Entry(msgspec.Struct, array_like=True):
    """One unfinished job; all workers have an equal one.

    Attributes:
        id: its place in the agreed order.
        sender: the session that sent it.
        type: the sender's tag.
        data: its data.
        key: jobs with one key are done one after another; None: it has none.
        given: the number of its assignments so far.
        failures: the number of those that have failed.
        extended: the number of extensions of its present assignment.
        worker: the member that works on it; None: it waits.
        why: why it failed last.
        failed_at: the workers at which it has failed, while there is another one.
    """

    id: JobId
    sender: MemberId
    type: int
    data: bytes
    key: bytes | None = None
    given: int = 0
    failures: int = 0
    extended: int = 0
    worker: MemberId | None = None
    why: str = ""
    failed_at: tuple[MemberId, ...] = ()


class QueueState(msgspec.Struct, array_like=True):
    """The state of a queue, for workers that lack it.

    Attributes:
        settings: those of the set; None before its first worker.
        workers: the workers and their limits, in the order in which they get jobs.
        jobs, aside: the unfinished jobs, and those that were set aside.
        seen: the jobs that it has heard of, rising.
        since: the place from which on the set has been there.
        refused: the number of jobs that were refused.
    """

    settings: Settings | None
    workers: list[tuple[MemberId, int]]
    jobs: list[Entry]
    aside: list[Entry]
    seen: list[Stretch]
    since: Position | None
    refused: int


class Ids(msgspec.Struct, array_like=True):
    """Jobs by name only, a few bytes each, in runs of consecutive messages of one bundle.

    Attributes:
        views: the views of daemons, each with the number of its runs.
        times: the time of each run, less that of the run before it.
        rings, bundles, firsts, counts: the rest of the position of each run's first message, and
            the number of its messages; one value stands for all that are equal.
    """

    views: list[tuple[ViewId, int]]
    times: list[int]
    rings: list[int]
    bundles: list[int]
    firsts: list[int]
    counts: list[int]


class Change(msgspec.Struct, array_like=True):
    """What is different about a job since it was sent; the attributes are those of an `Entry`."""

    id: int  # the place among the ids
    given: int
    failures: int
    extended: int
    worker: MemberId | None
    why: str
    failed_at: tuple[MemberId, ...]


class QueueClaim(msgspec.Struct, array_like=True):
    """What a queue has, without the data of its jobs.

    Attributes:
        jobs, aside: the unfinished jobs, and those that were set aside.
        changes: those that were given, by their place in `jobs` and then `aside`.
        added: the jobs of which it has the data, though it has not heard of them.
        settings, workers, seen, since, refused: those of a `QueueState`.
    """

    settings: Settings | None
    workers: list[tuple[MemberId, int]]
    jobs: Ids
    aside: Ids
    changes: list[Change]
    added: Ids
    seen: list[Stretch]
    since: Position | None
    refused: int


_encoder = msgspec.msgpack.Encoder()
_claims = msgspec.msgpack.Decoder(QueueClaim)
_entries = msgspec.msgpack.Decoder(list[Entry])
_commands: msgspec.msgpack.Decoder[WorkCommand] = msgspec.msgpack.Decoder(WorkCommand)
_states = msgspec.msgpack.Decoder(QueueState)


def encode(command: WorkCommand | QueueState | QueueClaim | list[Entry]) -> bytes:
    """Return a command, a state, a claim or a piece of a state as bytes."""
    return _encoder.encode(command)


def decode_command_untrusted(data: bytes) -> WorkCommand | None:
    """Return the command of a worker; None for bytes that no worker has sent."""
    try:
        return _commands.decode(data)
    except UNDECODABLE:
        return None


def decode_state_untrusted(data: bytes) -> QueueState | None:
    """Return the state of a queue; None for bytes that no worker has sent."""
    try:
        return _states.decode(data)
    except UNDECODABLE:
        return None


def decode_claim_untrusted(data: bytes) -> QueueClaim | None:
    """Return what a queue has; None for bytes that no worker has sent."""
    try:
        return _claims.decode(data)
    except UNDECODABLE:
        return None


def decode_piece_untrusted(data: bytes) -> list[Entry]:
    """Return the jobs of a piece; none for bytes that no worker has sent."""
    try:
        return _entries.decode(data)
    except UNDECODABLE:
        return []
