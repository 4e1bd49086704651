"""One worker, step by step: its messages, its deadlines, and what its program is told."""

from collections.abc import Sequence

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message, Transition
from groupcomm.level import ServiceLevel
from groupcomm_client.coordination.replica import Send
from groupcomm_client.coordination.replica_messages import Claim, Command, decode_untrusted, encode
from groupcomm_client.coordination.sharing import Action, Sharing, Withdraw
from groupcomm_client.coordination.work_messages import (
    Ready,
    Report,
    Settings,
    WorkCommand,
    decode_claim_untrusted,
    decode_command_untrusted,
)
from groupcomm_client.coordination.work_messages import encode as encode_command
from groupcomm_client.coordination.work_queue import WorkQueue
from groupcomm_client.events import Received

A, B, C = (MemberId(f"#{name}#d", 1) for name in "abc")
RULES = Settings(3, 8000, False)


class Bench:
    """Worker A in an order of its own: what it says is delivered at once, unless it is held."""

    def __init__(self, *, at_once: int = 2, settings: Settings = RULES) -> None:
        self.sharing = Sharing(A, "jobs", "jobs.p", settings=settings, at_once=at_once)
        self.view, self.time = ViewId(1, "d", 1), 0
        self.actions: list[Action] = []
        self.said: list[WorkCommand] = []
        self.members: tuple[MemberId, ...] = ()
        self.handle(DaemonView(id=self.view, daemons=("d",), majority=True))

    def handle(self, event: Received) -> None:
        actions = self.sharing.handle(event)
        self.actions += actions
        for action in actions:
            if isinstance(action, Send):
                self.message(A, action.data)

    def at(self) -> Position:
        self.time += 1
        return Position(self.view, self.time, 0, 0, 0)

    def message(
        self,
        sender: MemberId,
        data: bytes,
        group: str = "jobs.p",
        level: ServiceLevel = ServiceLevel.AGREED,
    ) -> Position:
        at = self.at()
        self.handle(
            Message(
                sender=sender, number=1, groups=(group,), level=level, type=0, data=data, bundle=at
            )
        )
        return at

    def joins(self, members: Sequence[MemberId], cause: Cause = Cause.JOIN) -> None:
        before, self.members = self.members, tuple(members)
        together = before or (A,)
        self.handle(
            GroupView(
                group="jobs.p",
                id=self.at(),
                members=self.members,
                cause=cause,
                changed=(),
                vs_set=together,
                own=False,
            )
        )

    def network(self, counter: int, members: Sequence[MemberId]) -> None:
        self.view, self.time = ViewId(counter, "d", 1), -1
        self.members = tuple(members)
        self.joins(members, Cause.NETWORK)

    def job(self, data: bytes) -> Position:
        return self.message(C, data, "jobs")

    def pop(self) -> tuple[bytes, WorkCommand] | None:
        """What it says next, which is not delivered yet."""
        data = self.sharing.pop_command()
        if data is None:
            return None
        found = decode_untrusted(data)
        assert isinstance(found, Command)
        command = decode_command_untrusted(found.data)
        assert command is not None
        return data, command

    def talk(self) -> list[WorkCommand]:
        """Deliver all that it says, and return it."""
        said = []
        while (popped := self.pop()) is not None:
            said.append(popped[1])
            self.message(A, popped[0])
        return said

    def other_says(self, command: WorkCommand, number: int = 1) -> None:
        self.message(B, encode(Command(number, encode_command(command))))

    def start(self) -> Position:
        """Hand a job to the program."""
        entry = self.sharing.next_job()
        assert entry is not None
        return entry.id

    def withdrawn(self) -> list[Position]:
        return [action.id for action in self.actions if isinstance(action, Withdraw)]


@pytest.fixture
def alone() -> Bench:
    found = Bench()
    found.joins([A])
    assert found.talk() == [Ready(2, RULES)]
    return found


@pytest.fixture
def pair(alone: Bench) -> Bench:
    alone.joins([A, B])
    alone.other_says(Ready(2, RULES))
    return alone


