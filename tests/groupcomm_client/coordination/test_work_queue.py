"""The queue of a worker set, step by step: whose turn it is, failures, keys, and merges."""

from collections.abc import Sequence

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.coordination import work_queue
from groupcomm_client.coordination.replica import Step
from groupcomm_client.coordination.replica_messages import Claim
from groupcomm_client.coordination.work_messages import (
    Discard,
    PutBack,
    Ready,
    Report,
    Settings,
    WorkCommand,
    encode,
)
from groupcomm_client.coordination.work_queue import (
    Given,
    Replaced,
    WasRefused,
    WasSetAside,
    Withdrawn,
    WorkQueue,
)

A, B, C = (MemberId(f"#{name}#d", 1) for name in "abc")
FIRST, SECOND, THIRD = (ViewId(number, "d", 1) for number in (1, 2, 3))
RULES = Settings(2, None, False)


class Bench:
    """A queue that gets steps, at rising places."""

    def __init__(self, me: MemberId = A, *, keyed: bool = False) -> None:
        self.queue = WorkQueue(me, (lambda message: message.data[:1]) if keyed else None)
        self.view = FIRST
        self.majority: bool | None = None
        self.transitional = False
        self.time = 0
        self.is_whole = True  # whether its state is that of the set

    def step(self, what: GroupView | Message | bytes, sender: MemberId | None = None) -> Position:
        self.time += 1
        at = Position(self.view, self.time, 0, 0, 0)
        self.queue.step(Step(at, what, sender, self.transitional, self.majority))
        return at

    def members(self, members: Sequence[MemberId], cause: Cause = Cause.JOIN) -> None:
        at = Position(self.view, self.time, 0, 0, 0)
        self.step(
            GroupView(
                group="g",
                id=at,
                members=tuple(members),
                cause=cause,
                changed=(),
                vs_set=tuple(members),
                own=False,
            )
        )

    def network(self, view: ViewId, members: Sequence[MemberId]) -> None:
        self.view, self.time = view, 0
        self.members(members, Cause.NETWORK)

    def job(self, data: bytes) -> Position:
        return self.step(
            Message(
                sender=C,
                number=1,
                groups=("jobs",),
                level=ServiceLevel.AGREED,
                type=0,
                data=data,
                bundle=None,
            )
        )

    def says(self, worker: MemberId, command: WorkCommand) -> None:
        self.step(encode(command), worker)

    def ready(self, *workers: MemberId, at_once: int = 1) -> None:
        for worker in workers:
            self.says(worker, Ready(at_once, RULES))

    def work(self) -> dict[bytes, MemberId | None]:
        """Who works on what; None for a job that waits."""
        return {entry.data: entry.worker for entry in self.queue.jobs.values()}


def bench(*workers: MemberId, at_once: int = 1, keyed: bool = False) -> Bench:
    found = Bench(keyed=keyed)
    found.members(workers)
    found.ready(*workers, at_once=at_once)
    return found


def test_jobs_go_to_the_least_busy_and_of_those_to_the_longest_idle() -> None:
    found = bench(A, B, at_once=2)
    ids = [found.job(b"%d" % number) for number in range(5)]
    assert found.work() == {b"0": A, b"1": B, b"2": A, b"3": B, b"4": None}
    found.says(B, Report(done=(ids[1], ids[3])))
    assert found.work() == {b"0": A, b"2": A, b"4": B}
    found.says(B, Report(done=(ids[4],)))
    found.says(A, Report(done=(ids[0], ids[2])))
    found.job(b"5")
    assert found.work() == {b"5": B}  # idle for longer


def test_a_worker_gets_no_more_than_its_limit_and_none_before_it_is_ready() -> None:
    found = Bench()
    found.members([A, B])
    found.job(b"0")
    found.job(b"1")
    assert found.work() == {b"0": None, b"1": None}
    found.ready(B)
    assert found.work() == {b"0": B, b"1": None}
    found.says(B, Ready(0, RULES))
    found.ready(A)
    assert found.work() == {b"0": B, b"1": A}


