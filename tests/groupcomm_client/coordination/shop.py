"""Workers of one set at simulated daemons, and their accounts.

No job is lost while a worker that knows it lives; workers with the state have the same one at the
same place; and nobody works without a majority.
"""

import hashlib
from collections import Counter
from random import Random

from groupcomm.clocks.stamp import Position
from groupcomm.events import Connected, Event, MemberId, Message
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.settings import Settings as ClusterSettings
from groupcomm.sim.virtual_time import microseconds
from groupcomm_client.coordination.replica import Send, Step
from groupcomm_client.coordination.sharing import Sharing, Withdraw
from groupcomm_client.coordination.work_messages import JobId, Settings
from groupcomm_client.coordination.work_queue import Key, WasRefused, WasSetAside
from tests.groupcomm_client.coordination.crowd import Crowd, Seat

JOBS, CONTROL = "jobs", "jobs.set"
AT_ONCE = 3
DEADLINE_MS = 2000


class Worker:
    """A worker, and the jobs that it runs."""

    def __init__(self, shop: "Shop", seat: Seat, me: MemberId) -> None:
        self.me = me
        self.seat = seat
        self.sharing = Sharing(
            me,
            JOBS,
            CONTROL,
            settings=Settings(3, DEADLINE_MS, shop.key is not None),
            at_once=AT_ONCE,
            key=shop.key,
        )
        self.running: dict[JobId, bytes] = {}
        self.cut_off: dict[JobId, bytes] = {}
        self._there: set[JobId] = set()
        self._finished: set[JobId] = set()
        self._shop = shop
        self._step = self.sharing.queue.step
        self.sharing.queue.step = self._watch  # type: ignore[method-assign]

    def _watch(self, step: Step) -> None:
        """Note the jobs that the queue refuses, also those of which it does not tell."""
        before = self.sharing.queue.refused
        self._step(step)
        if self.sharing.queue.refused > before:
            assert isinstance(step.what, Message)
            self._shop.refused.add(step.what.data)

    def take(self, event: Event) -> None:
        assert not isinstance(event, Connected)
        in_the_set = self.sharing.replica.view is not None
        if isinstance(event, Message) and JOBS in event.groups and in_the_set:
            self._shop.heard.add(event.data)
        for action in self.sharing.handle(event):  # type: ignore[arg-type]
            match action:
                case Send(data):
                    self.seat.send(data, to=CONTROL)
                case Withdraw(id):
                    self.cut_off[id] = self.running.pop(id)
                case WasSetAside(entry):
                    self._shop.aside.add(entry.data)
                case WasRefused():
                    pass
        self.speak()
        self._shop.look(self)

    def speak(self) -> None:
        data = self.sharing.pop_command()
        if data is not None:
            self.seat.send(data, to=CONTROL)
        while (entry := self.sharing.next_job()) is not None:
            self._shop.start(self, entry.id)
            self.running[entry.id] = entry.data

    def check_finished(self) -> None:
        """Raise AssertionError if a job is back that was done."""
        queue = self.sharing.queue
        there = queue.jobs.keys() | queue.aside.keys()
        back = self._finished & there
        assert not back, f"{len(back)} jobs that were done are back, such as {min(back)}"
        self._finished |= self._there - there
        self._there = there

    def knows(self) -> set[bytes]:
        queue, replica = self.sharing.queue, self.sharing.replica
        known = {entry.data for entry in (*queue.jobs.values(), *queue.aside.values())}
        return known | {s.what.data for s in replica._backlog if isinstance(s.what, Message)}

    def _give_up(self, id: JobId, *, is_at_fault: bool) -> None:
        if is_at_fault:
            self.sharing.fail(id, "bad luck")
        else:
            self.sharing.give_back(id)

    def finish(self, rng: Random, *, failing: float) -> None:
        """Let go of a job."""
        for held in (self.cut_off, self.running):
            if held:
                id = rng.choice(sorted(held))
                data = held.pop(id)
                if rng.random() < failing:
                    self._give_up(id, is_at_fault=rng.random() < 0.5)
                else:
                    self.sharing.done(id)
                    self._shop.done[data] += 1
                break
        self.speak()