def test_the_program_has_no_more_jobs_than_its_limit(alone: Bench) -> None:
    ids = [alone.job(b"%d" % number) for number in range(4)]
    assert [alone.start(), alone.start()] == ids[:2]
    assert alone.sharing.next_job() is None
    alone.sharing.done(ids[0])
    alone.talk()
    assert alone.start() == ids[2]


def test_what_happens_while_a_report_is_under_way_is_in_the_next_one(alone: Bench) -> None:
    alone.sharing.at_once = 9
    alone.talk()
    ids = [alone.job(b"%d" % number) for number in range(5)]
    for id in ids:
        assert alone.start() == id
    alone.sharing.done(ids[0])
    first = alone.pop()
    assert first is not None
    for id in ids[1:4]:
        alone.sharing.done(id)
    alone.sharing.fail(ids[4], "no")
    assert alone.pop() is None
    assert not alone.sharing.is_quiet
    alone.message(A, first[0])
    assert alone.talk() == [Report(done=tuple(ids[1:4]), failed=((ids[4], 1, "no"),))]
    assert alone.sharing.is_quiet


def test_a_late_job_is_said_to_be_late_by_the_first_member_first(pair: Bench) -> None:
    id = pair.job(b"0")
    pair.sharing.look(100.0)
    pair.sharing.look(107.9)
    assert pair.talk() == []
    pair.sharing.look(108.0)
    said = pair.talk()
    assert said[0] == Report(late=((id, 1, 0),))
    second = Bench()
    second.joins([B, A])  # its state comes from B: without it, A says nothing
    second.sharing.look(0.0)
    assert second.talk() == []


def test_a_later_member_waits_a_little_longer(pair: Bench) -> None:
    pair.network(2, [B, A])
    pair.handle(DaemonView(id=pair.view, daemons=("d",), majority=True))
    id = pair.job(b"0")
    pair.sharing.look(0.0)
    pair.sharing.look(8.5)
    assert pair.talk() == []
    pair.sharing.look(9.0)
    assert pair.talk()[0] == Report(late=((id, 1, 0),))


def test_an_extended_job_is_not_late(pair: Bench) -> None:
    id = pair.job(b"0")
    pair.sharing.look(0.0)
    pair.start()
    pair.sharing.extend(id)
    assert pair.talk() == [Report(extended=((id, 1),))]
    pair.sharing.look(8.0)
    assert pair.talk() == []


def test_a_worker_that_has_not_let_go_of_a_late_job_takes_fewer(pair: Bench) -> None:
    id = pair.job(b"0")
    pair.start()
    pair.other_says(Report(late=((id, 1, 0),)))
    assert pair.withdrawn() == [id]
    assert pair.talk() == [Ready(1, RULES)]
    pair.sharing.fail(id, "too late")  # nobody wants to know
    assert pair.talk() == [Ready(2, RULES)]


def test_a_withdrawn_job_that_is_done_nevertheless_is_not_repeated(pair: Bench) -> None:
    id = pair.job(b"0")
    pair.start()
    pair.other_says(Report(late=((id, 1, 0),)))
    pair.sharing.done(id)
    assert Report(done=(id,)) in pair.talk()
    assert not pair.sharing.queue.jobs


def test_a_job_that_comes_back_waits_until_its_earlier_run_is_over(alone: Bench) -> None:
    id = alone.job(b"0")
    alone.start()
    alone.joins([A, B])
    alone.other_says(Report(late=((id, 1, 0),)))
    alone.talk()
    assert alone.sharing.queue.jobs[id].worker == A
    assert alone.sharing.next_job() is None
    alone.sharing.fail(id, "")
    assert alone.start() == id


def test_a_job_that_was_given_and_taken_away_at_once_is_not_handed_out(pair: Bench) -> None:
    id = pair.job(b"0")
    pair.other_says(Report(late=((id, 1, 0),)))
    assert pair.sharing.queue.jobs[id].worker == B
    assert pair.sharing.next_job() is None
    assert pair.withdrawn() == []


