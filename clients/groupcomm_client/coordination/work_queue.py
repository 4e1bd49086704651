"""The jobs of one worker set: a machine that every worker runs, with the same result.

Pure: steps of the agreed order in, the state and news for the own worker out. It is the machine of
a `Replica`; docs/work.md has the states of a job, the rules, and what they promise.

Differences from brokers such as AMQP's: there is none. Each worker computes all assignments, so an
assignment costs no message; what costs one is that a job is done, and many jobs share it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.events import Cause, GroupView, MemberId, Message
from groupcomm_client.coordination.replica import Step
from groupcomm_client.coordination.replica_messages import Claim
from groupcomm_client.coordination.work_exchange import Exchange, pack, pieces_of
from groupcomm_client.coordination.work_messages import (
    Change,
    Discard,
    Entry,
    JobId,
    PutBack,
    QueueClaim,
    QueueState,
    Ready,
    Report,
    Settings,
    decode_command_untrusted,
    decode_piece_untrusted,
    decode_state_untrusted,
    encode,
)
from groupcomm_client.coordination.work_seen import Seen, unite

MOST_BYTES: Final = 48 * 2**20
"""The unfinished jobs that a set keeps; further jobs are refused. The state fits in a message."""

JOB_BYTES: Final = 200
"""What a job takes in a state, besides its data and names."""

MOST_WHY: Final = 500
"""The characters of the reason of a failure that are kept."""

MOST_AT_ONCE: Final = 10_000
"""The largest limit of one worker."""

Key: TypeAlias = Callable[[Message], bytes | None]
"""Returns the key of a job; it depends on nothing but the message."""


@attrs.frozen
class Given:
    """News: this worker is to do a job."""

    entry: Entry


@attrs.frozen
class Withdrawn:
    """News: a job is this worker's no longer."""

    id: JobId


@attrs.frozen
class WasSetAside:
    """News: a job has failed too often."""

    entry: Entry


@attrs.frozen
class WasRefused:
    """News: the set keeps too many jobs already, and does not keep this one."""

    id: JobId


@attrs.frozen
class Replaced:
    """News: the state is another one; earlier news are void."""


News: TypeAlias = Given | Withdrawn | WasSetAside | WasRefused | Replaced


@attrs.define
class Worker:
    """One worker, as the queue sees it.

    Attributes:
        limit: the number of jobs that it takes at a time.
        jobs: the jobs that it works on.
        bucket: the number of its jobs if it takes more; None: it takes no more.
    """

    limit: int
    jobs: dict[JobId, Entry] = attrs.field(factory=dict)
    bucket: int | None = None