def test_a_worker_with_other_rules_gets_nothing() -> None:
    found = bench(A)
    found.members([A, B])
    found.says(B, Ready(5, Settings(9, None, False)))
    assert found.queue.workers == {A: 0}
    found.members([B], Cause.LEAVE)
    found.says(B, Ready(5, Settings(9, None, False)))
    assert found.queue.workers == {B: 0}


def test_a_job_of_a_lost_worker_is_given_again_first() -> None:
    found = bench(A, B)
    for number in range(3):
        found.job(b"%d" % number)
    found.members([B], Cause.NETWORK)
    assert found.work() == {b"0": None, b"1": B, b"2": None}
    found.says(B, Report(done=tuple(found.queue.jobs)[1:2]))
    assert found.work() == {b"0": B, b"2": None}
    (job,) = found.queue.in_flight()
    assert (job.given, job.failures) == (2, 0)


def test_a_job_is_set_aside_when_it_fails_or_kills_too_often_and_is_put_back() -> None:
    found = bench(A, B)
    id = found.job(b"bad")
    found.says(A, Report(failed=((id, 1, "no paper"),)))
    assert found.work() == {b"bad": B}
    found.members([A], Cause.DISCONNECT)
    (aside,) = found.queue.aside.values()
    assert (aside.failures, aside.why) == (2, "its worker has died")
    assert found.queue.news[-1] == WasSetAside(aside)
    found.says(A, PutBack((id,)))
    assert found.work() == {b"bad": A}
    found.says(A, Report(failed=((id, 3, ""),)))
    assert found.work() == {b"bad": A}  # its earlier failures count no longer
    found.says(A, Report(failed=((id, 4, ""),)))
    assert not found.queue.jobs
    found.says(A, Discard((id,)))
    assert not found.queue.aside


def test_a_worker_that_fails_whatever_it_gets_has_no_job_set_aside_beside_a_good_one() -> None:
    found = bench(A, B)
    found.job(b"long")  # A has enough to do
    ids = [found.job(b"%d" % number) for number in range(20)]
    for number, id in enumerate(ids):
        assert found.work()[b"%d" % number] == B
        found.says(B, Report(failed=((id, 1, "no such command"),)))
    assert not found.queue.jobs_of(B)  # it has failed all that it may get
    for id in list(found.queue.jobs):
        assert found.queue.jobs[id].worker == A
        found.says(A, Report(done=(id,)))
    assert not found.queue.jobs
    assert not found.queue.aside


def test_a_job_that_fails_everywhere_goes_round_the_workers_until_it_is_set_aside() -> None:
    found = Bench()
    found.members([A, B, C])
    rules = Settings(5, None, False)
    for worker in (A, B, C):
        found.says(worker, Ready(1, rules))
    id, tried = found.job(b"bad"), list[MemberId | None]()
    while id in found.queue.jobs:
        job = found.queue.jobs[id]
        assert job.worker is not None
        tried.append(job.worker)
        found.says(job.worker, Report(failed=((id, job.given, "torn"),)))
    assert len(tried) == rules.tries
    assert set(tried[:3]) == {A, B, C}
    assert tried[3] != tried[4]
    assert id in found.queue.aside


def test_a_job_waits_for_no_worker_that_has_gone_or_takes_no_more() -> None:
    for leaves in (True, False):
        found = bench(A, B)
        long, id = found.job(b"long"), found.job(b"0")
        found.says(B, Report(failed=((id, 1, "torn"),)))
        assert found.work() == {b"long": A, b"0": None}
        if leaves:
            found.members([B], Cause.LEAVE)
            found.says(B, Report(done=(long,)))
        else:
            found.says(A, Ready(0, RULES))
        assert found.work()[b"0"] == B