def test_a_done_job_is_not_begun_again_after_a_merge(pair: Bench) -> None:
    id = pair.job(b"0")
    pair.start()
    pair.sharing.done(id)
    report = pair.pop()
    assert report is not None
    pair.network(2, [A])
    pair.network(3, [A, B])  # A's claim is delivered, and then that of B
    theirs = WorkQueue(B)
    theirs.restore(pair.sharing.queue.snapshot())
    exchange = Position(pair.view, 0, 0, 0, 0)
    pair.message(B, encode(Claim(exchange, (B,), exchange, theirs.claim())))
    assert pair.sharing.is_current
    assert pair.sharing.queue.jobs[id].worker == A
    assert pair.sharing.next_job() is None
    pair.message(A, report[0])
    assert not pair.sharing.queue.jobs


def test_a_job_that_is_given_anew_by_a_merge_is_begun_anew(pair: Bench) -> None:
    id = pair.job(b"0")
    pair.start()
    pair.network(2, [A])
    pair.network(3, [A, B])
    theirs = WorkQueue(B)
    theirs.restore(pair.sharing.queue.snapshot())
    theirs.jobs[id].given += 1
    exchange = Position(pair.view, 0, 0, 0, 0)
    pair.message(B, encode(Claim(exchange, (B,), exchange, theirs.claim())))
    assert pair.sharing.queue.jobs[id].worker == A
    assert pair.withdrawn() == [id]
    assert pair.sharing.next_job() is None
    pair.sharing.fail(id, "")
    assert pair.start() == id


def test_a_newcomer_that_had_no_state_yet_knows_assignments_less_well() -> None:
    found = Bench()
    found.joins([B, C, A])
    found.other_says(Ready(1, RULES))
    id = found.job(b"0")  # A lacks what B and C know: that it is C's
    found.network(2, [B, C, A])
    claim = decode_claim_untrusted(found.sharing.queue.claim())
    assert claim is not None
    assert claim.changes[0].worker == B
    claim.workers.append((C, 1))
    claim.changes[0].worker = C
    exchange = Position(found.view, 0, 0, 0, 0)
    found.message(B, encode(Claim(exchange, (B, C), exchange, encode_command(claim))))
    assert found.sharing.is_current
    assert found.sharing.queue.jobs[id].worker == C


def test_who_joins_at_the_end_of_a_view_may_lack_jobs_of_it() -> None:
    """Seeds 394 and 632 of the workers under all faults: jobs between those it got were lost."""
    found = Bench()
    found.handle(Transition(view=found.view))
    found.joins([A])
    ids = [found.job(b"0"), found.job(b"1")]
    found.view, found.time = ViewId(2, "d", 1), -1
    found.handle(DaemonView(id=found.view, daemons=("d",), majority=True))
    found.joins([A], Cause.NETWORK)
    found.talk()
    ids += [found.job(b"2"), found.job(b"3")]
    claim = decode_claim_untrusted(found.sharing.queue.claim())
    assert claim is not None
    assert claim.seen == [(ids[0], ids[0]), (ids[1], ids[1]), (ids[2], ids[3])]


def test_who_joins_after_a_view_has_begun_lacks_no_jobs_of_it() -> None:
    found = Bench()
    found.handle(Transition(view=found.view))
    found.handle(DaemonView(id=found.view, daemons=("d",), majority=True))
    found.joins([A])
    found.talk()
    ids = [found.job(b"0"), found.job(b"1")]
    claim = decode_claim_untrusted(found.sharing.queue.claim())
    assert claim is not None
    assert claim.seen == [(ids[0], ids[1])]
    assert found.start() == ids[0]


def test_only_messages_with_a_place_in_the_agreed_order_are_jobs(alone: Bench) -> None:
    for level in ServiceLevel:
        alone.message(C, level.name.encode(), "jobs", level)
    jobs = [entry.data for entry in alone.sharing.queue.jobs.values()]
    assert jobs == [b"AGREED", b"SAFE"]


def test_who_only_looks_on_says_nothing_and_gets_nothing() -> None:
    found = Bench(at_once=0)
    found.joins([A])
    found.job(b"0")
    assert found.talk() == []
    assert found.sharing.next_job() is None
    assert len(found.sharing.queue.jobs) == 1


def test_other_rules_than_those_of_the_set_do_not_fit() -> None:
    found = Bench()
    found.joins([A])
    found.talk()
    assert found.sharing.fits
    found.sharing._settings = Settings(9, None, False)
    assert not found.sharing.fits
    assert found.talk() == []