class WorkQueue:
    """The jobs of one worker set; see the module.

    Attributes:
        settings: the rules of the set; None before its first worker.
        jobs: the unfinished jobs, by id.
        aside: the jobs that were set aside, by id.
        since: the place from which on the set has been there: jobs ordered before it are unknown
            to it, and would have to be read from a history of the group.
        refused: the number of jobs that were refused, as MOST_BYTES were kept.
        news: the news for the own worker, which takes them out.
    """

    settings: Settings | None
    since: Position | None
    refused: int
    jobs: dict[JobId, Entry]
    aside: dict[JobId, Entry]
    news: list[News]
    _bytes: int
    _seen: Seen
    _workers: dict[MemberId, Worker]
    _buckets: list[dict[MemberId, None]]  # by number of jobs: the workers that take more
    _least: int  # buckets below it are empty
    # Heaps of jobs that may be given, and of some that may not any more, by the workers at which
    # they have failed.
    _waiting: dict[tuple[MemberId, ...], list[JobId]]
    _first: dict[bytes, JobId]  # by key: the job that is given, or is to be next
    _lines: dict[bytes, list[JobId]]  # by key: a heap of the jobs behind it
    _added: dict[JobId, Entry]  # jobs of other states, while these are compared
    _exchange: Exchange

    def __init__(self, me: MemberId, key: Key | None = None) -> None:
        """Begin without any job.

        Args:
            me: the own worker; only it gets news.
            key: the keys of jobs, if those with the same key are to be done one after another.
        """
        self._me = me
        self._key = key
        self._load(QueueState(None, [], [], [], [], None, 0))

    # ---- what is there ----

    def limit_of(self, member: MemberId) -> int | None:
        """Return the limit of a worker; None if it has said none."""
        found = self._workers.get(member)
        return None if found is None else found.limit

    def jobs_of(self, member: MemberId) -> dict[JobId, Entry]:
        """Return the jobs on which a worker works."""
        found = self._workers.get(member)
        return {} if found is None else found.jobs

    @property
    def workers(self) -> dict[MemberId, int]:
        """Return the workers, with the number of jobs that each works on."""
        return {member: len(worker.jobs) for member, worker in sorted(self._workers.items())}

    def in_flight(self) -> Iterable[Entry]:
        """Yield the jobs on which workers work."""
        for worker in self._workers.values():
            yield from worker.jobs.values()

    # ---- steps ----

    def step(self, step: Step) -> None:
        """Carry out one step of the agreed order; see `MergeableMachine`."""
        what = step.what
        if isinstance(what, Message):
            self._on_job(what, step.at, transitional=step.transitional)
        elif isinstance(what, GroupView):
            self._on_view(what, step)
        elif step.sender is not None:
            self._on_command(what, step.sender)
        if step.majority is not False and not step.transitional:
            self._give()

    def _on_job(self, message: Message, id: JobId, *, transitional: bool) -> None:
        self._seen.note(id, transitional=transitional)
        entry = Entry(id, message.sender, message.type, message.data, self._key_of(message))
        size = _size(entry)
        if self._bytes + size > MOST_BYTES:
            self.refused += 1
            self.news.append(WasRefused(id))
            return
        self.jobs[id] = entry
        self._bytes += size
        self._enqueue(entry)

    def _key_of(self, message: Message) -> bytes | None:
        if self._key is None:
            return None
        try:
            key = self._key(message)
            return key if isinstance(key, bytes) else None
        except Exception:  # the program's own; all workers get the same, and go on without a key
            return None

    def _on_view(self, view: GroupView, step: Step) -> None:
        if self.since is None:
            self.since = step.at
        members = frozenset(view.members)
        why = "its worker has died" if view.cause is Cause.DISCONNECT else None
        for member in sorted(self._workers):
            if member not in members:
                self._withdraw_all(self._workers[member], why)
                self._leave_bucket(member, self._workers.pop(member))
            elif step.majority is False:
                self._withdraw_all(self._workers[member], None)

    def _on_command(self, data: bytes, sender: MemberId) -> None:
        match decode_command_untrusted(data):
            case Ready() as ready:
                self._on_ready(ready, sender)
            case Report() as report:
                self._on_report(report, sender)
            case PutBack(jobs):
                for id in jobs:
                    self._put_back(id)
            case Discard(jobs):
                for id in jobs:
                    if id in self.aside:
                        self._bytes -= _size(self.aside.pop(id))
            case None:
                pass

    def _on_ready(self, ready: Ready, sender: MemberId) -> None:
        if not self._workers.keys() - {sender}:
            self.settings = ready.settings  # the first worker of the set makes its rules
        if ready.settings == self.settings:
            worker = self._workers.setdefault(sender, Worker(0))
            worker.limit = max(0, min(ready.at_once, MOST_AT_ONCE))
            self._settle_bucket(sender, worker)

    def _on_report(self, report: Report, sender: MemberId) -> None:
        for id in report.done:
            self._finish(id)
        returned = ((id, given, None) for id, given in report.returned)
        failed = ((id, given, why or "it has failed") for id, given, why in report.failed)
        for id, given, why in (*returned, *failed):
            entry = self.jobs.get(id)
            if entry is not None and (entry.worker, entry.given) == (sender, given):
                self._avoid(entry, sender)
                self._withdraw(entry, why)
        for id, given in report.extended:
            entry = self.jobs.get(id)
            if entry is not None and (entry.worker, entry.given) == (sender, given):
                entry.extended += 1
        for id, given, extended in report.late:
            entry = self.jobs.get(id)
            if entry is not None and (entry.given, entry.extended) == (given, extended):
                self._on_late(entry)

    def _on_late(self, entry: Entry) -> None:
        """Take all jobs from a worker that takes too long, until it says that it is there."""
        member = entry.worker
        if member is None:
            return
        self._withdraw(entry, f"{member.name} has not done it in time")
        worker = self._workers[member]
        worker.limit = 0
        self._withdraw_all(worker, None)
        self._settle_bucket(member, worker)

    # ---- the way of a job ----

    def _give(self) -> None:
        """Give waiting jobs, the oldest first, to the workers with the fewest.

        A job that has failed at a worker waits for another one, while there is one: a worker that
        fails whatever it gets, at once, would have all jobs set aside beside good ones.
        """
        while (member := self._least_busy()) is not None:
            found: tuple[Entry, MemberId] | None = None
            for failed_at in list(self._waiting):
                entry = self._oldest(failed_at)
                if entry is not None and (found is None or entry.id < found[0].id):
                    suitable = self._suitable(failed_at, member)
                    found = found if suitable is None else (entry, suitable)
            if found is None:
                return
            heappop(self._waiting[found[0].failed_at])
            self._assign(*found)

    def _oldest(self, failed_at: tuple[MemberId, ...]) -> Entry | None:
        """Return the oldest waiting job that has failed at these workers."""
        waiting = self._waiting[failed_at]
        while waiting:
            entry = self.jobs.get(waiting[0])
            if (
                entry is not None
                and (entry.worker, entry.failed_at) == (None, failed_at)
                and self._is_first(entry)
            ):
                return entry
            heappop(waiting)
        del self._waiting[failed_at]
        return None

    def _suitable(self, failed_at: tuple[MemberId, ...], least: MemberId) -> MemberId | None:
        """Return the least busy worker for jobs that have failed at these; None: they wait."""
        if least not in failed_at:
            return least
        free = (member for bucket in self._buckets[self._least :] for member in bucket)
        other = next((member for member in free if member not in failed_at), None)
        return least if other is None and self._takers() <= set(failed_at) else other

    def _takers(self) -> set[MemberId]:
        """Return the workers that take jobs, also those that have enough now."""
        return {member for member, worker in self._workers.items() if worker.limit}

    def _push(self, entry: Entry) -> None:
        heappush(self._waiting.setdefault(entry.failed_at, []), entry.id)

    def _assign(self, entry: Entry, member: MemberId) -> None:
        worker = self._workers[member]
        worker.jobs[entry.id] = entry
        entry.worker = member
        entry.given += 1
        entry.extended = 0
        self._settle_bucket(member, worker)
        if member == self._me:
            self.news.append(Given(entry))

    def _withdraw_all(self, worker: Worker, why: str | None) -> None:
        for id in sorted(worker.jobs):  # in an order that a state tells
            self._withdraw(worker.jobs[id], why)

    def _withdraw(self, entry: Entry, why: str | None) -> None:
        """Take a job from its worker; `why` it counts as a failure of the job, if it does."""
        self._free(entry)
        if why is not None:
            entry.failures += 1
            entry.why = why[:MOST_WHY]
        if self.settings is not None and entry.failures >= self.settings.tries:
            del self.jobs[entry.id]
            self.aside[entry.id] = entry
            self._next_of(entry)
            self.news.append(WasSetAside(entry))
        else:
            self._enqueue(entry)

    def _avoid(self, entry: Entry, worker: MemberId) -> None:
        """Have a job avoid a worker until it has failed at all others."""
        takers = self._takers()
        failed_at = takers & {*entry.failed_at, worker}
        entry.failed_at = () if failed_at == takers else tuple(sorted(failed_at))

    def _free(self, entry: Entry) -> None:
        member = entry.worker
        assert member is not None, "the job waits"
        entry.worker = None
        worker = self._workers[member]
        del worker.jobs[entry.id]
        self._settle_bucket(member, worker)
        if member == self._me:
            self.news.append(Withdrawn(entry.id))

    def _finish(self, id: JobId) -> None:
        entry = self.jobs.pop(id, None)
        if entry is None:
            entry = self.aside.pop(id, None)
            if entry is not None:
                self._bytes -= _size(entry)
            return
        self._bytes -= _size(entry)
        if entry.worker is not None:
            self._free(entry)
        self._next_of(entry)

    def _put_back(self, id: JobId) -> None:
        entry = self.aside.pop(id, None)
        if entry is not None:
            entry.failures, entry.failed_at = 0, ()
            self.jobs[id] = entry
            self._enqueue(entry)

    # ---- keys: one job at a time, in order ----

    def _is_first(self, entry: Entry) -> bool:
        return entry.key is None or self._first[entry.key] == entry.id

    def _enqueue(self, entry: Entry) -> None:
        """Have a job wait: for a worker, or for the earlier ones with its key."""
        key, id = entry.key, entry.id
        if key is None:
            self._push(entry)
            return
        heappush(self._lines.setdefault(key, []), id)
        first = self._first.get(key)
        if first is None or first == id:
            self._choose_first(key)
        elif id < first and self.jobs[first].worker is None:
            heappush(self._lines[key], first)
            self._choose_first(key)

    def _next_of(self, entry: Entry) -> None:
        """Let the next job with the key of a job go on that is not there any more."""
        if entry.key is not None and self._first.get(entry.key) == entry.id:
            self._choose_first(entry.key)

    def _choose_first(self, key: bytes) -> None:
        line = self._lines[key]
        while line:
            id = heappop(line)
            if id in self.jobs:
                self._first[key] = id
                self._push(self.jobs[id])
                return
        del self._lines[key]
        self._first.pop(key, None)

    # ---- the least busy worker: buckets by number of jobs, in each the longest idle first ----

    def _least_busy(self) -> MemberId | None:
        buckets = self._buckets
        while self._least < len(buckets):
            if buckets[self._least]:
                return next(iter(buckets[self._least]))
            self._least += 1
        return None

    def _leave_bucket(self, member: MemberId, worker: Worker) -> None:
        if worker.bucket is not None:
            del self._buckets[worker.bucket][member]
            worker.bucket = None

    def _settle_bucket(self, member: MemberId, worker: Worker) -> None:
        """Put a worker last into the bucket of its number of jobs."""
        self._leave_bucket(member, worker)
        count = len(worker.jobs)
        if count < worker.limit:
            while len(self._buckets) <= count:
                self._buckets.append({})
            self._buckets[count][member] = None
            worker.bucket = count
            self._least = min(self._least, count)

    # ---- states ----

    def snapshot(self) -> bytes:
        """Return the whole state; equal states give equal bytes."""
        return encode(
            QueueState(
                self.settings,
                self._in_turn(),
                list(self.jobs.values()),
                list(self.aside.values()),
                self._seen.stretches,
                self.since,
                self.refused,
            )
        )

    def _in_turn(self) -> list[tuple[MemberId, int]]:
        """Return the workers and their limits, in the order in which they get jobs."""
        free = [member for bucket in self._buckets for member in bucket]
        busy = sorted(self._workers.keys() - set(free))
        return [(member, self._workers[member].limit) for member in free + busy]

    def restore(self, state: bytes) -> None:
        """Adopt a state that another worker's `snapshot` returned."""
        found = decode_state_untrusted(state)
        if found is not None:
            self._load(found)

    # ---- the one state that is made of several ----

    def claim(self) -> bytes:
        """Return what this state has, without the data of jobs; see `MergeableMachine`."""
        ids = [*sorted(self.jobs), *sorted(self.aside)]
        changes = [
            Change(
                *(place, entry.given, entry.failures, entry.extended),
                *(entry.worker, entry.why, entry.failed_at),
            )
            for place, id in enumerate(ids)
            if (entry := self.jobs.get(id) or self.aside[id]).given
        ]
        return encode(
            QueueClaim(
                self.settings,
                self._in_turn(),
                pack(self.jobs),
                pack(self.aside),
                changes,
                pack(self._added),
                self._seen.stretches,
                self.since,
                self.refused,
            )
        )

    def compare(self, claims: Sequence[Claim]) -> None:
        """Begin an exchange; see `MergeableMachine`."""
        self._exchange = Exchange(claims)

    def missing(self, mine: int, present: Collection[int]) -> list[bytes]:
        """Return the data of jobs that other states lack; see `MergeableMachine`."""
        wanted = self._exchange.wanted(present)
        ids = sorted(id for id, place in wanted.items() if place == mine)
        return pieces_of([entry for id in ids if (entry := self._data_of(id)) is not None])

    def is_missing(self, present: Collection[int]) -> bool:
        """Return whether data of jobs is still to come; see `MergeableMachine`."""
        return bool(self._exchange.wanted(present))

    def add(self, piece: bytes) -> None:
        """Keep the data of jobs; see `MergeableMachine`."""
        entries = decode_piece_untrusted(piece)
        self._exchange.deliver(entry.id for entry in entries)
        self._added.update((entry.id, entry) for entry in entries if entry.id not in self._added)

    def merge(self) -> None:
        """Adopt the state that is made of those of several parts of the network.

        A job is finished if one part has heard of it and has it no longer. Otherwise the latest
        assignment counts, and the largest number of failures.
        """
        exchange = self._exchange
        jobs: list[Entry] = []
        aside: list[Entry] = []
        for id in sorted(exchange.ids):
            bare = self._data_of(id)
            if bare is None:
                continue  # nobody who is there has its data
            change, is_aside = exchange.change_of(id)
            entry = Entry(
                *(bare.id, bare.sender, bare.type, bare.data, bare.key),
                *(change.given, change.failures, change.extended, change.worker, change.why),
                change.failed_at,
            )
            (aside if is_aside else jobs).append(entry)
        claims = [state.claim for state in exchange.states]
        workers: dict[MemberId, int] = {}
        for claim in claims:
            workers |= {member: limit for member, limit in claim.workers if member not in workers}
        self._load(
            QueueState(
                exchange.settings,
                list(workers.items()),
                jobs,
                aside,
                unite(claim.seen for claim in claims),
                min((claim.since for claim in claims if claim.since is not None), default=None),
                max((claim.refused for claim in claims), default=0),
            )
        )

    def _data_of(self, id: JobId) -> Entry | None:
        return self.jobs.get(id) or self.aside.get(id) or self._added.get(id)

    def _load(self, state: QueueState) -> None:
        self.settings = state.settings
        self.since = state.since
        self.refused = state.refused
        self.jobs = {entry.id: entry for entry in state.jobs}
        self.aside = {entry.id: entry for entry in state.aside}
        self._seen = Seen(state.seen)
        self._bytes = sum(_size(entry) for entry in (*state.jobs, *state.aside))
        self._workers = {member: Worker(limit) for member, limit in state.workers}
        self._buckets, self._least = [], 0
        self._waiting, self._first, self._lines = {}, {}, {}
        for entry in state.jobs:
            self._load_job(entry)
        for line in self._lines.values():
            heapify(line)
        for key in [key for key in self._lines if key not in self._first]:
            self._choose_first(key)
        for waiting in self._waiting.values():
            heapify(waiting)
        for member, worker in self._workers.items():
            self._settle_bucket(member, worker)
        self._added, self._exchange = {}, Exchange(())
        self.news = [Replaced()]

    def _load_job(self, entry: Entry) -> None:
        worker = None if entry.worker is None else self._workers.get(entry.worker)
        if worker is None or entry.key in self._first:  # two parts may have given jobs of one key
            entry.worker = None
        else:
            worker.jobs[entry.id] = entry
        if entry.key is None:
            if entry.worker is None:
                self._waiting.setdefault(entry.failed_at, []).append(entry.id)
            return
        line = self._lines.setdefault(entry.key, [])
        if entry.worker is None:
            line.append(entry.id)
        else:
            self._first[entry.key] = entry.id


def _size(entry: Entry) -> int:
    """Return about how many bytes of a state a job takes."""
    names = len(entry.sender.name) + len(entry.id.view.daemon) + len(entry.key or b"")
    return len(entry.data) + names + JOB_BYTES