class Shop:
    """A crowd of workers, and its accounts."""

    def __init__(
        self,
        seed: int,
        daemons: int,
        *,
        faults: Faults | None = None,
        parts: bool = True,
        settings: ClusterSettings | None = None,
        key: Key | None = None,
    ) -> None:
        self.key = key
        self.sent = 0
        self.heard: set[bytes] = set()
        self.done: Counter[bytes] = Counter()
        self.started: Counter[JobId] = Counter()
        self.aside: set[bytes] = set()
        self.lost: set[bytes] = set()
        self.refused: set[bytes] = set()
        self.discarded: set[bytes] = set()
        self.states: dict[Position, str] = {}
        self.compared = self.overlaps = 0
        self.failing = 0.1
        self._known: dict[int, Worker] = {}
        self.crowd = Crowd(
            seed,
            daemons,
            self.make,
            self.may_crash,
            faults=faults,
            groups=(JOBS, CONTROL),
            settings=settings,
        )
        self.crowd.agree_s = 60.0  # the network stays bad
        self.crowd.gone = self.gone
        if not parts:
            self.crowd.part = lambda: None  # type: ignore[method-assign]

    @property
    def workers(self) -> list[Worker]:
        return list(self._known.values())

    def make(self, seat: Seat, me: MemberId) -> Worker:
        self._known[seat.daemon] = worker = Worker(self, seat, me)
        return worker

    def may_crash(self) -> bool:
        """Crashes of the last worker would lose jobs, rightly."""
        return sum(worker.sharing.is_current for worker in self._known.values()) > 1

    def gone(self, seat: Seat) -> None:
        worker = self._known.pop(seat.daemon, None)
        if worker is not None:
            others = [each.knows() for each in self._known.values()]
            self.lost |= {d for d in worker.knows() if not any(d in each for each in others)}

    def start(self, worker: Worker, id: JobId) -> None:
        self.started[id] += 1
        others = [each for each in self._known.values() if each is not worker]
        self.overlaps += sum(id in each.running for each in others)
        view = worker.sharing.replica.view
        assert view is not None
        for each in others:
            theirs = each.sharing.replica
            if id in each.running and theirs.view is not None and theirs.as_of is not None:
                # Whoever is behind does not know yet that the job was given to another one.
                behind = theirs.as_of != (worker.sharing.replica.as_of or view.id)
                assert behind or theirs.view.id.view != view.id.view, f"two at once on {id}"

    def look(self, worker: Worker) -> None:
        sharing = worker.sharing
        queue, replica = sharing.queue, sharing.replica
        if not sharing.is_current or replica._place.is_transitional:
            return
        assert replica.as_of is not None
        state = hashlib.sha256(queue.snapshot()).hexdigest()
        assert self.states.setdefault(replica.as_of, state) == state, "two states at one place"
        self.compared += 1
        assert set(worker.running) <= set(queue.jobs_of(worker.me))
        assert len(worker.running) + len(worker.cut_off) <= AT_ONCE
        is_minority = replica._majority is False
        assert not (is_minority and list(queue.in_flight())), "jobs are given in a minority"
        for member in queue.workers:
            assert len(queue.jobs_of(member)) <= AT_ONCE, "more jobs than a worker takes"
        worker.check_finished()
        keys = [entry.key for entry in queue.in_flight() if entry.key is not None]
        assert len(keys) == len(set(keys)), "two jobs of one key at once"

    def act(self, seat: Seat) -> None:
        """A program does something."""
        worker, rng = seat.program, self.crowd.rng
        assert isinstance(worker, Worker)
        what = rng.random()
        if what < 0.25:
            seat.send(b"%d" % self.sent, to=JOBS)
            self.sent += 1
        elif what < 0.8:
            worker.finish(rng, failing=self.failing)
        else:
            worker.sharing.look(self.crowd.cluster.loop.now / microseconds(1.0))
            worker.speak()

    def all_done(self) -> bool:
        """Have all jobs done; return whether there are none."""
        workers = list(self._known.values())
        self.failing = 0.0
        for worker in workers:
            for _ in range(AT_ONCE):
                worker.finish(self.crowd.rng, failing=0.0)
        return (
            len(workers) == len(self.crowd.seats)
            and all(each.sharing.is_current for each in workers)
            and len({each.sharing.queue.snapshot() for each in workers}) == 1
            and not workers[0].sharing.queue.jobs
            and len(workers[0].sharing.queue.workers) == len(workers)
        )

    def run(self, seconds: float, troubles_per_s: float) -> None:
        self.crowd.until(self.all_done)
        self.crowd.run(seconds, self.act, troubles_per_s)
        self.crowd.until(self.all_done)

    def check(self) -> None:
        found = next(iter(self._known.values())).sharing.queue
        aside = {entry.data for entry in found.aside.values()}
        missing = self.heard - self.done.keys() - aside - self.lost
        missing -= self.refused | self.discarded
        assert not missing, f"{len(missing)} jobs are lost, such as {sorted(missing)[:3]}"
