"""The exchange between several states of a worker set: what each has, and what others lack.

Pure. Claims have the names of jobs, some bytes each; the data of a job is sent only if a state
lacks it. All workers compute the same from the claims and from the pieces that were delivered.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Final, TypeVar

import attrs
from msgspec import structs

from groupcomm.clocks.stamp import Position
from groupcomm.events import MemberId
from groupcomm_client.coordination.replica_messages import Claim
from groupcomm_client.coordination.work_messages import (
    Change,
    Entry,
    Ids,
    JobId,
    QueueClaim,
    Settings,
    decode_claim_untrusted,
    encode,
)
from groupcomm_client.coordination.work_seen import Seen

PIECE_BYTES: Final = 48 * 1024
"""The bytes of a piece that is not one large job."""

ENTRY_BYTES: Final = 120
"""What a job takes in a piece, besides its data."""

MOST_IDS: Final = 2**20
"""The most jobs of a claim; more than a set keeps."""

_NOTHING: Final = Ids([], [], [], [], [], [])
_NO_CLAIM: Final = QueueClaim(None, [], _NOTHING, _NOTHING, [], _NOTHING, [], None, 0)
_UNCHANGED: Final = Change(0, 0, 0, 0, None, "", ())

T = TypeVar("T")


def pack(ids: Iterable[JobId]) -> Ids:
    """Return the names of jobs in few bytes; their order is lost."""
    views: list[list[object]] = []
    runs: list[list[int]] = []
    before: Position | None = None
    time = 0
    for id in sorted(ids):
        view, at, ring, bundle, message = id
        if before is not None and id == before._replace(message=before.message + 1):
            runs[-1][-1] += 1
        else:
            if before is None or view != before.view:
                views.append([view, 0])
                time = 0
            views[-1][1] += 1  # type: ignore[operator]
            runs.append([at - time, ring, bundle, message, 1])
            time = at
        before = id
    times, *others = map(list, zip(*runs, strict=True)) if runs else ([], [], [], [], [])
    short = [column[:1] if len(set(column)) == 1 else column for column in others]
    return Ids([(view, count) for view, count in views], times, *short)  # type: ignore[misc]


def unpack_untrusted(ids: Ids) -> list[JobId]:
    """Return the names of jobs, rising; those that make no sense are left out."""
    runs = len(ids.times)
    columns = [_column(part, runs) for part in (ids.rings, ids.bundles, ids.firsts, ids.counts)]
    views = chain.from_iterable(repeat(view, count) for view, count in ids.views)
    found: list[JobId] = []
    before, time = None, 0
    for view, delta, ring, bundle, first, count in zip(views, ids.times, *columns, strict=False):
        time = delta if view != before else time + delta
        before = view
        if len(found) + count > MOST_IDS:
            break
        found += [Position(view, time, ring, bundle, first + place) for place in range(count)]
    return found


def _column(values: list[T], count: int) -> list[T]:
    return values * count if len(values) == 1 else values


@attrs.frozen(kw_only=True)
class Claimed:
    """What one state has.

    Attributes:
        jobs, aside: what has become of each job that it has.
        added: the jobs of which it has the data, though it has not heard of them.
        seen: the jobs that it has heard of.
        holders: the workers that have this state.
        is_whole: whether it is that of the set; else it has only what came since its worker has
            joined: it knows which jobs there are, and which are done, but not whose they are.
    """

    claim: QueueClaim
    jobs: Mapping[JobId, Change]
    aside: Mapping[JobId, Change]
    added: Collection[JobId]
    seen: Seen
    holders: Collection[MemberId]
    is_whole: bool

    @classmethod
    def decode_untrusted(cls, said: Claim) -> "Claimed":
        """Decode a claim; bytes that no worker has sent claim nothing."""
        claim = decode_claim_untrusted(said.state or b"") or _NO_CLAIM
        jobs, aside = unpack_untrusted(claim.jobs), unpack_untrusted(claim.aside)
        changes = {change.id: change for change in claim.changes}
        return cls(
            claim=claim,
            jobs={id: changes.get(at, _UNCHANGED) for at, id in enumerate(jobs)},
            aside={id: changes.get(at, _UNCHANGED) for at, id in enumerate(aside, len(jobs))},
            added=frozenset(unpack_untrusted(claim.added)),
            seen=Seen(claim.seen),
            holders=said.holders,
            is_whole=said.version is not None,
        )

    def knows(self, id: JobId) -> bool:
        """Return whether the job is one of the unfinished ones, or was set aside."""
        return id in self.jobs or id in self.aside

    def has_data(self, id: JobId) -> bool:
        """Return whether the state has the data of a job."""
        return self.knows(id) or id in self.added

    def has_finished(self, id: JobId) -> bool:
        """Return whether the state has heard of a job, and has it no longer."""
        return id in self.seen and not self.knows(id)


class Exchange:
    """One comparison of states: the same at all workers.

    Attributes:
        states: what the states have, in the order of their claims.
        ids: the jobs that are not finished, of those that any state has.
    """

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.states = [Claimed.decode_untrusted(claim) for claim in claims]
        known = {id for state in self.states for id in (*state.jobs, *state.aside)}
        finished = {id for id in known if any(state.has_finished(id) for state in self.states)}
        self.ids = known - finished
        self._delivered: set[JobId] = set()
        self._wanted: dict[JobId, int] = {}
        self._present: frozenset[int] | None = None  # the states for which that was computed

    def wanted(self, present: Collection[int]) -> dict[JobId, int]:
        """Return the jobs whose data is still to come, each with the state that has to send it."""
        if self._present != frozenset(present):
            self._present = frozenset(present)
            there = [(place, self.states[place]) for place in sorted(present)]
            self._wanted = {}
            for id in self.ids - self._delivered:
                having = [place for place, state in there if state.has_data(id)]
                if having and len(having) < len(there):
                    self._wanted[id] = having[0]
        return self._wanted

    def deliver(self, ids: Iterable[JobId]) -> None:
        """Note that all have the data of these jobs."""
        for id in ids:
            self._delivered.add(id)
            self._wanted.pop(id, None)

    def change_of(self, id: JobId) -> tuple[Change, bool]:
        """Return what has become of a job, and whether it is set aside.

        The latest assignment counts, if the state of its worker has it, too: others may not know
        yet that it has ended, and a worker would have more jobs than it takes. The largest number
        of failures counts.
        """
        whole = [state for state in self.states if state.is_whole]
        jobs = [(state.jobs[id], state) for state in whole if id in state.jobs]
        known = jobs or [(state.aside[id], state) for state in whole if id in state.aside]
        if not known:
            return _UNCHANGED, False
        found = [(change, change.worker in state.holders) for change, state in known]
        latest, is_sure = max(found, key=lambda each: (each[0].given, each[1]))
        return (
            structs.replace(
                latest,
                failures=max(change.failures for change, _ in found),
                worker=latest.worker if is_sure else None,
            ),
            not jobs,
        )

    @property
    def settings(self) -> Settings | None:
        """Return the rules of the first state that has any."""
        found = (state.claim.settings for state in self.states)
        return next((settings for settings in found if settings is not None), None)


def pieces_of(entries: Iterable[Entry]) -> list[bytes]:
    """Return the data of jobs in pieces."""
    pieces: list[bytes] = []
    waiting: list[Entry] = []
    size = 0
    for entry in entries:
        bare = Entry(entry.id, entry.sender, entry.type, entry.data, entry.key)
        if waiting and size + len(entry.data) > PIECE_BYTES:
            pieces.append(encode(waiting))
            waiting, size = [], 0
        waiting.append(bare)
        size += len(entry.data) + ENTRY_BYTES
    return [*pieces, encode(waiting)] if waiting else pieces