def test_a_job_that_is_given_back_has_not_failed_and_goes_to_another_worker() -> None:
    found = bench(A, B)
    ids = [found.job(b"0"), found.job(b"1")]
    found.says(B, Report(returned=((ids[1], 2), (ids[0], 1))))  # neither is such an assignment
    assert found.work() == {b"0": A, b"1": B}
    found.says(B, Report(returned=((ids[1], 1),)))
    assert found.work() == {b"0": A, b"1": None}
    found.says(A, Report(done=(ids[0],)))
    assert found.work() == {b"1": A}
    assert found.queue.jobs[ids[1]].failures == 0


def test_only_its_worker_says_of_the_present_assignment_that_it_failed() -> None:
    found = bench(A, B)
    id = found.job(b"0")
    found.says(B, Report(failed=((id, 1, "x"),)))
    found.says(A, Report(failed=((id, 2, "x"),)))
    assert found.work() == {b"0": A}


def test_a_late_worker_loses_all_jobs_until_it_is_ready_again() -> None:
    found = bench(A, B, at_once=2)
    ids = [found.job(b"%d" % number) for number in range(4)]
    found.says(B, Report(late=((ids[0], 1, 1), (ids[0], 2, 0))))  # not the present assignment
    assert found.work()[b"0"] == A
    found.says(B, Report(late=((ids[0], 1, 0),)))
    assert found.work() == {b"0": None, b"1": B, b"2": None, b"3": B}
    assert [job.failures for job in found.queue.jobs.values()] == [1, 0, 0, 0]
    found.ready(A, at_once=1)
    assert found.work() == {b"0": A, b"1": B, b"2": None, b"3": B}


def test_an_extension_begins_the_deadline_anew() -> None:
    found = bench(A)
    id = found.job(b"0")
    found.says(A, Report(extended=((id, 1),)))
    found.says(A, Report(late=((id, 1, 0),)))
    assert found.work() == {b"0": A}
    found.says(A, Report(late=((id, 1, 1),)))
    assert found.work() == {b"0": None}


def test_done_counts_whoever_says_it() -> None:
    found = bench(A, B)
    ids = [found.job(b"0"), found.job(b"1"), found.job(b"2")]
    found.says(B, Report(done=(ids[0], ids[2])))
    assert found.work() == {b"1": B}
    news = [each for each in found.queue.news if not isinstance(each, Replaced)]
    assert [type(each) for each in news] == [Given, Withdrawn]


def test_jobs_of_one_key_are_done_one_at_a_time_in_order() -> None:
    found = bench(A, B, at_once=2, keyed=True)
    ids = [found.job(data) for data in (b"x0", b"x1", b"y0", b"x2")]
    assert found.work() == {b"x0": A, b"x1": None, b"y0": B, b"x2": None}
    found.says(A, Report(failed=((ids[0], 1, "x"),)))
    assert found.work()[b"x0"] is not None
    assert found.work()[b"x1"] is None
    found.says(A, Report(done=(ids[0],)))
    assert found.work()[b"x1"] is not None
    found.says(A, Report(done=(ids[3],)))  # one behind it may be done, by one that was cut off
    found.says(A, Report(done=(ids[1],)))
    assert found.work() == {b"y0": B}


def test_a_job_that_is_put_back_goes_before_the_later_ones_of_its_key() -> None:
    found = bench(A, keyed=True)
    first, second, third = (found.job(data) for data in (b"x0", b"x1", b"x2"))
    found.says(A, Report(failed=((first, 1, ""),)))
    found.says(A, Report(failed=((first, 2, ""),)))
    assert found.work() == {b"x1": A, b"x2": None}
    found.says(A, PutBack((first,)))
    assert found.work()[b"x1"] == A
    found.says(A, Report(failed=((second, 1, ""),)))
    assert found.work() == {b"x0": A, b"x1": None, b"x2": None}
    found.says(A, Report(done=(first,)))
    assert found.work() == {b"x1": A, b"x2": None}
    found.says(A, Ready(0, RULES))
    found.says(A, Report(failed=((second, 2, ""),)))
    assert found.work() == {b"x2": None}  # it is to be next, and is not given yet
    found.says(A, PutBack((second,)))
    found.ready(A)
    assert found.work() == {b"x1": A, b"x2": None}
    assert third in found.queue.jobs


