"""Wrong ways to share work."""

from collections.abc import Collection
from typing import Any

from groupcomm.events import GroupView, MemberId
from groupcomm_client.coordination.replica import Replica, Step
from groupcomm_client.coordination.work_exchange import Claimed, Exchange
from groupcomm_client.coordination.work_messages import Entry, JobId
from groupcomm_client.coordination.work_queue import Worker, WorkQueue
from tests.verification.mutants.mutant import Mutant, Right, mutant


@mutant((WorkQueue, "_on_view"))
def jobs_of_the_lost_are_kept_for_them(right: Right) -> Right:
    """A worker that has left keeps its jobs."""

    def on_view(self: WorkQueue, view: GroupView, step: Step) -> None:
        lost = [entry for entry in self.in_flight() if entry.worker not in view.members]
        kept = {entry.id: entry.worker for entry in lost}
        right(self, view, step)
        for id, worker in kept.items():
            if id in self.jobs:
                self.jobs[id].worker = worker

    return on_view


@mutant((WorkQueue, "step"))
def minority_gives_jobs(right: Right) -> Right:
    """A part without a majority gives jobs to its workers, too."""

    def step(self: WorkQueue, step: Step) -> None:
        right(self, step)
        if step.majority is False and not step.transitional:
            self._give()

    return step


@mutant((WorkQueue, "_enqueue"), (WorkQueue, "_is_first"), (WorkQueue, "_next_of"))
def keys_do_not_wait(_enqueue: Right, _is_first: Right, _next_of: Right) -> tuple[Right, ...]:
    """A job does not wait for the earlier ones with its key."""

    def enqueue(self: WorkQueue, entry: Entry) -> None:
        self._push(entry)

    def is_first(_self: WorkQueue, _entry: Entry) -> bool:
        return True

    def next_of(_self: WorkQueue, _entry: Entry) -> None:
        """Nobody waits for it."""

    return enqueue, is_first, next_of


@mutant((WorkQueue, "_enqueue"))
def keys_are_done_in_any_order(right: Right) -> Right:
    """A job whose key is free is given before an earlier one of that key that has failed."""

    def enqueue(self: WorkQueue, entry: Entry) -> None:
        if entry.key is not None and entry.failures and self._lines.get(entry.key):
            self._choose_first(entry.key)
            later = self._lines.setdefault(entry.key, [])
            later.append(entry.id)
            return
        right(self, entry)

    return enqueue


@mutant((WorkQueue, "_settle_bucket"))
def one_job_too_many(right: Right) -> Right:
    """A worker gets one job more than it takes."""

    def settle_bucket(self: WorkQueue, member: MemberId, worker: Worker) -> None:
        worker.limit += bool(worker.limit)
        right(self, member, worker)
        worker.limit -= bool(worker.limit)

    return settle_bucket


@mutant((WorkQueue, "_on_late"))
def late_jobs_are_waited_for(_right: Right) -> Right:
    """A job stays with its worker, however long that takes."""

    def on_late(_self: WorkQueue, _entry: Entry) -> None:
        """Nothing happens."""

    return on_late


@mutant((WorkQueue, "_on_report"))
def late_report_of_an_earlier_assignment_counts(right: Right) -> Right:
    """A job has failed also if who says so had it earlier, and lost it."""

    def on_report(self: WorkQueue, report: Any, sender: MemberId) -> None:
        for id, _given, _why in report.failed:
            entry = self.jobs.get(id)
            if entry is not None and entry.worker is not None:
                self._withdraw(entry, "it has failed")
        right(self, report, sender)

    return on_report


@mutant((Claimed, "has_finished"))
def what_others_have_done_comes_back(_right: Right) -> Right:
    """A job that one part has done is done again by the others when they meet."""

    def has_finished(_self: Claimed, _id: JobId) -> bool:
        return False

    return has_finished


@mutant((Exchange, "wanted"))
def merged_before_all_is_there(right: Right) -> Right:
    """Parts that meet go on once all have said what they have, though data is still to come."""

    def wanted(self: Exchange, present: Collection[int]) -> dict[JobId, int]:
        found: dict[JobId, int] = right(self, present)
        return dict(list(found.items())[1:])

    return wanted


@mutant((Replica, "_send_missing"))
def nobody_goes_on_for_the_lost(right: Right) -> Right:
    """If who sends what others lack leaves, nobody sends the rest."""

    def send_missing(self: Replica, view: GroupView) -> None:
        if view.id == self._exchange:
            right(self, view)

    return send_missing


@mutant((Replica, "_on_snapshot"))
def useless_snapshot_counts(right: Right) -> Right:
    """Who was sent a snapshot has the state, also if it was of no use to it."""

    def on_snapshot(self: Replica, view: GroupView, snapshot: Any) -> None:
        since = self._since
        if self.status.name == "CURRENT":
            self._since = snapshot.as_of
        right(self, view, snapshot)
        self._since = since

    return on_snapshot


BUGS: tuple[Mutant, ...] = (
    jobs_of_the_lost_are_kept_for_them,
    minority_gives_jobs,
    keys_do_not_wait,
    keys_are_done_in_any_order,
    one_job_too_many,
    late_jobs_are_waited_for,
    late_report_of_an_earlier_assignment_counts,
    what_others_have_done_comes_back,
    merged_before_all_is_there,
    nobody_goes_on_for_the_lost,
    useless_snapshot_counts,
)