def test_nothing_is_given_in_a_minority_or_while_a_view_ends() -> None:
    found = bench(A, B)
    found.job(b"0")
    found.transitional = True
    found.job(b"1")
    assert found.work() == {b"0": A, b"1": None}
    found.transitional, found.majority = False, False
    found.network(SECOND, [A, B])
    found.job(b"2")
    assert found.work() == {b"0": None, b"1": None, b"2": None}
    found.majority = True
    found.network(THIRD, [A, B])
    assert found.work() == {b"0": B, b"1": A, b"2": None}
    assert [job.failures for job in found.queue.jobs.values()] == [0, 0, 0]


def test_a_set_that_keeps_too_much_refuses_jobs() -> None:
    found = bench(A)
    big = bytes(work_queue.MOST_BYTES // 2 - 300)
    id = found.job(big)
    found.job(big)
    refused = found.job(b"x")
    assert found.queue.news[-1] == WasRefused(refused)
    assert (len(found.queue.jobs), found.queue.refused) == (2, 1)
    found.says(A, Report(done=(id,)))
    found.job(b"x")
    assert len(found.queue.jobs) == 2


def busy() -> Bench:
    """A queue with everything in it."""
    found = bench(A, B, C, at_once=2, keyed=True)
    ids = [found.job(data) for data in (b"x0", b"x1", b"x2", b"y0", b"z0", b"z1", b"u", b"v", b"w")]
    for given in (1, 2):
        worker = found.queue.jobs[ids[4]].worker
        assert worker is not None
        found.says(worker, Report(failed=((ids[4], given, "torn"),)))
        found.says(B, Report(done=(ids[3],)))  # so the job that has failed finds another worker
    found.says(B, Report(failed=((ids[7], 1, "worn"),)))
    found.says(A, Report(done=(ids[0],)))
    found.transitional = True
    found.job(b"q")
    found.transitional = False
    found.says(C, Ready(0, RULES))
    return found


def test_a_restored_queue_is_equal_and_stays_so() -> None:
    one, other = busy(), busy()
    other.queue.restore(one.queue.snapshot())
    assert other.queue.news == [Replaced()]
    ids = list(one.queue.jobs)
    for found in (one, other):
        found.members([B, C, A], Cause.DISCONNECT)
        found.ready(C, at_once=3)
        found.says(B, Report(done=(ids[1], ids[3])))
        found.says(C, PutBack(tuple(found.queue.aside)))
        found.job(b"x9")
        found.members([C, B], Cause.DISCONNECT)
    assert one.work() == other.work()
    assert one.queue.snapshot() == other.queue.snapshot()


def test_jobs_are_set_aside_in_one_order_also_where_the_state_was_restored() -> None:
    """Seed 49 of the workers under all faults."""
    found = bench(A, at_once=2)
    ids = [found.job(b"0"), found.job(b"1")]
    found.says(A, Report(failed=((ids[1], 1, ""),)))
    found.says(A, Report(failed=((ids[0], 1, ""),)))  # A has got 1 before 0
    restored = Bench(B)
    restored.queue.restore(found.queue.snapshot())
    restored.time = found.time
    for each in (found, restored):
        each.members([B], Cause.DISCONNECT)
    assert list(found.queue.aside) == ids
    assert restored.queue.snapshot() == found.queue.snapshot()


def test_a_worker_gets_no_more_than_it_takes_by_a_state_that_is_older_than_its_own() -> None:
    """Seed 22 of the workers under all faults."""
    one, other = bench(A, B, at_once=1), Bench(B)
    ids = [one.job(b"%d" % number) for number in range(4)]
    other.queue.restore(one.queue.snapshot())  # it comes straight to the view in which they meet
    one.network(SECOND, [A])
    one.says(A, Report(failed=((ids[0], 1, ""),)))
    one.says(A, Report(failed=((ids[0], 2, ""),)))
    assert list(one.queue.jobs_of(A)) == [ids[1]]
    found = merged(one, other)
    assert list(found.queue.jobs_of(A)) == [ids[1]]


def test_a_newcomer_that_has_not_got_the_state_knows_nothing_of_failures() -> None:
    one, newcomer = bench(A, B), Bench(C)
    newcomer.is_whole = False
    newcomer.members([A, B, C])
    newcomer.ready(B)
    id = one.job(b"0")
    newcomer.time = one.time - 1
    assert newcomer.job(b"0") == id
    newcomer.members([A, C], Cause.DISCONNECT)  # it takes A's job for one of B
    assert newcomer.queue.jobs[id].failures == 1
    found = merged(one, newcomer)
    assert found.queue.jobs[id].worker == A
    assert found.queue.jobs[id].failures == 0


def test_bytes_of_nobody_change_nothing() -> None:
    found = busy()
    before = found.queue.snapshot()
    for data in (b"", b"\xff" * 30, b"\x92\xa2rd\x01", b"\x92\xa2xx\x01"):
        found.step(data, A)
    found.queue.restore(b"\x90")
    assert found.queue.snapshot() == before


# ---- merges ----


def parted() -> tuple[Bench, Bench, list[Position]]:
    """Two parts of a set that have done three jobs together, and have three to do."""
    parts = []
    for me in (A, B):
        found = Bench(me)
        found.members([A, B])
        found.ready(A, B, at_once=2)
        ids = [found.job(b"%d" % number) for number in range(6)]
        found.says(A, Report(done=tuple(ids[:3])))
        found.network(SECOND if me == A else THIRD, [me])
        parts.append(found)
    return parts[0], parts[1], ids


def merged(*parts: Bench) -> Bench:
    """Have all of them adopt one state; return the first one."""
    queues = [part.queue for part in parts]
    at = Position(SECOND, 0, 0, 0, 0)
    claims = [
        Claim(at, (part.queue._me,), at if part.is_whole else None, part.queue.claim())
        for part in parts
    ]
    for queue in queues:
        queue.compare(claims)
    present = range(len(queues))
    for place, queue in enumerate(queues):
        for piece in queue.missing(place, present):
            for each in queues:
                each.add(piece)
    for queue in queues:
        assert not queue.is_missing(present)
        queue.merge()
    assert len({queue.snapshot() for queue in queues}) == 1
    return parts[0]


def test_a_job_that_one_part_has_done_is_done() -> None:
    one, other, ids = parted()
    one.says(A, Report(done=(ids[3],)))
    other.says(B, Report(done=(ids[4],)))
    late = other.job(b"late")
    other.says(B, Report(done=(late,)))
    assert list(merged(one, other).queue.jobs) == [ids[5]]


def test_a_job_that_only_one_part_has_heard_of_is_kept() -> None:
    one, other, ids = parted()
    new, newer = one.job(b"new"), other.job(b"newer")
    assert list(merged(one, other).queue.jobs) == [*ids[3:], new, newer]


def test_a_job_of_the_end_of_a_view_is_kept_though_a_later_one_is_done_elsewhere() -> None:
    one, other = Bench(A), Bench(B)
    for found in (one, other):
        found.members([A, B])
        found.ready(A, B)
        found.transitional = True
    one.time = other.time = 10
    hole = one.job(b"only here")
    other.time += 1
    both = one.job(b"both"), other.job(b"both")
    assert both[0] == both[1]
    other.says(B, Report(done=(both[1],)))
    assert list(merged(one, other).queue.jobs) == [hole]


def test_a_merged_state_remembers_the_end_of_a_view() -> None:
    one, other, third = Bench(A), Bench(B), Bench(C)
    for found in (one, other, third):
        found.members([A, B, C])
        found.ready(A, B, C)
        found.transitional = True
    id = one.job(b"x")
    assert third.job(b"x") == id
    one.says(A, Report(done=(id,)))
    other.time = 50
    other.says(B, Report(done=(other.job(b"y"),)))
    assert not merged(merged(one, other), third).queue.jobs


def test_a_merged_state_remembers_both_stretches_of_one_view() -> None:
    """Seed 347 of the workers under all faults: a third part brought a job back that was done."""
    one, other, third = Bench(A), Bench(B), Bench(C)
    for found in (one, third):
        found.members([A, C])
        found.ready(A, C)
        early = found.job(b"done early")
    one.says(A, Report(done=(early,)))
    between = third.job(b"between them")
    other.time = third.time + 1  # B joins when A has been cut off
    other.members([B])
    other.ready(B)
    other.says(B, Report(done=(other.job(b"done late"),)))
    both = merged(one, other)
    assert not both.queue.jobs
    assert list(merged(both, third).queue.jobs) == [between]


def test_the_latest_assignment_counts_and_most_failures() -> None:
    one, other, ids = parted()
    other.ready(B, at_once=9)
    id = next(id for id in ids[3:] if one.queue.jobs[id].given == 1)
    job = other.queue.jobs[id]
    assert (one.queue.jobs[id].worker, job.worker, job.given) == (A, B, 2)
    one.says(A, Report(failed=((id, 1, "x"),)))
    other.says(B, Report(failed=((id, 2, "x"),)))
    job = other.queue.jobs[id]
    job.given = 5
    job.failures = 0
    for parts in ((one, other), (other, one)):
        found = merged(*parts).queue.jobs[id]
        assert (found.worker, found.given, found.failures) == (B, 5, 1)


def test_of_equal_assignments_one_that_lasts_counts() -> None:
    one, other, ids = parted()
    other.majority = False
    other.network(ViewId(9, "d", 1), [B])
    equal = [id for id in ids[3:] if one.queue.jobs[id].given == other.queue.jobs[id].given]
    assert equal
    for parts in ((one, other), (other, one)):
        assert all(merged(*parts).queue.jobs[id].worker == A for id in equal if id != ids[5])


def test_a_job_that_one_part_has_set_aside_is_not_done() -> None:
    one, other, ids = parted()
    for _ in range(2):
        job = other.queue.jobs[ids[3]]
        other.says(B, Report(failed=((ids[3], job.given, "x"),)))
    assert ids[3] in other.queue.aside
    assert ids[3] in merged(one, other).queue.jobs  # the other part works on it
    one.says(A, Report(done=(ids[3],)))
    assert ids[3] not in merged(one, other).queue.aside


def test_a_queue_that_has_come_later_does_not_end_jobs_that_it_never_heard_of() -> None:
    one, _, ids = parted()
    newcomer = Bench(C)
    newcomer.time = 8  # it joins in the same view, behind some of the jobs
    newcomer.members([A, B, C])
    newcomer.time = 20
    newcomer.job(b"later")
    assert set(merged(newcomer, one).queue.jobs) >= set(ids[3:])


def test_two_jobs_of_a_key_that_two_parts_work_on_are_not_both_given() -> None:
    one, other = Bench(A, keyed=True), Bench(B, keyed=True)
    for found, view in ((one, SECOND), (other, THIRD)):
        found.members([A, B])
        found.ready(A, B)
        found.network(view, [A] if found is one else [B])
        found.job(b"x")
    both = merged(one, other)
    assert len(list(both.queue.in_flight())) == 1
    assert len(both.queue.jobs) == 2
